"""Results with other words for some of their trials, repeats or ranks."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ddptui.analysis.results import RankResult, RepeatResult, Results, TrialResult

Fields = dict[str, Any]


def edited(
    results: Results,
    *,
    trial: Callable[[TrialResult], Fields] = lambda _: {},
    repeat: Callable[[TrialResult, RepeatResult], Fields] = lambda *_: {},
    rank: Callable[[TrialResult, RankResult], Fields] = lambda *_: {},
) -> Results:
    """The same results, with what each call says of each trial, repeat and rank."""
    trials = []
    for one in results.trials:
        repeats = []
        for each in one.repeats:
            ranks = [replace(own, **rank(one, own)) for own in each.ranks]
            repeats.append(replace(each, **{"ranks": ranks} | repeat(one, each)))
        trials.append(replace(one, **{"repeats": repeats} | trial(one)))
    return replace(results, trials=trials)


def warned(results: Results, warnings: Callable[[TrialResult], list[Any]]) -> Results:
    """The same results, with these cautions in each trial's summary."""
    return edited(results, trial=lambda one: {"summary": one.summary and replace(one.summary, warnings=warnings(one))})
