"""Tables of how a run is made: a preset's trials, with the fields in which they differ first, and the environment."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from ddptui.analysis.results import Results
from ddptui.config.fields import FIELDS
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial, in_short
from ddptui.config.values import describe_average, describe_bottleneck, describe_fault
from ddptui.text.sanitize import shell_line
from ddptui.text.tables import Column, Filled, fill, telling
from ddptui.text.words import NOTHING, count, size

NAMES = {"load_before": "load average before the run"}  # of environment entries
# How the numbers of environment entries are shown, by the end of the entry's name, which is left out.
UNITS: Mapping[str, Callable[[float], str]] = {"_bytes": size, "_w": "{:.0f} W".format}


def facts(preset: Preset) -> list[Filled]:
    """The columns: the name, then the fields that differ between trials, then shared fields with a telling value."""
    columns = {"primitives": OF_PRIMITIVES, "command": OF_COMMAND}.get(preset.kind, OF_TRAINING)
    others = {name: partial(_value, name) for name, field in FIELDS.items() if not field.column and name not in columns}
    shown = {"trial": lambda trial: trial.name} | columns | others
    name, *filled = fill([Column(header, cell, left=True) for header, cell in shown.items()], preset.trials)
    shared = [fact for fact in telling(filled[: len(columns)]) if not differs(fact)]
    return [name, *filter(differs, filled), *shared]


def environment(results: Results) -> list[Filled]:
    """The columns: the names of a run's environment, and its values; of two runs those of both."""
    runs = results.environment.items() if results.of_two_runs else [("", results.environment)]
    flat = [(f"{run}: {name}" if run else name, value) for run, of_run in runs for name, value in _flat(of_run)]
    return [Filled(header, [pair[at] for pair in flat], left=True) for at, header in enumerate(("name", "value"))]


def _flat(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Flattens nested tables and lists into (path in words, value)."""
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value, start=1):
            yield from _flat(child, f"{path}.{key}" if path else str(key))
        return
    entry, dot, place = path.removeprefix("packages.").partition(".")
    words = "unknown" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
    for ending, form in UNITS.items():
        if entry.endswith(ending) and isinstance(value, int | float):
            entry, words = entry.removesuffix(ending), form(value)
    yield f"{NAMES.get(entry, entry)}{dot}{place}".replace("_", " "), words


def differs(fact: Filled) -> bool:
    """Whether the column's cells differ between trials."""
    return len(set(fact.cells)) > 1


def length(trial: Trial) -> str:
    """How long a trial trains: "3 epochs", "100 steps" or "until stopped"."""
    if trial.trains_until_stopped:
        return "until stopped"
    return count(trial.steps, "step") if trial.steps is not None else count(trial.epochs, "epoch")


def _model(trial: Trial) -> str:
    if trial.model != "mlp":
        return in_short(trial.model)
    return f"mlp {trial.depth}×{trial.width}{' BatchNorm' if trial.batch_norm else ''}"


def _value(field: str, trial: Trial) -> str:
    """The cell of a field that has no entry in the tables below: its value as --set takes it."""
    value = msgspec.to_builtins(getattr(trial, field))
    return NOTHING if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _done(trial: Trial) -> str:
    return "shown" if trial.primitives == "see" else "measured"


def _measured(cell: Callable[[Trial], str]) -> Callable[[Trial], str]:
    # With primitives = "see", each primitive is called once, with a small tensor, so there are no sizes.
    return lambda trial: cell(trial) if trial.primitives == "measure" else NOTHING


def _some(names: Sequence[str], otherwise: str) -> str:
    """The names, or their number if there are more than FEW; `otherwise` if there are none."""
    return otherwise if not names else ", ".join(names) if len(names) <= FEW else str(len(names))


ALL, FEW = "all", 2
OF_TRAINING: dict[str, Callable[[Trial], str]] = {
    "launch": lambda trial: trial.launch,
    "ranks": lambda trial: str(trial.world_size),
    "strategy": lambda trial: in_short(trial.strategy or NOTHING),
    "averages": lambda trial: describe_average(trial) or NOTHING,
    "mistake": lambda trial: trial.mistake or NOTHING,
    "bottleneck": lambda trial: describe_bottleneck(trial.bottleneck),
    "fault": lambda trial: describe_fault(trial.fault),
    "model": _model,
    "data": lambda trial: in_short(trial.dataset),
    "batch": lambda trial: str(trial.batch_size),
    "length": length,
}
OF_COMMAND: dict[str, Callable[[Trial], str]] = {
    "command": lambda trial: shell_line(trial.command),
    "env": lambda trial: " ".join(trial.env) or NOTHING,
    "bottleneck": lambda trial: describe_bottleneck(trial.bottleneck),
}
OF_PRIMITIVES: dict[str, Callable[[Trial], str]] = {
    "launch": lambda trial: trial.launch,
    "ranks": lambda trial: str(trial.world_size),
    "primitives": lambda trial: _some(trial.operations, ALL),
    "composites": lambda trial: _some(trial.composites, NOTHING),
    "are": _done,
    "by": lambda trial: ", ".join(trial.reduce_ops) or (ALL if trial.primitives == "see" else "sum"),
    "sizes": _measured(lambda trial: f"{size(trial.min_bytes)} to {size(trial.max_bytes)}"),
    "calls": _measured(lambda trial: f"≤ {trial.iterations} in {trial.cell_s:g} s"),
    "cadence": _measured(lambda trial: trial.cadence.replace("_", " ")),
    "root": lambda trial: str(trial.root),
}
