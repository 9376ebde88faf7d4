"""What differs between two runs besides their figures: load, cautions, trials, fields, environment."""

from collections.abc import Collection, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

import msgspec

from ddptui.analysis.cautions import MOST_OTHER_LOAD, WIDE, Caution
from ddptui.analysis.extent import finished
from ddptui.analysis.results import Results, Spread, TrialResult
from ddptui.report.notes import damage
from ddptui.report.rows import grouped, who
from ddptui.report.run_diff.matching import setting, settings_apart
from ddptui.report.run_diff.pairs import ALIKE, Pair, train_times
from ddptui.text.units import NOTHING
from ddptui.text.words import count

# Of the environment: other in every run, or compared elsewhere.
NOT_COMPARED = {"load_before", "watched", "started", "preset", "executable", "packages"}
# The other cautions tell of figures that deceive, not of slower ones.
SLOW_DOWN = {Caution.OTHER_LOAD, Caution.OVERSUBSCRIBED, Caution.HELD_BACK}


class Difference(NamedTuple):
    """What differs between the runs, and the names of the trials whose times it may explain."""

    text: str
    explains: Sequence[str] = ()


def differences(a: Results, b: Results, both: Sequence[Pair]) -> list[str]:
    """What differs between the runs and between the trials that are compared, a line each: first damage, load and
    cautions, then times that nothing recorded explains, then trials, their fields, the environment."""
    disturbed = [*_disturbances(a.environment, b.environment, both), *_other_loads(both), *_cautions(both)]
    settings = [*_contents(a, b, both), *_fields(both), *_environments(a, b, both)]
    explained = {name for difference in (*disturbed, *settings) for name in difference.explains}
    damaged = [f"{which}: {line}" for which, results in (("A", a), ("B", b)) for line in damage(results.unread or ())]
    unexplained = [*_unexplained(both, explained)]
    return damaged + [found.text for found in disturbed] + unexplained + [found.text for found in settings]


def _disturbances(a: dict[str, Any], b: dict[str, Any], both: Sequence[Pair]) -> Iterator[Difference]:
    """What differs in the load before the run, and in who watched it. Older runs did not record all of it."""
    was, now = a.get("load_before"), b.get("load_before")
    if isinstance(was, float | int) and isinstance(now, float | int) and abs(was - now) > MOST_OTHER_LOAD:
        yield Difference(f"load average before the run: {was:.1f} in A, {now:.1f} in B", _names(both))
    was, now = a.get("watched"), b.get("watched")
    if was and now and was != now:
        yield Difference(f"watched: {_changed(was, now)}; drawing takes time from the ranks", _names(both))


def _other_loads(both: Sequence[Pair]) -> Iterator[Difference]:
    """The trials during which other programs kept more cores busy in one run than in the other."""
    loads = [(pair.name, _other_load(pair.a), _other_load(pair.b)) for pair in both]
    apart = [(name, was, now) for name, was, now in loads if abs(was - now) > MOST_OTHER_LOAD]
    if apart:
        cores = "; ".join(f"{name} {was:.1f} in A, {now:.1f} in B" for name, was, now in apart)
        yield Difference(f"cores busy with other programs during training: {cores}", [name for name, *_ in apart])


def _other_load(trial: TrialResult) -> float:
    return median([repeat.other_load.cores for repeat in trial.repeats if repeat.other_load] or [0.0])


def _cautions(both: Sequence[Pair]) -> Iterator[Difference]:
    """The cautions that only one of the runs raised, with their trials."""
    for caution in Caution:
        for which, trial, other in (("A", 0, 1), ("B", 1, 0)):
            names = [pair.name for pair in both if caution in _raised(pair.both[trial]) - _raised(pair.both[other])]
            if names:
                text = f"caution only in {which}, {who(names, len(both))}: {caution.advice}"
                yield Difference(text, names if caution in SLOW_DOWN else ())


def _raised(trial: TrialResult) -> set[Caution]:
    return {*trial.summary.warnings} if trial.summary else set()


def _unexplained(both: Sequence[Pair], explained: Collection[str]) -> Iterator[str]:
    """The train times that differ by more than the repeats do; of a single repeat, by more than repeats often do."""
    for pair in both:
        times, repeats = train_times(pair), [len(trial.repeats) for trial in pair.both]
        if times is None or pair.name in explained:
            continue
        if times.factor.median > 1 + WIDE if min(repeats) < 2 else times.finding != ALIKE:
            a, b = (_train_time(time, number) for time, number in zip((times.a, times.b), repeats, strict=True))
            yield f"{pair.name}: {a} in A, {b} in B: nothing that was recorded explains it"


def _train_time(time: Spread, repeats: int) -> str:
    return f"{time.median:.2f} s" + (f" ({time.min:.2f}…{time.max:.2f})" if repeats > 1 else "")


def _contents(a: Results, b: Results, both: Sequence[Pair]) -> Iterator[Difference]:
    """What differs in the presets, the trials and the repeats."""
    if a.preset != b.preset:
        yield Difference(f"preset: {a.preset} in A, {b.preset} in B")
    for which, results, compared in (("A", a, [pair.a for pair in both]), ("B", b, [pair.b for pair in both])):
        names = {trial.name for trial in compared}
        if alone := [trial.name for trial in results.trials if trial.name not in names]:
            yield Difference(f"only in {which}: {', '.join(alone)}")
    # The trial that was run most often stands for all: a failed one has fewer repeats.
    repeats = [max(map(finished, results.trials), default=0) for results in (a, b)]
    if repeats[0] != repeats[1]:
        yield Difference(f"repeats: {count(repeats[0], 'repeat')} in A, {repeats[1]} in B")


def _fields(both: Sequence[Pair]) -> list[Difference]:
    """The fields in which trials differ; trials with the same difference share a line."""
    apart = [(key, pair) for pair in both for key in settings_apart(pair)]
    changed = [(key, setting(pair.a, key), setting(pair.b, key), pair.name) for key, pair in apart]
    changes = grouped((f"{key}: {_changed(before, after)}", name) for key, before, after, name in changed)
    return [Difference(f"{who(names, len(both))}: {change}", names) for change, names in sorted(changes.items())]


def _environments(a: Results, b: Results, both: Sequence[Pair]) -> list[Difference]:
    flat_a, flat_b = _flat(a.environment), _flat(b.environment)
    changes = [(key, flat_a.get(key), flat_b.get(key)) for key in sorted(flat_a.keys() | flat_b.keys())]
    return [Difference(f"{key}: {_changed(was, now)}", _names(both)) for key, was, now in changes if was != now]


def _names(both: Sequence[Pair]) -> list[str]:
    return [pair.name for pair in both]


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
