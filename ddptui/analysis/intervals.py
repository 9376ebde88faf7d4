"""Operations on sets of time intervals, in ns. Pure."""

from bisect import bisect_left
from collections.abc import Iterable

Interval = tuple[int, int]  # ns


def subtract(begin: int, end: int, taken: list[Interval]) -> list[Interval]:
    """The parts of an interval that lie outside `taken`, whose intervals are sorted and disjoint."""
    left: list[Interval] = []
    for taken_begin, taken_end in taken:
        if taken_end > begin and taken_begin < end:
            if taken_begin > begin:
                left.append((begin, taken_begin))
            begin = max(begin, taken_end)
    if begin < end:
        left.append((begin, end))
    return left


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of intervals, as disjoint intervals in order."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if end <= begin:  # empty, e.g. if no rank arrived later
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def total_ns(intervals: Iterable[Interval]) -> int:
    """The sum of the intervals' lengths."""
    return sum(end - begin for begin, end in intervals)


def overlapping(intervals: list[Interval], begin: int, end: int) -> list[Interval]:
    """The parts of sorted, disjoint intervals that lie between begin and end."""
    first = max(0, bisect_left(intervals, (begin, begin)) - 1)  # the interval before `begin` may reach beyond it
    parts = []
    for other_begin, other_end in intervals[first:]:
        if other_begin >= end:
            break
        if other_end > begin:
            parts.append((max(begin, other_begin), min(end, other_end)))
    return parts
