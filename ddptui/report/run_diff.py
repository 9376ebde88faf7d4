"""What differs between two runs besides their figures: load, settings, machine, versions."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

import msgspec

from ddptui.analysis.effect import beside_baseline
from ddptui.analysis.policy import MOST_OTHER_LOAD, Caution
from ddptui.analysis.repeats import finished
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.trial import Bottleneck
from ddptui.config.values import describe_bottleneck
from ddptui.report.rows import who
from ddptui.text.tables import grouped
from ddptui.text.words import NOTHING

Both = Sequence[tuple[TrialResult, TrialResult]]  # the trials that are compared, A's first
# Cautions that tell of slower figures; the others tell of figures that deceive.
SLOW_DOWN = {Caution.OTHER_LOAD, Caution.OVERSUBSCRIBED, Caution.HELD_BACK}
UNEXPLAINED = "no setting, version or load that was recorded explains how they differ"
# Of the environment: different in every run, or compared elsewhere.
NOT_COMPARED = {"load_before", "watched", "started", "preset", "executable", "packages"}
NO_DIFFERENCE = "none that was recorded: same trials, settings, machine, versions and load"


class Difference(NamedTuple):
    """What differs between the runs, and the names of the trials whose times it may explain."""

    text: str
    explains: Sequence[str] = ()


def differences(a: Results, b: Results, results: Results) -> list[str]:
    """What differs between runs A and B, which `results` has as one, a line each: load, then what nothing recorded
    explains, then presets, trials and repeats, fields, environment."""
    bases = [(results.base_of(trial), trial) for trial in results.trials]
    both = [(base, trial) for base, trial in bases if base and base is not trial]
    loads = [*_disturbances(a.environment, b.environment, both), *_other_loads(both)]
    settings = [*_contents(a, b, results), *_fields(both), *_environments(a.environment, b.environment, both)]
    explained = {name for difference in (*loads, *settings) for name in difference.explains}
    explained |= {trial.name for base, trial in both if SLOW_DOWN & (_raised(base) ^ _raised(trial))}
    decided = [effect for effect in beside_baseline(results) if effect.outcome in ("slower", "faster")]
    if unexplained := [effect.name for effect in decided if effect.name not in explained]:
        loads.append(Difference(f"{who(unexplained, len(both))}: {UNEXPLAINED}"))
    return [difference.text for difference in (*loads, *settings)] or [NO_DIFFERENCE]


def _disturbances(a: dict[str, Any], b: dict[str, Any], both: Both) -> Iterator[Difference]:
    """What differs in the load before the run, and in who watched it. Older runs did not record all of it."""
    was, now = a.get("load_before"), b.get("load_before")
    if isinstance(was, float | int) and isinstance(now, float | int) and abs(was - now) > MOST_OTHER_LOAD:
        yield Difference(f"load average before the run: {was:.1f} in A, {now:.1f} in B", _names(both))
    was, now = a.get("watched"), b.get("watched")
    if was and now and was != now:
        yield Difference(f"watched: {_changed(was, now)}; a console that draws takes time from the ranks", _names(both))


def _other_loads(both: Both) -> Iterator[Difference]:
    """The trials during which other programs kept more cores busy in one run than in the other."""
    loads = [(trial.name, _other_load(base), _other_load(trial)) for base, trial in both]
    apart = [(name, was, now) for name, was, now in loads if abs(was - now) > MOST_OTHER_LOAD]
    if apart:
        cores = "; ".join(f"{name} {now:.1f}, in A {was:.1f}" for name, was, now in apart)
        yield Difference(f"cores busy with other programs during training: {cores}", [name for name, *_ in apart])


def _other_load(trial: TrialResult) -> float:
    return median([repeat.other_load.cores for repeat in trial.repeats if repeat.other_load] or [0.0])


def _raised(trial: TrialResult) -> set[Caution]:
    return {*trial.summary.warnings} if trial.summary else set()


def _contents(a: Results, b: Results, results: Results) -> Iterator[Difference]:
    """What differs in the presets, the trials and the repeats."""
    if a.preset != b.preset:
        yield Difference(f"preset: {_changed(a.preset, b.preset)}")
    if alone := [trial.name for trial in results.trials if results.base_of(trial) is None]:
        yield Difference(f"no trial of the other run matches {', '.join(alone)}")
    # The trial that was run most often stands for all: a failed one has fewer repeats.
    repeats = [max(map(finished, results.trials), default=0) for results in (a, b)]
    if repeats[0] != repeats[1]:
        yield Difference(f"repeats: {_changed(*repeats)}")


def _fields(both: Both) -> list[Difference]:
    """The fields in which trials differ; trials with the same difference share a line."""
    changes = grouped(
        (f"{key}: {_changed(was, now)}", trial.name)
        for base, trial in both
        for key in sorted((base.config.keys() | trial.config.keys()) - {"name"})
        if (was := _setting(base, key)) != (now := _setting(trial, key))
    )
    return [Difference(f"{who(names, len(both))}: {change}", names) for change, names in sorted(changes.items())]


def _setting(trial: TrialResult, key: str) -> object:
    """The value of a field; delays as the table shows them."""
    value = trial.config.get(key)
    return describe_bottleneck(msgspec.convert(value, tuple[Bottleneck, ...])) if key == "bottleneck" else value


def _environments(a: dict[str, Any], b: dict[str, Any], both: Both) -> Iterator[Difference]:
    was, now = _flat(a), _flat(b)
    for key in sorted(was.keys() | now.keys()):
        if was.get(key) != now.get(key):
            yield Difference(f"{key}: {_changed(was.get(key), now.get(key))}", _names(both))


def _names(both: Both) -> list[str]:
    return [trial.name for _, trial in both]


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
