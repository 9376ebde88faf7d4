"""Reads runs on disk: the curves of a trial, and two runs as one."""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType

from msgspec.structs import replace

from ddptui.analysis.repeats import why_left_out
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.findings.compare import compare_runs
from ddptui.live.curves import LaunchCurves, TrialCurves, of_repeats
from ddptui.report.run_diff import differences
from ddptui.store.overview import results_of
from ddptui.store.runs import Run, RunError, TwoRuns
from ddptui.text.words import did_you_mean
from ddptui.wire.messages import Step


def repeats_shown(trial: TrialResult) -> list[int]:
    """The numbers of the repeats that count. If none does, the first one, which may have made some steps."""
    # No repeat is launched after one that ended badly, so the numbers have no gaps.
    numbered = enumerate(trial.repeats, start=1)
    return [number for number, repeat in numbered if why_left_out(repeat, trial.repeats) is None] or [1]


def curves_of(run: Run, trial: TrialResult, is_wanted: Callable[[], bool] = lambda: True) -> TrialCurves:
    """The curves of a trial. is_wanted: reading stops once it returns False. Raises RunError."""
    launches = []
    for number in repeats_shown(trial):
        launch = LaunchCurves()
        for message in takewhile(lambda _: is_wanted(), run.messages(trial.name, number)):
            if isinstance(message, Step):
                launch.add(message)
        launches.append(launch)
    return of_repeats(launches)


Matches = Mapping[str, str | None]  # by the name of a trial of A, that of B; None: it is left out
BY_NAME: Matches = MappingProxyType({})


def matches_of(typed: Sequence[str]) -> dict[str, str | None]:
    """What `--match A=B` says, once or more; `A=` matches a trial with none. Raises RunError."""
    matches: dict[str, str | None] = {}
    for text in typed:
        a, equals, b = text.partition("=")
        if not (a and equals):
            raise RunError(f"--match {text}: expected a trial of A and one of B, e.g. spawn=process")
        if a in matches:
            raise RunError(f"--match {text}: {a} is matched twice: leave one")
        matches[a] = b or None
    return matches


def compare_on_disk(a: Run, b: Run, matches: Matches = BY_NAME) -> tuple[Run, Preset, Results]:
    """Two runs as one. Raises RunError."""
    presets = a.preset(), b.preset()
    results, preset = compare_results(results_of(a, presets[0]), results_of(b, presets[1]), presets, matches)
    return TwoRuns(a, b), preset, results


def compare_results(
    a: Results, b: Results, presets: tuple[Preset, Preset], matches: Matches = BY_NAME
) -> tuple[Results, Preset]:
    """Two runs as one, with what differs between them. Raises RunError."""
    primitives = [results.run for results, preset in zip((a, b), presets, strict=True) if preset.kind == "primitives"]
    if len(primitives) == 1:
        raise RunError(f"{primitives[0]} ran primitives, the other run trained: name two runs of one kind")
    results, preset = compare_runs(a, b, presets, _partners(a, b, matches))
    return replace(results, differences=differences(a, b, results)), preset


def _partners(a: Results, b: Results, matches: Matches) -> dict[str, str]:
    """The trial of B by that of A: as they are matched, all others by name."""
    known = [{trial.name for trial in results.trials} for results in (a, b)]
    for mine, its in matches.items():
        for name, names, run in ((mine, known[0], f"A, {a.run}"), (its, known[1], f"B, {b.run}")):
            if name is not None and name not in names:
                hint = did_you_mean(name, names, f"it has {', '.join(sorted(names))}")
                raise RunError(f"--match {mine}={its or ''}: no trial {name!r} in {run}: {hint}")
    partners = {name: name for name in known[1] if name not in matches.values()} | {**matches}
    pairs = {trial.name: its for trial in a.trials if (its := partners.get(trial.name))}
    for its in pairs.values():
        if len(both := [mine for mine, other in pairs.items() if other == its]) > 1:
            raise RunError(f"--match: {' and '.join(both)} cannot both be compared with {its}: leave one")
    return pairs
