"""Two runs side by side: the trials that both have, and what else differs between them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from ddptui.analysis.counted import counted
from ddptui.analysis.results import RepeatResult, Results, Spread, TrialResult
from ddptui.config.trial import Bottleneck
from ddptui.config.trial_text import describe_bottleneck
from ddptui.report.columns import culprit_of, median_of
from ddptui.text.tables import Column
from ddptui.text.units import NOTHING
from ddptui.text.words import count

# Of the environment: other in every run, or compared elsewhere.
NOT_COMPARED = {"load_before", "started", "preset", "executable", "packages"}


class Pair(NamedTuple):
    """One trial in both runs."""

    a: TrialResult
    b: TrialResult


def pairs(a: Results, b: Results) -> list[Pair]:
    """The trials that both have, by name, in A's order."""
    others = {trial.name: trial for trial in b.trials}
    return [Pair(trial, others[trial.name]) for trial in a.trials if trial.name in others]


def _train(trial: TrialResult) -> str:
    return f"{trial.summary.train_time_s.median:.2f}" if trial.summary else trial.status


def _times(pair: Pair) -> tuple[Spread, Spread] | None:
    return (pair.a.summary.train_time_s, pair.b.summary.train_time_s) if pair.a.summary and pair.b.summary else None


def _fewest(pair: Pair) -> int:
    """How many repeats count in the run that has fewer."""
    return min(len(counted(trial.repeats)) for trial in pair)


def _ratio(pair: Pair) -> str:
    times = _times(pair)
    return f"{times[1].median / times[0].median:.2f}" if times and times[0].median else NOTHING


def _range(pair: Pair) -> str:
    """The least and the most that the ratio could be, given the repeats."""
    times = _times(pair)
    if not times or not times[0].min or _fewest(pair) < 2:
        return NOTHING
    return f"{times[1].min / times[0].max:.2f}…{times[1].max / times[0].min:.2f}"


def _verdict(pair: Pair) -> str:
    """Whether B is faster or slower, as far as the repeats can tell."""
    times = _times(pair)
    if times is None:
        return NOTHING
    if _fewest(pair) < 2:
        return "cannot tell: one repeat"
    if times[1].max < times[0].min:
        return "B faster"
    return "B slower" if times[1].min > times[0].max else "within the spread"


def _both(figure: Callable[[RepeatResult], float | None], form: str) -> Callable[[Pair], str]:
    """The medians of a figure over the repeats, A's first."""
    return lambda pair: _change(median_of(pair.a, figure, form), median_of(pair.b, figure, form))


def _change(a: str, b: str) -> str:
    return NOTHING if a == b == NOTHING else f"{a} → {b}"


COLUMNS: tuple[Column[Pair], ...] = (
    Column("trial", lambda pair: pair.a.name, left=True),
    Column("A train s", lambda pair: _train(pair.a)),
    Column("B train s", lambda pair: _train(pair.b)),
    Column("B / A", _ratio),
    Column("range", _range),
    Column("so B is", _verdict, left=True),
    Column("wait ms", _both(lambda repeat: repeat.wait_ms, ".2f")),
    Column("transfer ms", _both(lambda repeat: repeat.transfer_ms, ".2f")),
    Column("waits for", lambda pair: _change(culprit_of(pair.a), culprit_of(pair.b)), left=True),
    Column("loss", _both(lambda repeat: repeat.loss.last, ".3f")),
)


def differences(a: Results, b: Results) -> list[str]:
    """What may explain a difference between the figures, a line each: trials, their fields, the environment."""
    lines = [f"preset: {a.preset} in A, {b.preset} in B"] if a.preset != b.preset else []
    for which, results, other in (("A", a, b), ("B", b, a)):
        other_names = {trial.name for trial in other.trials}
        if alone := [trial.name for trial in results.trials if trial.name not in other_names]:
            lines.append(f"only in {which}: {', '.join(alone)}")
    # The trial that was run most often stands for all: a failed one has fewer repeats.
    repeats = [max((len(trial.repeats) for trial in results.trials), default=0) for results in (a, b)]
    if repeats[0] != repeats[1]:
        lines.append(f"repeats: {count(repeats[0], 'repeat')} in A, {repeats[1]} in B")
    lines += _fields(pairs(a, b))
    flat_a, flat_b = _flat(a.environment), _flat(b.environment)
    changes = [(key, flat_a.get(key), flat_b.get(key)) for key in sorted(flat_a.keys() | flat_b.keys())]
    return lines + [f"{key}: {_changed(was, now)}" for key, was, now in changes if was != now]


def _fields(both: Sequence[Pair]) -> list[str]:
    """The fields in which trials differ; trials with the same difference share a line."""
    trials_by_change: dict[str, list[str]] = {}
    for pair in both:
        for key in pair.a.config.keys() | pair.b.config.keys():
            was, now = _field(pair.a, key), _field(pair.b, key)
            if was != now:
                trials_by_change.setdefault(f"{key}: {_changed(was, now)}", []).append(pair.a.name)
    return [
        f"{'all trials' if len(names) == len(both) > 1 else ', '.join(names)}: {change}"
        for change, names in sorted(trials_by_change.items())
    ]


def _field(trial: TrialResult, key: str) -> object:
    """The value of a field; delays as the table shows them."""
    value = trial.config.get(key)
    return describe_bottleneck(msgspec.convert(value, tuple[Bottleneck, ...])) if key == "bottleneck" else value


def _flat(environment: dict[str, Any]) -> dict[str, Any]:
    """What is compared of an environment; each package is a key of its own."""
    packages = environment.get("packages")
    shown = {key: value for key, value in environment.items() if key not in NOT_COMPARED}
    return shown | (packages if isinstance(packages, dict) else {})


def _changed(was: object, now: object) -> str:
    return f"{_spelled(was)} in A, {_spelled(now)} in B"


def _spelled(value: object) -> str:
    if value in (None, NOTHING):
        return "none"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
