"""Splits train times into work, delays, waiting and transfer, or into median and long steps; and who waited for
whom. Pure.

The parts are means over the ranks that had to wait: all ranks but the culprit, or all ranks if there is no culprit. For
these ranks a late rank shows up as waiting, which is what its lateness costs. The parts come from the repeat with the
median train time (or are means of the middle two), so they add up to the train time in the table.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from ddptui.analysis.policy import Caution
from ddptui.analysis.repeats import all_changed, valid_repeats
from ddptui.analysis.results import LongStep, RankResult, RepeatResult, TimeParts, TrialResult
from ddptui.text.words import MS, S
from ddptui.wire.messages import Step


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
    parts = [_of_repeat(repeat, culprit) for repeat in middle(valid_repeats(trial.repeats))]
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


LONG = 2  # times the median: from here on a step is long
NAMED = 3  # long steps to list


def time_parts(ranks: Mapping[int, Sequence[Step]], steps: int, median_ms: float, train_time_s: float) -> TimeParts:
    """The parts of the train time, means over ranks. ranks: the measured steps that were kept; steps: number of steps
    made; median_ms: median over all ranks' steps."""
    longest: dict[int, float] = {}  # number of a long step -> its time on the slowest rank, in ms
    parts = [_rank_train_time(of_rank, steps / len(of_rank), median_ms, longest) for of_rank in ranks.values()]
    long_s, between_steps_s, between_epochs_s = map(fmean, zip(*parts, strict=True))
    median_s = median_ms * steps * MS / S
    return TimeParts(
        median_s=median_s,
        long_s=long_s,
        between_steps_s=between_steps_s,
        between_epochs_s=between_epochs_s,
        others_s=train_time_s - median_s - long_s - between_steps_s - between_epochs_s,
        long_steps=round(len(longest) * steps / max(map(len, ranks.values()))),
        longest=[
            LongStep(step=number, ms=longest[number])
            for number in sorted(longest, key=lambda number: -longest[number])[:NAMED]
        ],
    )


def _rank_train_time(
    of_rank: Sequence[Step], factor: float, median_ms: float, longest: dict[int, float]
) -> tuple[float, float, float]:
    """How much the rank's long steps exceeded the median, its time between steps, and its time between epochs, in s.
    Adds the long steps to `longest`."""
    beyond_ms, between_ns, epochs_ns = 0.0, 0, 0
    for step in of_rank:
        ms = (step.end_ns - step.begin_ns) / MS
        if ms > LONG * median_ms:
            beyond_ms += ms - median_ms
            longest[step.step] = max(ms, longest.get(step.step, 0.0))
    for before, after in pairwise(sorted(of_rank, key=lambda step: step.step)):
        if after.step > before.step + 1:  # the steps in between were not kept
            continue
        if after.epoch == before.epoch:
            between_ns += after.begin_ns - before.end_ns
        else:
            epochs_ns += after.begin_ns - before.end_ns
    return beyond_ms * MS / S * factor, between_ns / S * factor, epochs_ns / S * factor


class WaitMatrix(NamedTuple):
    """How long the ranks of each row waited for those of each column, in s, summed over the row's ranks."""

    ranks: tuple[range, ...]  # the ranks of each row and column
    waited_s: tuple[tuple[float, ...], ...]

    @property
    def most_s(self) -> float:
        """The largest cell."""
        return max(max(row) for row in self.waited_s)

    @property
    def per_pair_s(self) -> tuple[tuple[float, ...], ...]:
        """The means over pairs of a waiting and a late rank, since the last block may have fewer ranks."""
        return tuple(
            tuple(s / max(1, _pairs(waiting, late)) for late, s in zip(self.ranks, row, strict=True))
            for waiting, row in zip(self.ranks, self.waited_s, strict=True)
        )

    @property
    def most_per_pair_s(self) -> float:
        """The largest of these means."""
        return max(map(max, self.per_pair_s))


def _pairs(waiting: range, late: range) -> int:
    """The number of pairs of different ranks: no rank waits for itself."""
    return len(waiting) * len(late) - (len(waiting) if waiting == late else 0)


def wait_matrix(trial: TrialResult, most: int | None = None) -> WaitMatrix | None:
    """The matrix of the repeat with the median train time, with at most `most` rows. None: the trial has one rank, or
    its waits are unknown."""
    repeats = middle(valid_repeats(trial.repeats))
    if not repeats or len(repeats[0].ranks) < 2 or all(rank.wait_s is None for rank in repeats[0].ranks):
        return None
    return _repeat_matrix(repeats[0], most)


def _repeat_matrix(repeat: RepeatResult, most: int | None) -> WaitMatrix:
    size = max(rank.rank for rank in repeat.ranks) + 1
    block = -(-size // most) if most else 1  # ranks per row, rounded up
    blocks = [range(first, min(first + block, size)) for first in range(0, size, block)]
    waited = [[0.0] * len(blocks) for _ in blocks]
    for rank in repeat.ranks:
        for late_rank, s in rank.waited_for_s.items():
            waited[rank.rank // block][late_rank // block] += s
    return WaitMatrix(tuple(blocks), tuple(map(tuple, waited)))
