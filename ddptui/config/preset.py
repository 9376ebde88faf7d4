"""A preset: one question, answered by a few trials, and the published figures beside them."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ddptui.config.engine import LOCAL, EngineOptions
from ddptui.config.trial import (
    Trial,
)


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
    engine: EngineOptions = LOCAL
