"""When each rank arrives at the collectives, over some steps. The arrivals pane shows it.

A step counts if it has a collective of several ranks. Lateness is measured at one collective of the step: the one at
which the step's last rank was latest, usually the first.
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from ddptui.analysis.culprit import exceeds_waits, wait_uncertainty
from ddptui.analysis.operations import OperationKey
from ddptui.analysis.waits import AlignedStep, WaitAttribution
from ddptui.text.words import MS

KINDS = ("work", "delay", "wait", "transfer", "rest")  # the parts of a step, in order of time


class RankArrivals(NamedTuple):
    """One rank's arrivals; medians over the steps, in ms."""

    rank: int
    lead: float  # from the moment the first rank began the step until this rank stood idle in a collective
    wait: float  # idle, waiting for a late rank
    transfer: float  # idle, waiting for the network
    rest: float  # the remainder of the step
    last_in: int  # number of steps in which this rank arrived last
    lateness: list[float]  # how long after the first rank it arrived, for each step
    delay: float = 0.0  # the part of the lead that was an injected delay

    @property
    def parts(self) -> list[tuple[str, float]]:
        """The parts of the rank's step, in ms, each with its kind. The rank arrives at the end of the delay."""
        lengths = (self.lead - self.delay, self.delay, self.wait, self.transfer, self.rest)
        return [*zip(KINDS, lengths, strict=True)]


class ArrivalsSummary(NamedTuple):
    """The arrivals of all ranks over some steps."""

    steps: int  # number of steps that could be compared
    ranks: list[RankArrivals]
    apart: float | None = None  # clock error between ranks, in ms; None: all ranks share one clock
    withheld: bool = False  # hide the arrivals: the clock error exceeds the waits, or the times are host times


class _Compared(NamedTuple):
    """The arrivals in one step."""

    step: AlignedStep
    last: int | None  # the last rank; None: no rank waited
    lateness: dict[int, float]  # ms, by rank


def summary(joined: Sequence[AlignedStep]) -> ArrivalsSummary | None:
    """Summarizes the arrivals in these steps; None if there are no steps."""
    if not joined:
        return None
    compared = [_compare(step) for step in joined if step.last_arrivals]
    arrivals = [_of_rank(rank, compared) for rank in sorted(joined[0].ranks)]
    doubted = wait_uncertainty(joined)
    apart = doubted.clock_ns / MS if doubted else None
    withheld = joined[0].host_time or (doubted is not None and exceeds_waits(joined, doubted))
    return ArrivalsSummary(len(compared), arrivals, apart, withheld)


def _compare(step: AlignedStep) -> _Compared:
    # The last rank is the one whose own work the others waited for most: a root that itself has to wait is not late.
    caused = WaitAttribution([step]).caused_ns()
    last = max(caused, key=lambda rank: caused[rank])
    moments = step.entered_ns[_where(step, last)]
    first = min(moments.values())
    lateness = {rank: (moment - first) / MS for rank, moment in moments.items()}
    return _Compared(step, last if caused[last] else None, lateness)


def _where(step: AlignedStep, last: int) -> OperationKey:
    """The collective at which this rank was latest; if it never arrived last, the step's first with several ranks."""
    last_arrivals = step.last_arrivals  # a property that computes its value at each access
    moments = {key: step.entered_ns[key].values() for key in last_arrivals}
    came_last = [key for key, rank in last_arrivals.items() if rank == last]
    if not came_last:
        return min(moments, key=lambda key: min(moments[key]))
    return max(came_last, key=lambda key: max(moments[key]) - min(moments[key]))


def _of_rank(rank: int, compared: Sequence[_Compared]) -> RankArrivals:
    if not compared:
        return RankArrivals(rank, 0.0, 0.0, 0.0, 0.0, 0, [])
    parts = [_parts(entry.step, rank) for entry in compared]
    lead, wait, transfer, rest, delay = (median(part) / MS for part in zip(*parts, strict=True))
    last_in = sum(entry.last == rank for entry in compared)
    lateness = [entry.lateness.get(rank, 0.0) for entry in compared]
    return RankArrivals(rank, lead, wait, transfer, rest, last_in, lateness, min(lead, delay))


def _parts(step: AlignedStep, rank: int) -> tuple[int, int, int, int, int]:
    """Lead, wait, transfer, rest and injected delay of a rank in a step, in ns."""
    rank_step = step.ranks[rank]
    began = min(other.step.begin_ns for other in step.ranks.values())
    lead = (rank_step.idle[0][0] if rank_step.idle else rank_step.step.end_ns) - began
    transfer = max(0, rank_step.exposed_ns - rank_step.wait_ns)
    rest = rank_step.step.end_ns - began - lead - rank_step.wait_ns - transfer
    delay = sum(slept.end_ns - slept.begin_ns for slept in rank_step.step.slept)
    return lead, rank_step.wait_ns, transfer, max(0, rest), delay


def most_telling(arrivals: ArrivalsSummary, most: int, culprit: int | None) -> list[RankArrivals]:
    """At most `most` ranks, in rank order: first choice is the culprit, then the ranks that most often came last."""
    telling = sorted(arrivals.ranks, key=lambda rank: (rank.rank != culprit, -rank.last_in, -typical_lateness(rank)))
    return sorted(telling[:most], key=lambda rank: rank.rank)


def typical_lateness(rank: RankArrivals) -> float:
    return median(rank.lateness) if rank.lateness else 0.0
