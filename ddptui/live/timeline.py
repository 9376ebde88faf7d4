"""What each rank did when, on one time axis; when ranks arrive at the collectives; which steps are worth a closer
look.

If several things happen at once, the one that explains most is shown: first an injected delay, then a wait, then an
exposed transfer, then the phase.

A step counts if it has a collective of several ranks. Lateness is measured at one collective of the step: the one at
which the step's last rank was latest, usually the first.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from math import ceil
from statistics import median
from typing import NamedTuple

from ddptui.analysis.culprit import exceeds_waits, wait_uncertainty
from ddptui.analysis.operations import Interval, OperationKey, phase_spans
from ddptui.analysis.waits import AlignedStep, RankStep, caused_by_step
from ddptui.text.words import MS
from ddptui.wire.phases import BETWEEN, PARTS

LAYERS = 4  # phase, transfer, wait, delay: the last one present is shown
MOST_LONGER = 3  # earlier steps are added while the window is at most this many times as long as its steps


class Segment(NamedTuple):
    """A time span in which a rank did one thing."""

    begin_ns: int
    end_ns: int
    what: str  # one of PHASES, or wait, transfer, delay, or BETWEEN


class CellRun(NamedTuple):
    """Neighboring cells that show the same thing."""

    first: int
    last: int  # the first cell after the run
    what: str
    ns: int  # the exact time it took, which need not fill the cells exactly


def last_steps(joined: Sequence[AlignedStep], most: int) -> Sequence[AlignedStep]:
    """As many of the last steps as fit on one axis, at most `most`. Steps before a long pause are left out: the pause
    would leave the steps too little room."""
    for steps in range(min(most, len(joined)), 1, -1):
        if _has_room(joined[-steps:]):
            return joined[-steps:]
    return joined[-1:]


def _has_room(steps: Sequence[AlignedStep]) -> bool:
    """Whether a long pause between steps, e.g. between two epochs, leaves the steps themselves enough room."""
    begin, end = window(steps)
    return end - begin <= MOST_LONGER * sum(map(_length_ns, steps))


def window(joined: Sequence[AlignedStep]) -> Interval:
    """The time span of these steps over all ranks, in ns."""
    # The first and last steps suffice: no step in between begins earlier or ends later.
    all_steps = [rank_step.step for step in (joined[0], joined[-1]) for rank_step in step.ranks.values()]
    return min(step.begin_ns for step in all_steps), max(step.end_ns for step in all_steps)


def telling_ranks(joined: Sequence[AlignedStep], most: int) -> list[int]:
    """All ranks or, if there are more than `most`, those that waited least: the others waited for one of them."""
    waited = {rank: sum(step.ranks[rank].wait_ns for step in joined) for rank in sorted(joined[0].ranks)}
    return sorted(sorted(waited, key=lambda rank: waited[rank])[:most])


def row(joined: Sequence[AlignedStep], rank: int) -> list[Segment]:
    """What a rank did from the start of its first step to the end of its last, in order and without gaps."""
    edges = sorted(edge for step in joined for edge in _edges(step.ranks[rank]))
    open_at: list[list[str]] = [[] for _ in range(LAYERS)]
    segments: list[Segment] = []
    for number, (moment, opens, layer, what) in enumerate(edges):
        (open_at[layer].append if opens else open_at[layer].remove)(what)
        until = edges[number + 1][0] if number + 1 < len(edges) else moment
        if until > moment:
            shown = next((layer[-1] for layer in reversed(open_at) if layer), BETWEEN)
            if segments and segments[-1].what == shown:
                segments[-1] = segments[-1]._replace(end_ns=until)
            else:
                segments.append(Segment(moment, until, shown))
    return segments


def _edges(rank_step: RankStep) -> Iterator[tuple[int, bool, int, str]]:
    """The moments at which something begins or ends: (moment, begins, layer, what)."""
    step = rank_step.step
    layers = [
        [(begin, min(end, step.end_ns), PARTS[place]) for place, begin, end in phase_spans(step)],
        [(begin, end, "transfer") for begin, end in rank_step.idle],
        [(begin, end, "wait") for begin, end, _ in rank_step.waits],
        # A delay at the start ended before the first step.
        [(delay.begin_ns, delay.end_ns, "delay") for delay in step.slept if delay.begin_ns >= step.begin_ns],
    ]
    for layer, intervals in enumerate(layers):
        for begin, end, what in intervals:
            if end > begin:
                yield begin, True, layer, what
                yield end, False, layer, what


def runs(segments: Sequence[Segment], within: Interval, width: int, cuts: Collection[int] = ()) -> list[CellRun]:
    """Draws segments in `width` cells. Each cell shows what took most of its time; each cut starts a new run."""
    shown = _cells(segments, within, width)
    edges = [cell for cell in range(1, width) if cell in cuts or shown[cell] != shown[cell - 1]]
    drawn = []
    for first, last in pairwise([0, *edges, width]):
        begin, end = (within[0] + cell * (within[1] - within[0]) / width for cell in (first, last))
        same = [part for part in segments if part.what == shown[first] and part.begin_ns < end and part.end_ns > begin]
        drawn.append(CellRun(first, last, shown[first], sum(part.end_ns - part.begin_ns for part in same)))
    return drawn


def _cells(segments: Sequence[Segment], within: Interval, width: int) -> list[str]:
    shares: list[dict[str, float]] = [{} for _ in range(width)]
    scale = width / (within[1] - within[0])
    for begin_ns, end_ns, what in segments:
        left, right = (begin_ns - within[0]) * scale, (end_ns - within[0]) * scale
        for cell in range(max(0, int(left)), min(width, ceil(right))):
            share = min(right, cell + 1) - max(left, cell)
            shares[cell][what] = shares[cell].get(what, 0.0) + share
    return [max(share, key=lambda what: share[what], default=BETWEEN) for share in shares]


def cell_of(moment: int, within: Interval, width: int) -> int:
    return int((moment - within[0]) / (within[1] - within[0]) * width)


AROUND = 1  # neighboring steps shown on either side
TYPICAL, LONGEST_WAIT = "a step of median length", "the longest wait"


class Excerpt(NamedTuple):
    """A step with its neighbors."""

    why: str  # why this step was picked, e.g. "a step of median length"
    number: int  # number of the picked step
    steps: Sequence[AlignedStep]


def excerpts(joined: Sequence[AlignedStep]) -> list[Excerpt]:
    """Returns an excerpt around the step of median length and, if any rank waited, one around the longest wait. If
    both are the same step, there is one excerpt."""
    if not joined:
        return []
    by_length = sorted(range(len(joined)), key=lambda at: _length_ns(joined[at]))
    typical = by_length[len(joined) // 2]
    longest = max(range(len(joined)), key=lambda at: _longest_wait_ns(joined[at]))
    if not _longest_wait_ns(joined[longest]):
        return [_around(joined, typical, TYPICAL)]
    if longest == typical:
        return [_around(joined, typical, f"{TYPICAL}, and {LONGEST_WAIT}")]
    return [_around(joined, typical, TYPICAL), _around(joined, longest, LONGEST_WAIT)]


def spread_over(joined: Sequence[AlignedStep], most: int) -> list[AlignedStep]:
    """At most `most` of the steps, evenly spread."""
    every = -(-len(joined) // most) or 1  # rounded up
    return list(joined[::every])


def _around(joined: Sequence[AlignedStep], at: int, why: str) -> Excerpt:
    near = range(max(0, at - AROUND), min(len(joined), at + AROUND + 1))
    # Leave out a neighbor whose number does not follow: the steps between were not kept.
    steps = [joined[other] for other in near if joined[other].number - joined[at].number == other - at]
    return Excerpt(why, joined[at].number, steps if _has_room(steps) else [joined[at]])


def _length_ns(step: AlignedStep) -> int:
    begin, end = window([step])
    return end - begin


def _longest_wait_ns(step: AlignedStep) -> int:
    return max(rank_step.wait_ns for rank_step in step.ranks.values())


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
    [caused] = caused_by_step([step])
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
