"""When each rank arrives at the collectives, over some steps: what the arrivals pane shows.

A step is compared if it has a collective of several ranks. The rank that came last is the one whose own work the others
waited for most (WaitAttribution): a root that is itself kept waiting is not late. How late each rank was is measured at
the collective to which that rank came last by most, usually the step's first. Where ranks have clocks of their own, no
rank is late by less than these may be apart.
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from ddptui.analysis.clock_error import exceeds_waits, wait_uncertainty
from ddptui.analysis.culprit import WaitAttribution
from ddptui.analysis.operations import OperationKey
from ddptui.analysis.waits import AlignedStep
from ddptui.text.units import MS
from ddptui.wire.messages import Step

MOSTLY = 0.6  # of the steps, a late rank came last
MATTERS = 0.1  # of a step: a late rank is late by at least that
FEWEST = 5  # steps before a rank is called late


class RankArrivals(NamedTuple):
    """One rank; medians over the steps, in ms.

    lead      from the first rank's begin of the step until this one stood idle in a collective
    wait      idle, for a rank that had not come
    transfer  idle, for the network
    rest      the rest of the step
    last_in   number of steps in which it came last
    lateness  how long after the first rank it came, step by step
    delay     the part of the lead that was an injected delay
    """

    rank: int
    lead: float
    wait: float
    transfer: float
    rest: float
    last_in: int
    lateness: list[float]
    delay: float = 0.0


class ArrivalsSummary(NamedTuple):
    """The ranks' arrivals in some steps.

    steps     number of steps that could be compared
    late      the rank that mostly comes last, if that matters
    apart     how far apart the ranks' clocks may be, in ms; None if they share one
    withheld  whether that is more than the ranks waited
    """

    steps: int
    ranks: list[RankArrivals]
    late: int | None
    apart: float | None = None
    withheld: bool = False


class _Seen(NamedTuple):
    """One step."""

    step: AlignedStep
    last: int | None  # nobody waited: none
    lateness: dict[int, float]


def summary(joined: Sequence[AlignedStep]) -> ArrivalsSummary | None:
    """The arrivals in these steps; None if there are none."""
    if not joined:
        return None
    ranks = sorted(joined[0].ranks)
    seen = [_see(step) for step in joined if step.last_arrivals]
    found = [_of_rank(rank, seen) for rank in ranks] if seen else [_alone(rank) for rank in ranks]
    doubted = wait_uncertainty(joined)
    apart = doubted.clock_ns / MS if doubted else None
    withheld = doubted is not None and exceeds_waits(joined, doubted)
    return ArrivalsSummary(len(seen), found, _late(found, seen, apart or 0.0), apart, withheld)


def _see(step: AlignedStep) -> _Seen:
    caused = WaitAttribution([step]).caused_ns()
    last = max(caused, key=lambda rank: caused[rank])
    moments = step.entered_ns[_where(step, last)]
    first = min(moments.values())
    lateness = {rank: (moment - first) / MS for rank, moment in moments.items()}
    return _Seen(step, last if caused[last] else None, lateness)


def _where(step: AlignedStep, last: int) -> OperationKey:
    """The collective to which the rank came last by most, or else the first one of several ranks."""
    several = step.last_arrivals
    own = [key for key, rank in several.items() if rank == last]
    return max(
        own or several, key=lambda key: _apart(step.entered_ns[key]) if own else -min(step.entered_ns[key].values())
    )


def _apart(moments: dict[int, int]) -> int:
    return max(moments.values()) - min(moments.values())


def _of_rank(rank: int, seen: Sequence[_Seen]) -> RankArrivals:
    parts = [_parts(each.step, rank) for each in seen]
    lead, wait, transfer, rest = (median(part) / MS for part in zip(*parts, strict=True))
    last_in = sum(each.last == rank for each in seen)
    lateness = [each.lateness.get(rank, 0.0) for each in seen]
    delay = min(lead, median(_slept(each.step.ranks[rank].step) for each in seen) / MS)
    return RankArrivals(rank, lead, wait, transfer, rest, last_in, lateness, delay)


def _slept(step: Step) -> int:
    return sum(each.end_ns - each.begin_ns for each in step.slept)


def _parts(step: AlignedStep, rank: int) -> tuple[int, int, int, int]:
    """Lead, wait, transfer and rest, ns."""
    own = step.ranks[rank]
    began = min(other.step.begin_ns for other in step.ranks.values())
    lead = (own.idle[0][0] if own.idle else own.step.end_ns) - began
    transfer = max(0, own.exposed_ns - own.wait_ns)
    rest = own.step.end_ns - began - lead - own.wait_ns - transfer
    return lead, own.wait_ns, transfer, max(0, rest)


def _alone(rank: int) -> RankArrivals:
    return RankArrivals(rank, 0.0, 0.0, 0.0, 0.0, 0, [])


def _late(ranks: Sequence[RankArrivals], seen: Sequence[_Seen], apart: float) -> int | None:
    if len(seen) < FEWEST or len(ranks) < 2:
        return None
    most = max(ranks, key=lambda rank: rank.last_in)
    typical = median(own.step.end_ns - own.step.begin_ns for each in seen for own in each.step.ranks.values()) / MS
    matters = median(most.lateness) >= max(MATTERS * typical, apart)
    return most.rank if matters and most.last_in >= MOSTLY * len(seen) else None


def most_telling(found: ArrivalsSummary, most: int, culprit: int | None) -> list[RankArrivals]:
    """As many ranks as there is room for: those that the others waited for, then the latest ones."""
    telling = sorted(
        found.ranks,
        key=lambda each: (each.rank != culprit, each.rank != found.late, -each.last_in, -typical_lateness(each)),
    )
    return sorted(telling[:most], key=lambda each: each.rank)


def typical_lateness(rank: RankArrivals) -> float:
    return median(rank.lateness) if rank.lateness else 0.0
