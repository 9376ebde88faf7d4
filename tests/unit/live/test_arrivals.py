"""Who comes last, and how late, in a world in which that is known."""

import pytest

from ddptui.analysis.waits import align_steps
from ddptui.live.arrivals import ArrivalsSummary, most_telling, summary
from tests.support.traces import Shape, all_reduce, bucketed, delayed, gather_scatter, reduce_broadcast, trace, works_of

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


def test_ranks_that_are_late_by_turns_come_last_as_often() -> None:
    works, _ = delayed(works_of(1, ranks=2, steps=STEPS, skew=0), 0, "data", lambda step: 5 * (step % 2))
    works, _ = delayed(works, 1, "data", lambda step: 5 * (step % 2 == 0))
    found = summary(align_steps(trace(works)).steps)
    assert found is not None
    assert [each.last_in for each in found.ranks] == [12, 12]


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
