"""Whether a trial took longer than another one, as far as their repeats can tell. Pure.

A difference counts if it exceeds its own ±, as sentences show it, and if Student's t-test of the logarithms of the
train times finds it at the level of 5 %. The ± of two or three repeats alone is too small: in simulated
comparisons of equal trials it found a difference in 43 and 14 % (tests/unit/analysis/test_effect.py).
"""

from collections.abc import Iterable
from math import log, sqrt
from statistics import fmean, median, variance
from typing import Literal, NamedTuple

from ddptui.analysis.breakdown import Breakdown, difference
from ddptui.analysis.cautions import WIDE
from ddptui.analysis.counted import counted, none_counts
from ddptui.analysis.results import Ratio, TrialResult

Outcome = Literal["slower", "faster", "alike", "unclear"]  # unclear: the repeats differ too much to tell


# A single repeat does not show its spread. Single repeats of the presets, on two cores, were off by up to a quarter.
SHOWN_BY_ONE = 0.25
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
        _effect(trial, baseline, ratio)
        for trial in trials
        if trial.name != baseline.name and trial.summary and (ratio := trial.summary.ratio)
    ]


def effect_between(trial: TrialResult, other: TrialResult) -> Effect | None:
    """Of a trial beside one that is not the baseline; None: they cannot be compared."""
    if not trial.repeats or not other.repeats or none_counts(trial.repeats) or none_counts(other.repeats):
        return None
    mine, its = ([repeat.train_time_s for repeat in counted(each.repeats)] for each in (trial, other))
    if len(trial.repeats) == len(other.repeats) == len(mine) == len(its):  # of the same repeats: they are interleaved
        ratios = [a / b for a, b in zip(mine, its, strict=True)]
        ratio = Ratio(median=median(ratios), low=min(ratios), high=max(ratios))
    else:
        ratio = Ratio(median=median(mine) / median(its), low=min(mine) / max(its), high=max(mine) / min(its))
    return _effect(trial, other, ratio)


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


def _effect(trial: TrialResult, baseline: TrialResult, ratio: Ratio) -> Effect:
    repeats = min(len(counted(trial.repeats)), len(counted(baseline.repeats)))
    return Effect(trial, baseline, _outcome(ratio, repeats, (trial, baseline)), ratio, repeats)


def _outcome(ratio: Ratio, repeats: int, trials: tuple[TrialResult, TrialResult]) -> Outcome:
    factor = ratio if ratio.median >= 1 else inverted(ratio)
    uncertain = off(factor) if repeats > 1 else SHOWN_BY_ONE
    exceeds = round(factor.median - 1, 2) > round(uncertain, 2)  # as sentences show them: 1.04 ± 0.04 is no difference
    if exceeds and (repeats < 2 or is_significant(*trials)):
        return "slower" if ratio.median > 1 else "faster"
    return "unclear" if repeats < 2 or max(map(spread, trials)) > WIDE else "alike"


def is_significant(trial: TrialResult, other: TrialResult) -> bool:
    """Student's t-test for two samples with one variance ("The probable error of a mean", 1908), of logarithms, since
    noise is a part of the time. Each trial has two repeats at least."""
    mine, its = ([log(repeat.train_time_s) for repeat in counted(each.repeats)] for each in (trial, other))
    freedom = len(mine) + len(its) - 2
    pooled = (variance(mine) * (len(mine) - 1) + variance(its) * (len(its) - 1)) / freedom
    error = sqrt(pooled * (1 / len(mine) + 1 / len(its)))
    return abs(fmean(mine) - fmean(its)) > STUDENT[min(freedom, len(STUDENT)) - 1] * error
