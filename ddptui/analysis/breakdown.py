"""Splits a train time, or the difference of two, into own work, injected delays, waiting and transfer. Pure.

The parts are means over the ranks that had to wait: all ranks but the culprit, or all ranks if there is no culprit. For
these ranks a late rank shows up as waiting, which is what its lateness costs. The parts come from the repeat with the
median train time (or are means of the middle two), so they add up to the train time in the table.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from ddptui.analysis.cautions import Caution
from ddptui.analysis.counted import all_changed, counted
from ddptui.analysis.results import RankResult, RepeatResult, TrialResult


class Breakdown(NamedTuple):
    """The parts of a time, in s. In a difference of two times, parts may be negative."""

    work: float = 0.0  # the ranks' own work, without injected delays
    delay: float = 0.0  # delays injected into these ranks
    culprit_wait: float = 0.0  # idle, waiting for the culprit
    other_wait: float = 0.0  # idle, waiting for other late ranks
    transfer: float = 0.0  # idle, while no rank was missing
    hidden: float = 0.0  # idle; the clock error is too large to tell waiting from transfer
    unexplained: float = 0.0  # steps that could not be compared, standstills, no instruments, or host times

    @property
    def total(self) -> float:
        """The whole time."""
        return sum(self)

    @property
    def wait(self) -> float:
        """All waiting for late ranks."""
        return self.culprit_wait + self.other_wait

    def minus(self, other: "Breakdown") -> "Breakdown":
        """This time minus the other, part by part; as a whole if the parts of either are mostly unknown."""
        if any(time.unexplained > time.total / 2 for time in (self, other)):  # e.g. without instruments
            return Breakdown(unexplained=self.total - other.total)
        return Breakdown(*(mine - its for mine, its in zip(self, other, strict=True)))


def breakdown(trial: TrialResult) -> Breakdown | None:
    """The parts of a trial's train time; None if the trial has no figures."""
    if trial.summary is None:
        return None
    culprit = trial.summary.culprit.rank if trial.summary.culprit else None
    parts = [_of_repeat(repeat, culprit) for repeat in middle(counted(trial.repeats))]
    return Breakdown(*map(fmean, zip(*parts, strict=True)))


def difference(trial: TrialResult, baseline: TrialResult) -> Breakdown | None:
    """The parts by which a trial took longer than the baseline. None: one of the two has no figures or was cut short,
    or the user changed the delays of every baseline repeat."""
    if all_changed(baseline.repeats) or trial.is_cut_short or baseline.is_cut_short:
        return None
    mine, its = breakdown(trial), breakdown(baseline)
    return mine.minus(its) if mine and its else None


def middle(repeats: Sequence[RepeatResult]) -> list[RepeatResult]:
    """The repeat with the median train time, or the middle two of an even number."""
    by_time = sorted(repeats, key=lambda repeat: repeat.train_time_s)
    return by_time[(len(by_time) - 1) // 2 : len(by_time) // 2 + 1]


def _of_repeat(repeat: RepeatResult, culprit: int | None) -> Breakdown:
    if Caution.HOST_TIME in repeat.warnings and len(repeat.ranks) > 1:  # own work is not known either
        return Breakdown(unexplained=repeat.train_time_s)
    ranks = [rank for rank in repeat.ranks if rank.rank != culprit]
    caused = next((rank.wait_caused_s for rank in repeat.ranks if rank.rank == culprit), None) or 0.0
    parts = [_of_rank(rank, repeat) for rank in ranks]
    known = Breakdown(*map(fmean, zip(*parts, strict=True)))
    # `wait_caused_s` sums over all other ranks, which waited for the culprit directly or through a chain of ranks.
    for_culprit = min(known.other_wait, caused / len(ranks))
    return known._replace(culprit_wait=for_culprit, other_wait=known.other_wait - for_culprit)


def _of_rank(rank: RankResult, repeat: RepeatResult) -> Breakdown:
    """The parts of one rank's time, with all its waiting in other_wait."""
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
    """For each rank, the delays injected into its steps, in s. Delays at the start are not part of the train time."""
    slept_s: dict[int, float] = {}
    for delay in repeat.injected:
        if delay.at != "start":
            slept_s[delay.rank] = slept_s.get(delay.rank, 0.0) + delay.s
    return slept_s
