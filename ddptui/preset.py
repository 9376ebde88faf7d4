"""Trials and presets, as everybody imports them: what they are, the rules that they keep, and how they are spelled.

Both sides read this: the console to check a preset before anything starts, a rank to know what to do.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ddptui.engine import LOCAL, Engine
from ddptui.trial import (
    PATIENCE,
    TRIAL_FIELDS,
    Bottleneck,
    CompositeName,
    Fault,
    FaultKind,
    LaunchMode,
    MistakeName,
    OperationName,
    Site,
    StrategyName,
    Trial,
    TrialError,
    available_cores,
    choices,
    is_own_model,
    threads_a_rank,
)
from ddptui.trial_rules import MEANINGLESS_IN_MODE, make_trial, meaningless
from ddptui.trial_spelling import from_arguments, parse_assignment, to_arguments

__all__ = [
    "MEANINGLESS_IN_MODE", "PATIENCE", "TRIAL_FIELDS", "Bottleneck", "CompositeName", "Fault", "FaultKind",
    "LaunchMode", "MistakeName", "OperationName", "Preset", "Reference", "Site", "StrategyName", "Trial",
    "TrialError", "available_cores", "choices", "from_arguments", "is_own_model", "make_trial", "meaningless",
    "parse_assignment", "threads_a_rank", "to_arguments",
]  # fmt: skip


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was published for one of the trials, with its source; `step_ms`: for a step, where that was said, too."""

    trial: str
    train_time_s: Annotated[float, Meta(gt=0, lt=1e9)]
    step_ms: Annotated[float, Meta(gt=0, lt=1e9)] | None = None
    source: str = ""


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """One question, answered by a few trials."""

    name: str
    title: str
    group: str
    about: str
    baseline: str
    repeats: int
    trials: tuple[Trial, ...]
    kind: Literal["training", "primitives"] = "training"
    references: tuple[Reference, ...] = ()
    engine: Engine = LOCAL
