"""Explains a train time as a sum: own work, injected delays, waiting, transfer; and a difference of two likewise. Pure.

The parts are those of the ranks that had to wait: of all ranks but the culprit, or of all if there is none, as a mean.
From these ranks' view a late rank is not slow work but waiting, which is what its lateness costs. The parts are of the
repeat with the median train time (of the two in the middle, as a mean), so they add up to the train time in the table.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from ddptui.analysis.cautions import Caution
from ddptui.analysis.counted import all_changed, counted
from ddptui.analysis.results import RankResult, RepeatResult, TrialResult


class Breakdown(NamedTuple):
    """A time as the sum of its parts, in s. Of a difference, parts may be negative."""

    work: float = 0.0  # the ranks' own work, without injected delays
    delay: float = 0.0  # injected into these ranks
    culprit_wait: float = 0.0  # idle, for the culprit
    other_wait: float = 0.0  # idle, for other late ranks
    transfer: float = 0.0  # idle, while no rank was missing
    hidden: float = 0.0  # idle, and clocks are too far apart to tell whether it was waiting or transfer
    unexplained: float = 0.0  # in steps that could not be compared, in standstills, not instrumented, or host time

    @property
    def total(self) -> float:
        """The whole time."""
        return sum(self)

    @property
    def wait(self) -> float:
        """All waiting for late ranks."""
        return self.culprit_wait + self.other_wait

    def minus(self, other: "Breakdown") -> "Breakdown":
        """By how much this time is longer than the other one, part by part, if the parts of both are known."""
        if any(time.unexplained > time.total / 2 for time in (self, other)):  # as without instruments
            return Breakdown(unexplained=self.total - other.total)
        return Breakdown(*(mine - its for mine, its in zip(self, other, strict=True)))


def breakdown(trial: TrialResult) -> Breakdown | None:
    """The parts of a trial's train time; None: it has no figures."""
    if trial.summary is None:
        return None
    culprit = trial.summary.culprit.rank if trial.summary.culprit else None
    parts = [_of_repeat(repeat, culprit) for repeat in middle(counted(trial.repeats))]
    return Breakdown(*map(fmean, zip(*parts, strict=True)))


def difference(trial: TrialResult, baseline: TrialResult) -> Breakdown | None:
    """The parts by which a trial took longer than the baseline; None: one of them has no figures, or a hand has
    changed all repeats of the baseline."""
    if all_changed(baseline.repeats):
        return None
    mine, its = breakdown(trial), breakdown(baseline)
    return mine.minus(its) if mine and its else None


def middle(repeats: Sequence[RepeatResult]) -> list[RepeatResult]:
    """The repeat with the median train time; of an even number, the two in the middle."""
    by_time = sorted(repeats, key=lambda repeat: repeat.train_time_s)
    return by_time[(len(by_time) - 1) // 2 : len(by_time) // 2 + 1]


def _of_repeat(repeat: RepeatResult, culprit: int | None) -> Breakdown:
    if Caution.HOST_TIME in repeat.warnings and len(repeat.ranks) > 1:  # own work is, too
        return Breakdown(unexplained=repeat.train_time_s)
    ranks = [rank for rank in repeat.ranks if rank.rank != culprit]
    caused = next((rank.wait_caused_s for rank in repeat.ranks if rank.rank == culprit), None) or 0.0
    parts = [_of_rank(rank, repeat) for rank in ranks]
    known = Breakdown(*map(fmean, zip(*parts, strict=True)))
    # `wait_caused_s` is what all others waited for the culprit's own work, directly or along a chain of ranks.
    for_culprit = min(known.other_wait, caused / len(ranks))
    return known._replace(culprit_wait=for_culprit, other_wait=known.other_wait - for_culprit)


def _of_rank(rank: RankResult, repeat: RepeatResult) -> Breakdown:
    """All waiting is other_wait here."""
    delay = slept_in_steps(repeat).get(rank.rank, 0.0)
    idle = rank.exposed_s or 0.0
    known = Breakdown(
        work=max(0.0, sum(rank.work_s.values()) - delay),
        delay=delay,
        other_wait=rank.wait_s or 0.0,
        transfer=0.0 if rank.wait_s is None else max(0.0, idle - rank.wait_s),
        hidden=idle if rank.wait_s is None else 0.0,
    )
    return known._replace(unexplained=repeat.train_time_s - known.total)


def slept_in_steps(repeat: RepeatResult) -> dict[int, float]:
    """By rank, the delays injected into its steps, in s; one at the start is in no train time."""
    slept_s: dict[int, float] = {}
    for delay in repeat.injected:
        if delay.at != "start":
            slept_s[delay.rank] = slept_s.get(delay.rank, 0.0) + delay.s
    return slept_s
