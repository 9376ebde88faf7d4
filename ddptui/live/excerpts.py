"""Picks the steps of a training worth a closer look: a typical one, and the one with the longest wait."""

from collections.abc import Sequence
from typing import NamedTuple

from ddptui.analysis.waits import AlignedStep
from ddptui.live.timeline import MOST_LONGER, window

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
    begin, end = window(steps)
    # A long pause between steps, e.g. between two epochs, would leave the steps themselves too little room.
    has_room = end - begin <= MOST_LONGER * sum(map(_length_ns, steps))
    return Excerpt(why, joined[at].number, steps if has_room else [joined[at]])


def _length_ns(step: AlignedStep) -> int:
    begin, end = window([step])
    return end - begin


def _longest_wait_ns(step: AlignedStep) -> int:
    return max(rank_step.wait_ns for rank_step in step.ranks.values())
