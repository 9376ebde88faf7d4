"""The trials of a preset side by side before they are run: what sets them apart first, then what they share. Pure."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ddptui.columns import NOTHING, count, describe_bottleneck, describe_fault, how_often
from ddptui.preset import TRIAL_FIELDS, Preset, Trial


class Fact(NamedTuple):
    """A column. `cells`: one a trial; `differs`: whether they do."""

    header: str
    cells: tuple[str, ...]
    differs: bool


def facts(preset: Preset) -> list[Fact]:
    """The name, then what differs, then what is the same everywhere and worth a column."""
    usual = [_fact(header, cell, preset) for header, cell in USUAL.items()]
    others = [_fact(field, _field(field), preset) for field in TRIAL_FIELDS if field not in SAID]
    apart = [fact for fact in [*usual, *others] if fact.differs]
    shared = [fact for fact in usual if not fact.differs and set(fact.cells) != {NOTHING}]
    return [_fact("trial", lambda trial: trial.name, preset), *apart, *shared]


def length(trial: Trial) -> str:
    return count(trial.steps, "step") if trial.steps is not None else count(trial.epochs, "epoch")


def _fact(header: str, cell: Callable[[Trial], str], preset: Preset) -> Fact:
    cells = tuple(cell(trial) for trial in preset.trials)
    return Fact(header, cells, len(set(cells)) > 1)


def _model(trial: Trial) -> str:
    if trial.model != "mlp":
        return trial.model
    return f"mlp {trial.depth}×{trial.width}{' BatchNorm' if trial.batch_norm else ''}"


def _field(field: str) -> Callable[[Trial], str]:
    """A field that has no column of its own, as --set would spell it."""

    def cell(trial: Trial) -> str:
        value = msgspec.to_builtins(getattr(trial, field))
        return NOTHING if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    return cell


USUAL: dict[str, Callable[[Trial], str]] = {
    "launch": lambda trial: trial.launch,
    "ranks": lambda trial: str(trial.world_size),
    "strategy": lambda trial: trial.strategy or NOTHING,
    "average": lambda trial: how_often(trial) or NOTHING,
    "mistake": lambda trial: trial.mistake or NOTHING,
    "bottleneck": lambda trial: describe_bottleneck(trial.bottleneck),
    "fault": lambda trial: describe_fault(trial.fault),
    "model": _model,
    "data": lambda trial: trial.dataset,
    "batch": lambda trial: str(trial.batch_size),
    "length": length,
}
SAID = {  # by the columns above
    "name", "launch", "world_size", "strategy", "average", "every", "mistake", "bottleneck", "fault", "model", "width",
    "depth", "batch_norm", "dataset", "batch_size", "epochs", "steps",
}  # fmt: skip
