"""Whether a trial took longer than another one, as far as their repeats can tell. Pure.

A difference counts if it exceeds its own ±, as sentences show it, and if Student's t-test of the logarithms of the
train times finds it at the level of 5 %. The ± of two or three repeats alone is too small: in simulated
comparisons of equal trials it found a difference in 43 and 14 % (tests/unit/findings/test_effect.py).
"""

from collections.abc import Iterable, Sequence
from math import log, sqrt
from statistics import fmean, median, variance
from typing import Literal, NamedTuple

from ddptui.analysis.breakdown import Breakdown, difference
from ddptui.analysis.cautions import WIDE
from ddptui.analysis.counted import counted, none_counts, undisturbed
from ddptui.analysis.results import Ratio, RepeatResult, TrialResult

Outcome = Literal["slower", "faster", "alike", "unclear"]  # unclear: the repeats differ too much to tell


# A single repeat does not show its spread. Single repeats of the presets, on two cores, were off by up to a quarter.
SHOWN_BY_ONE = 0.25
FEWEST_PAIRS = 3  # for a test of pairs: of two, it finds next to nothing
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)  # t, 95 %, for 1, 2, … degrees of freedom


class Effect(NamedTuple):
    """A trial beside another one, which most often is the baseline."""

    trial: TrialResult
    baseline: TrialResult
    outcome: Outcome
    ratio: Ratio
    repeats: int  # of the one that has fewer

    @property
    def name(self) -> str:
        return self.trial.name

    @property
    def difference(self) -> Breakdown:
        """By how much it took longer, in parts."""
        return difference(self.trial, self.baseline) or Breakdown()


def effects(trials: Iterable[TrialResult], baseline: TrialResult) -> list[Effect]:
    """Of all trials that have a ratio, but the baseline itself."""
    return [
        _effect(trial, baseline, ratio, _times(trial, baseline))
        for trial in trials
        if trial.name != baseline.name and trial.summary and (ratio := trial.summary.ratio)
    ]


def effect_between(trial: TrialResult, other: TrialResult) -> Effect | None:
    """Of a trial beside one that is not the baseline; None: they cannot be compared."""
    if not trial.repeats or not other.repeats or none_counts(trial.repeats) or none_counts(other.repeats):
        return None
    times = _times(trial, other)
    if times.are_pairs:
        ratios = [a / b for a, b in zip(times.mine, times.its, strict=True)]
        ratio = Ratio(median=median(ratios), low=min(ratios), high=max(ratios))
    else:
        ratio = Ratio(
            median=median(times.mine) / median(times.its),
            low=min(times.mine) / max(times.its),
            high=max(times.mine) / min(times.its),
        )
    return _effect(trial, other, ratio, times)


def inverted(ratio: Ratio) -> Ratio:
    """The ratio of the other one to this one."""
    return Ratio(median=1 / ratio.median, low=1 / ratio.high, high=1 / ratio.low)


def off(ratio: Ratio) -> float:
    """How far the repeats lie from their median at most."""
    return max(ratio.high - ratio.median, ratio.median - ratio.low)


def spread(trial: TrialResult) -> float:
    """How far the repeats' train times lie apart, as a part of their median."""
    time = trial.summary.train_time_s if trial.summary else None
    return (time.max - time.min) / time.median if time else 0.0


def exceeds(factor: Ratio, uncertain: float) -> bool:
    """Whether a factor of at least 1 differs from 1 by more than the uncertainty, as sentences show both: 1.04 ± 0.04
    does not."""
    return round(factor.median - 1, 2) > round(uncertain, 2)


def is_significant(mine: Sequence[float], its: Sequence[float], *, are_pairs: bool) -> bool:
    """Student's t-test ("The probable error of a mean", 1908) of the logarithms of two trials' times, since noise is a
    part of the time: of pairs, if there are three at least, which leaves out what slows both; else of two samples with
    one variance. Of each trial there are two times at least."""
    a, b = (list(map(log, times)) for times in (mine, its))
    if are_pairs and len(a) >= FEWEST_PAIRS:
        differences = [x - y for x, y in zip(a, b, strict=True)]
        freedom, apart, squared = len(a) - 1, fmean(differences), variance(differences) / len(a)
    else:
        freedom, apart = len(a) + len(b) - 2, fmean(a) - fmean(b)
        pooled = (variance(a) * (len(a) - 1) + variance(b) * (len(b) - 1)) / freedom
        squared = pooled * (1 / len(a) + 1 / len(b))
    return abs(apart) > STUDENT[min(freedom, len(STUDENT)) - 1] * sqrt(squared)


class _Times(NamedTuple):
    """The train times of two trials that are compared, in s. are_pairs: of the same repeats, which are interleaved, so
    that a machine that slows down slows both."""

    mine: list[float]
    its: list[float]
    are_pairs: bool


def _times(trial: TrialResult, other: TrialResult) -> _Times:
    if len(trial.repeats) == len(other.repeats):  # else nothing tells which have the same number
        mine, its = (undisturbed(dict(enumerate(each.repeats))) for each in (trial, other))
        if both := [number for number in mine if number in its]:
            mine_s, its_s = (_train_times([each[number] for number in both]) for each in (mine, its))
            return _Times(mine_s, its_s, True)
    return _Times(_train_times(counted(trial.repeats)), _train_times(counted(other.repeats)), False)


def _train_times(repeats: Iterable[RepeatResult]) -> list[float]:
    return [repeat.train_time_s for repeat in repeats]


def _effect(trial: TrialResult, baseline: TrialResult, ratio: Ratio, times: _Times) -> Effect:
    repeats = min(len(times.mine), len(times.its))
    factor = ratio if ratio.median >= 1 else inverted(ratio)
    uncertain = off(factor) if repeats > 1 else SHOWN_BY_ONE
    outcome: Outcome = "unclear" if repeats < 2 or max(map(spread, (trial, baseline))) > WIDE else "alike"
    if exceeds(factor, uncertain) and (repeats < 2 or is_significant(times.mine, times.its, are_pairs=times.are_pairs)):
        outcome = "slower" if ratio.median > 1 else "faster"
    return Effect(trial, baseline, outcome, ratio, repeats)
