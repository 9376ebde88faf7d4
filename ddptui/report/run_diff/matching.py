"""Which trial of run A is compared with which one of run B: those of one name, unless the user matches others."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from ddptui.analysis.results import Results, TrialResult
from ddptui.config.trial import Bottleneck
from ddptui.config.trial_text import describe_bottleneck
from ddptui.report.run_diff.pairs import Pair, judged
from ddptui.text.words import did_you_mean

Matches = Mapping[str, str | None]  # by the name of a trial of A, that of B; None: it is compared with none
BY_NAME: Matches = MappingProxyType({})
NO_SETTING = "name"


class ComparisonError(ValueError):
    """Why two runs cannot be compared, and what to do."""


def matches_of(typed: Sequence[str]) -> dict[str, str | None]:
    """What `--match A=B` says, once or more; `A=` matches a trial with none. Raises ComparisonError."""
    matches: dict[str, str | None] = {}
    for text in typed:
        a, equals, b = text.partition("=")
        if not (a and equals):
            raise ComparisonError(f"--match {text}: expected a trial of A and one of B, e.g. spawn=process")
        if a in matches:
            raise ComparisonError(f"--match {text}: {a} is matched twice: leave one")
        matches[a] = b or None
    return matches


def pairs(a: Results, b: Results, matches: Matches = BY_NAME) -> list[Pair]:
    """The trials in pairs, in A's order: as they are matched, all others by name. Raises ComparisonError."""
    _check(a, b, matches)
    of_b, taken = _by_name(b), {*matches.values()}
    partners = {name: None if name in taken else name for name in of_b} | {**matches}
    found = [(trial, of_b.get(partners.get(trial.name) or "")) for trial in a.trials]
    return [*judged((trial, other) for trial, other in found if other is not None)]


def _check(a: Results, b: Results, matches: Matches) -> None:
    """Raises ComparisonError if a matched trial is not there, or two are matched with one."""
    of_a, of_b = _by_name(a), _by_name(b)
    for name, other in matches.items():
        for trial, known, run in ((name, of_a, f"A, {a.run}"), (other, of_b, f"B, {b.run}")):
            if trial is not None and trial not in known:
                hint = did_you_mean(trial, known, f"it has {', '.join(known)}")
                raise ComparisonError(f"--match {name}={other or ''}: no trial {trial!r} in {run}: {hint}")
    if twice := matched_twice(matches):
        names = " and ".join(name for name, other in matches.items() if other == twice[0])
        raise ComparisonError(f"--match: {names} cannot both be compared with {twice[0]}: leave one")


def matched_twice(matches: Matches) -> list[str]:
    """The trials of B that more than one trial of A is matched with."""
    others = [other for other in matches.values() if other is not None]
    return [other for other in dict.fromkeys(others) if others.count(other) > 1]


def suggested(a: Results, b: Results) -> dict[str, str | None]:
    """A match for each trial of A: the one of its name, else one with the same settings that is left."""
    of_b = _by_name(b)
    matches = {trial.name: trial.name if trial.name in of_b else None for trial in a.trials}
    for trial in a.trials:
        if matches[trial.name] is None:
            free = (other for other in b.trials if other.name not in matches.values())
            alike = (other.name for other in free if not settings_apart(Pair(trial, other)))
            matches[trial.name] = next(alike, None)
    return matches


def settings_apart(pair: Pair) -> list[str]:
    """The fields, besides the name, in which the trials of a pair differ."""
    keys = sorted((pair.a.config.keys() | pair.b.config.keys()) - {NO_SETTING})
    return [key for key in keys if setting(pair.a, key) != setting(pair.b, key)]


def setting(trial: TrialResult, key: str) -> object:
    """The value of a field; delays as the table shows them."""
    value = trial.config.get(key)
    return describe_bottleneck(msgspec.convert(value, tuple[Bottleneck, ...])) if key == "bottleneck" else value


def _by_name(results: Results) -> dict[str, TrialResult]:
    return {trial.name: trial for trial in results.trials}
