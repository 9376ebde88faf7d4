"""Sets of time intervals, in ns. Pure."""

from bisect import bisect_left
from collections.abc import Iterable

Interval = tuple[int, int]  # ns


def subtract(begin: int, end: int, taken: list[Interval]) -> list[Interval]:
    """What is left of an interval."""
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
    """The same time as disjoint intervals, in order."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if end <= begin:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def total_ns(intervals: Iterable[Interval]) -> int:
    return sum(end - begin for begin, end in intervals)


def overlapping(intervals: list[Interval], begin: int, end: int) -> list[Interval]:
    """The parts of sorted, disjoint intervals that lie between two moments."""
    first = max(0, bisect_left(intervals, (begin, begin)) - 1)
    found = []
    for own_begin, own_end in intervals[first:]:
        if own_begin >= end:
            break
        if own_end > begin:
            found.append((max(begin, own_begin), min(end, own_end)))
    return found
