"""What every rank did when, as far as a few cells can show it; and who comes last, how late, where that is known."""

from itertools import pairwise

import msgspec
import pytest

from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.live.timeline import (
    ArrivalsSummary,
    Segment,
    cell_of,
    last_steps,
    most_telling,
    row,
    runs,
    summary,
    window,
)
from ddptui.wire.messages import Slept
from ddptui.wire.phases import BETWEEN
from tests.support.traces import (
    MS,
    Shape,
    Told,
    all_reduce,
    bucketed,
    delayed,
    gather_scatter,
    reduce_broadcast,
    trace,
    works_of,
)

START = 1000 * MS
ALONE_MS = (1.0, 2.0, 3.0, 0.0, 1.0, 1.0)  # data, forward, backward, aggregate, optimizer, between


def told(steps: int = 2, late_ms: float = 4) -> Told:
    """Two ranks without noise, the second one held up before it aggregates; a transfer takes 1 ms in all."""
    works = [{rank: [round(part * MS) for part in ALONE_MS] for rank in range(2)} for _ in range(steps)]
    works, _ = delayed(works, 1, "aggregate", lambda _: late_ms)
    return trace(works, all_reduce)


def shown(steps: list[AlignedStep], rank: int) -> list[tuple[float, str]]:
    """Length in ms, and what."""
    return [((segment.end_ns - segment.begin_ns) / MS, segment.what) for segment in row(steps, rank)]


def test_phases_waits_and_transfers_follow_each_other() -> None:
    steps = align_steps(told()).steps
    step = [(1, "data"), (2, "forward"), (3, "backward"), (4, "wait"), (1, "transfer"), (1, "optimizer")]
    assert shown(steps, 0) == [*step, (1, BETWEEN), *step]
    assert shown(steps, 1)[3:5] == [(4, "aggregate"), (1, "transfer")]


def test_a_delay_that_was_put_in_is_shown_before_all_else() -> None:
    one = told(steps=1)
    begin = one[1][0].begin_ns + 6 * MS
    slept = Slept("aggregate", begin, begin + 4 * MS)
    one[1] = [msgspec.structs.replace(one[1][0], slept=(slept, Slept("start", 0, START)))]
    assert shown(align_steps(one).steps, 1) == [
        (1, "data"), (2, "forward"), (3, "backward"), (4, "delay"), (1, "transfer"), (1, "optimizer"),
    ]  # fmt: skip


def test_rows_have_no_gaps_and_lie_in_the_window() -> None:
    steps = align_steps(trace(works_of(3, ranks=4, steps=3))).steps
    begin, end = window(steps)
    for rank in range(4):
        found = row(steps, rank)
        assert begin <= found[0].begin_ns
        assert found[-1].end_ns <= end
        assert all(one.end_ns == other.begin_ns for one, other in pairwise(found))
        assert all(one.what != other.what for one, other in pairwise(found))


def test_as_many_steps_are_shown_as_are_wanted_but_none_before_a_long_pause() -> None:
    steps = align_steps(told(steps=6)).steps
    assert [step.number for step in last_steps(steps, 3)] == [3, 4, 5]
    assert [step.number for step in last_steps(steps[:2], 3)] == [0, 1]
    works = [{rank: [round(part * MS) for part in ALONE_MS] for rank in range(2)} for _ in range(4)]
    works[2] = {rank: [*work[:5], 500 * MS] for rank, work in works[2].items()}
    assert [step.number for step in last_steps(align_steps(trace(works)).steps, 4)] == [2, 3]


SEGMENTS = [Segment(0, 10, "forward"), Segment(10, 12, "wait"), Segment(12, 40, "backward")]


@pytest.mark.parametrize(
    ("segments", "end", "cells", "cuts", "shown"),
    [
        (SEGMENTS, 40, 4, (), [(0, 1, "forward", 10), (1, 4, "backward", 28)]),
        (SEGMENTS, 40, 40, (), [(0, 10, "forward", 10), (10, 12, "wait", 2), (12, 40, "backward", 28)]),
        (SEGMENTS, 40, 4, {2}, [(0, 1, "forward", 10), (1, 2, "backward", 28), (2, 4, "backward", 28)]),
        (SEGMENTS, 40, 1, (), [(0, 1, "backward", 28)]),
        ([Segment(10, 20, "data")], 30, 3, (), [(0, 1, BETWEEN, 0), (1, 2, "data", 10), (2, 3, BETWEEN, 0)]),
    ],
)
def test_a_cell_shows_what_took_most_of_it_and_a_step_that_begins_begins_a_run(
    segments: list[Segment], end: int, cells: int, cuts: set[int], shown: list[tuple[int, int, str, int]]
) -> None:
    """shown: the first cell, the one after the last, what they show, and its exact time."""
    assert runs(segments, (0, end), cells, cuts=cuts) == shown


@pytest.mark.parametrize(("moment", "cell"), [(0, 0), (9, 0), (10, 1), (39, 3)])
def test_a_moment_has_a_cell(moment: int, cell: int) -> None:
    assert cell_of(moment, (0, 40), 4) == cell


# Who comes last


STEPS = 24
# In the last one the root comes late to its scatter, because it was kept waiting itself.
SHAPES = [all_reduce, reduce_broadcast, bucketed, gather_scatter]


def seen(
    shape: Shape = all_reduce, *, ranks: int = 3, at: str = "backward", ms: float = 5, late: int = 1
) -> ArrivalsSummary:
    works, _ = delayed(works_of(1, ranks=ranks, steps=STEPS, skew=0.01), late, at, lambda _: ms)
    found = summary(align_steps(trace(works, shape)).steps)
    assert found is not None
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("at", ["data", "backward", "aggregate"])
def test_the_rank_that_is_held_up_came_last_whatever_they_do_together(shape: Shape, at: str) -> None:
    found = seen(shape, at=at)
    late = found.ranks[1]
    assert (found.steps, late.last_in) == (STEPS, STEPS)
    assert [each.last_in for each in found.ranks if each.rank != 1] == [0, 0]
    assert min(late.lateness) > 4
    assert late.wait < 1.1
    assert all(3 < each.wait < 8 for each in found.ranks if each.rank != 1)


def test_the_parts_of_a_step_add_up_to_it() -> None:
    for rank in seen(ms=5).ranks:
        assert rank.lead + rank.wait + rank.transfer + rank.rest == pytest.approx(12, abs=1)
    assert seen(ms=5).ranks[1].lead == pytest.approx(seen(ms=0).ranks[1].lead + 5, abs=0.5)


def test_with_too_many_ranks_those_that_matter_are_kept() -> None:
    found = seen(ranks=9, late=4)
    assert [each.rank for each in most_telling(found, 1, None)] == [4]
    assert [each.rank for each in most_telling(found, 2, culprit=8)] == [4, 8]
    assert [each.rank for each in most_telling(found, 99, None)] == list(range(9))


def test_where_nobody_waits_nothing_is_compared() -> None:
    assert summary([]) is None
    alone = seen(ranks=1, late=0)
    assert (alone.steps, len(alone.ranks)) == (0, 1)
    works = works_of(1, ranks=2, steps=2)
    found = summary(align_steps(trace(works, lambda rank, work, transfer: all_reduce(rank, work, transfer)[:4])).steps)
    assert found is not None
    assert (found.steps, found.ranks[0].lead) == (0, 0.0)
