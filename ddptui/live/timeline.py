"""What each rank did when, on one time axis: turns aligned steps into segments, and segments into terminal cells.

If several things happen at once, the one that explains most is shown: first an injected delay, then a wait, then an
exposed transfer, then the phase.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from ddptui.analysis.operations import Interval, phase_spans
from ddptui.analysis.waits import AlignedStep, RankStep
from ddptui.wire.phases import BETWEEN, PARTS

LAYERS = 4  # phase, transfer, wait, delay: the last one present is shown
MOST_LONGER = 3  # earlier steps are added while the window is at most this many times as long as its steps


class Segment(NamedTuple):
    """A time span in which a rank did one thing."""

    begin_ns: int
    end_ns: int
    what: str  # one of PHASES, or wait, transfer, delay, or BETWEEN


class Run(NamedTuple):
    """Neighboring cells that show the same thing."""

    first: int
    last: int  # the first cell after the run
    what: str
    ns: int  # the exact time it took, which need not fill the cells exactly


def last_steps(joined: Sequence[AlignedStep], most: int) -> Sequence[AlignedStep]:
    """As many of the last steps as fit on one axis, at most `most`. Steps before a long pause are left out: the pause
    would leave the steps too little room."""
    for steps in range(min(most, len(joined)), 1, -1):
        chosen = joined[-steps:]
        begin, end = window(chosen)
        ranks_steps = [[rank_step.step for rank_step in step.ranks.values()] for step in chosen]
        length = sum(max(step.end_ns - step.begin_ns for step in steps) for steps in ranks_steps)
        if end - begin <= MOST_LONGER * length:
            return chosen
    return joined[-1:]


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


def runs(segments: Sequence[Segment], within: Interval, width: int, cuts: Collection[int] = ()) -> list[Run]:
    """Draws segments in `width` cells. Each cell shows what took most of its time; each cut starts a new run."""
    shown = _cells(segments, within, width)
    edges = [cell for cell in range(1, width) if cell in cuts or shown[cell] != shown[cell - 1]]
    drawn = []
    for first, last in pairwise([0, *edges, width]):
        begin, end = (within[0] + cell * (within[1] - within[0]) / width for cell in (first, last))
        same = [part for part in segments if part.what == shown[first] and part.begin_ns < end and part.end_ns > begin]
        drawn.append(Run(first, last, shown[first], sum(part.end_ns - part.begin_ns for part in same)))
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
