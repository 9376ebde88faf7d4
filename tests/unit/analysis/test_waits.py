"""Who waited for whom: what each kind of operation depends on, what overlaps, what does not match, and who is to blame,
against a simulated world in which all of that is known."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.analysis.operations import AGGREGATE, union
from ddptui.analysis.waits import AlignedStep, Wait, align_steps, caused_by_step
from ddptui.wire.messages import Collective, Pause, Step
from ddptui.wire.phases import PARTS, PHASES
from tests.support.traces import (
    BETWEEN,
    MS,
    Call,
    Move,
    Program,
    Work,
    all_reduce,
    bucketed,
    reduce_broadcast,
    simulate,
    trace,
)

RANKS = range(3)
DATA, FORWARD, BACKWARD, _, OPTIMIZER = range(len(PHASES))


def arrivals(
    kind: str, *at: int, root: int | None = None, transfer: int = 10, group: tuple[int, ...] = ()
) -> AlignedStep:
    """One operation, each rank at its own moment."""
    call = Call("it", kind, transfer, root, group)
    programs: dict[int, Program] = {
        rank: [("data", [Work(moment)]), ("aggregate", [call] if rank in (group or range(len(at))) else [])]
        for rank, moment in enumerate(at)
    }
    [step] = align_steps(simulate([programs])).steps
    return step


def waits_of(step: AlignedStep) -> list[int]:
    return [step.ranks[rank].wait_ns for rank in sorted(step.ranks)]


def made(rank: int, *operations: Collective, number: int = 0, end: int = 1000) -> Step:
    """A step in which nothing but these operations happened."""
    return Step(
        rank=rank, step=number, epoch=0, warmup=False, begin_ns=0, end_ns=end, phases_ns=(0, 0, 0, end, 0), samples=1,
        loss=1.0, order=(3,), collectives=operations,
    )  # fmt: skip


def operation(kind: str = "all_reduce", seq: int = 0, enter: int = 10, exit: int = 20, **fields: object) -> Collective:
    sent = Collective(kind, seq, 8, enter, enter, enter, exit)
    return msgspec.structs.replace(sent, **fields)


@pytest.mark.parametrize(
    ("kind", "root", "waits"),
    [
        ("all_reduce", None, [30, 20, 0]),  # as all that have no root
        *(("reduce", root, [30, 20, 0]) for root in RANKS),
        ("gather", 0, [30, 0, 0]),
        ("gather", 1, [0, 20, 0]),
        ("gather", 2, [0, 0, 0]),
        *((kind, 0, [0, 0, 0]) for kind in ("broadcast", "scatter")),
        *((kind, 1, [10, 0, 0]) for kind in ("broadcast", "scatter")),
        *((kind, 2, [30, 20, 0]) for kind in ("broadcast", "scatter")),
    ],
)
def test_each_kind_waits_for_those_it_depends_on(kind: str, root: int | None, waits: list[int]) -> None:
    step = arrivals(kind, 100, 110, 130, root=root)
    assert waits_of(step) == waits
    assert [step.ranks[rank].transfer_ns for rank in RANKS] == [10, 10, 10]
    assert set(step.last_arrivals.values()) == {2}


def test_another_leaf_that_comes_during_the_transfer_is_not_waited_for() -> None:
    assert arrivals("broadcast", 100, 135, 130, root=2).ranks[0].waits == [Wait(100, 130, 2)]
    assert arrivals("gather", 100, 105, 130, root=2).ranks[0].waits == []


@pytest.mark.parametrize(
    ("kind", "root", "times", "waits"),
    [
        ("reduce", 2, [(100, 110), (200, 210), (100, 211)], [0, 0, 100]),  # rank 0 had left before rank 1 came,
        ("reduce", 2, [(100, 210), (200, 210), (100, 211)], [100, 0, 100]),  # and here it stayed
        ("gather", 0, [(40, 70), (10, 60), (50, 70)], [10, 30, 0]),  # rank 1 not for rank 2, which came later
        ("gather", 0, [(65, 70), (10, 60), (50, 70)], [0, 0, 15]),
        ("broadcast", 0, [(100, 102), (200, 212)], [0, 0]),
        ("broadcast", 0, [(100, 211), (200, 212)], [100, 0]),
    ],
)
def test_a_rank_waits_only_for_those_who_came_before_it_left(
    kind: str, root: int, times: list[tuple[int, int]], waits: list[int]
) -> None:
    """times: when each rank enters and leaves the operation."""
    calls = [operation(kind, root=root, enter=enter, exit=exit) for enter, exit in times]
    [step] = align_steps({rank: [made(rank, call)] for rank, call in enumerate(calls)}).steps
    assert waits_of(step) == waits


@pytest.mark.parametrize(("sender", "receiver", "waits"), [(0, 1, [10, 0, 0]), (2, 0, [30, 0, 0]), (1, 2, [0, 20, 0])])
def test_a_send_and_a_receive_wait_for_each_other_and_for_nobody_else(
    sender: int, receiver: int, waits: list[int]
) -> None:
    calls = {sender: Call("it", "send", 10, receiver), receiver: Call("it", "recv", 10, sender)}
    moments = (100, 110, 130)
    programs: dict[int, Program] = {
        rank: [("data", [Work(moments[rank])]), ("aggregate", [calls[rank]] if rank in calls else [])] for rank in RANKS
    }
    [step] = align_steps(simulate([programs])).steps
    assert waits_of(step) == waits


def test_the_second_message_between_two_ranks_is_the_second_on_both() -> None:
    """All of them have number 0 on the wire."""
    there, back = Call("there", "send", 5, 1), Call("back", "recv", 5, 1)
    again = Call("again", "send", 5, 1)
    programs: dict[int, Program] = {
        0: [("aggregate", [Work(10), there, back, Work(5), again])],
        1: [
            (
                "aggregate",
                [Work(20), there._replace(kind="recv", root=0), Work(30), back._replace(kind="send", root=0)],
            ),
            ("optimizer", [Work(40), again._replace(kind="recv", root=0)]),
        ],
    }
    [step] = align_steps(simulate([programs])).steps
    assert [wait.end - wait.begin for wait in step.ranks[0].waits] == [10, 30, 35]
    assert step.ranks[1].wait_ns == 0


def test_two_groups_count_their_operations_apart() -> None:
    pair, all_of_them = Call("pair", "all_reduce", 5, group=(0, 1)), Call("all", "all_reduce", 5)
    programs: dict[int, Program] = {
        0: [("aggregate", [Work(10), pair, all_of_them])],
        1: [("aggregate", [Work(20), pair, all_of_them])],
        2: [("aggregate", [Work(100), all_of_them])],
    }
    [step] = align_steps(simulate([programs])).steps
    assert waits_of(step) == [10 + 75, 75, 0]
    assert sorted(step.last_arrivals.values()) == [1, 2]


@pytest.mark.parametrize(
    ("other", "wait", "transfer"),
    [(5, 0, 10), (10, 0, 10), (13, 3, 7), (20, 10, 0), (50, 10, 0)],  # over before the other came: clocks are not exact
)
def test_a_wait_is_never_less_than_nothing_nor_more_than_the_operation(other: int, wait: int, transfer: int) -> None:
    [step] = align_steps({0: [made(0, operation())], 1: [made(1, operation(enter=other, exit=60))]}).steps
    own = step.ranks[0]
    assert (own.wait_ns, own.transfer_ns, own.exposed_ns) == (wait, transfer, 10)


def test_an_operation_is_known_by_its_number_and_not_by_its_place_in_the_list() -> None:
    pair = Call("pair", "all_reduce", 7, group=(0, 1), held=3)
    calls: list[Move] = [pair, Call("a", "reduce", 5, root=1, held=4), Work(2), Call("b", "broadcast", 3, root=1)]
    programs: dict[int, Program] = {
        rank: [("data", [Work(10 * rank)]), ("aggregate", [Work(rank), *calls])] for rank in range(2)
    }
    told = simulate([programs])
    turned = {0: [msgspec.structs.replace(step, collectives=step.collectives[::-1]) for step in told[0]], 1: told[1]}
    one, other = align_steps(told), align_steps(turned)
    assert other.mismatches == {}
    figures = [
        [(own.waits, own.idle, own.transfers, own.work_ns, own.program) for own in found.steps[0].ranks.values()]
        for found in (one, other)
    ]
    assert figures[0] == figures[1]


def test_overlapped_waits_are_counted_once() -> None:
    """Four buckets are under way when rank 0 begins to wait for the first; rank 1 sends them all late."""
    usual = [1, 10, 40, 1, 1, 0]
    late = [1, 110, 40, 1, 1, 0]
    [step] = align_steps(trace([{0: usual, 1: late}], bucketed, transfer=5)).steps
    own = step.ranks[0]
    assert len(own.step.collectives) == 4
    began = 1 + 10 + 40 + 1 + 1 + 1000 * MS
    assert own.waits[0].begin == own.idle[0][0] == began
    assert own.wait_ns == 99 - 5 * 3  # all the time but for the last transfers, during which the next one lacked
    assert sum(wait.end - wait.begin for wait in own.waits) == own.wait_ns
    assert own.exposed_ns == own.step.collectives[-1].exit_ns - began


INTERVALS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8)


@given(INTERVALS)
def test_a_union_is_the_same_moments_once_each(intervals: list[tuple[int, int]]) -> None:
    merged = union(intervals)
    moments = {moment for begin, end in intervals for moment in range(begin, end)}
    assert [moment for begin, end in merged for moment in range(begin, end)] == sorted(moments)
    assert all(one_end < other_begin for (_, one_end), (other_begin, _) in pairwise(merged))


WORK = st.lists(st.integers(0, 60), min_size=6, max_size=6)
WORKS = st.integers(2, 4).flatmap(
    lambda ranks: st.lists(st.fixed_dictionaries(dict.fromkeys(range(ranks), WORK)), min_size=1, max_size=4)
)


@given(WORKS, st.sampled_from([all_reduce, reduce_broadcast]), st.integers(1, 20))
def test_of_blocking_operations_wait_and_transfer_are_all_the_exposed_time(
    works: list[dict[int, list[int]]], shape: object, transfer: int
) -> None:
    for step in align_steps(trace(works, shape, transfer)).steps:  # type: ignore[arg-type]
        for rank, own in step.ranks.items():
            assert own.wait_ns + own.transfer_ns == own.exposed_ns == own.under_way_ns
            assert own.transfer_ns == transfer * sum(_takes_time(each, rank) for each in own.step.collectives)


def _takes_time(operation: Collective, rank: int) -> bool:
    """A root sends at once."""
    return operation.kind not in ("broadcast", "scatter") or rank != operation.root


@given(WORKS, st.sampled_from([all_reduce, reduce_broadcast, bucketed]), st.integers(0, 20))
def test_own_work_is_what_was_worked_part_by_part_and_with_idleness_the_whole_step(
    works: list[dict[int, list[int]]], shape: object, transfer: int
) -> None:
    told = trace(works, shape, transfer)  # type: ignore[arg-type]
    for number, step in enumerate(align_steps(told).steps):
        for rank, own in step.ranks.items():
            wanted = list(works[number][rank])
            if shape is bucketed:
                wanted[BACKWARD] -= wanted[BACKWARD] % 4
                wanted[AGGREGATE] += 1
            if number == 0:
                wanted[PARTS.index("between steps")] = 0  # nothing was before
            begin = told[rank][number - 1].end_ns if number else own.step.begin_ns
            assert own.work_ns == wanted
            assert sum(own.work_ns) + own.exposed_ns == own.step.end_ns - begin
            assert sum(sum(event.work) for event in own.program) == sum(own.work_ns)


# In `dp`


def star(*arrived: int, late_root: int = 0) -> AlignedStep:
    """Ranks give to rank 0, and get from it."""
    programs: dict[int, Program] = {
        rank: [
            ("data", [Work(moment)]),
            (
                "aggregate",
                [Call("g", "gather", 5, 0), Work(late_root * (rank == 0)), Call("s", "scatter", 5 * (rank > 0), 0)],
            ),
        ]
        for rank, moment in enumerate(arrived)
    }
    [step] = align_steps(simulate([programs])).steps
    return step


def test_who_waits_for_a_root_that_waits_for_a_leaf_waits_for_the_leaf() -> None:
    step = star(100, 100, 400)
    assert step.ranks[1].waits == [Wait(105, 405, 0)]  # for the root's broadcast,
    # which came so late for the leaf: 100 … 400 the root waited itself, then it transferred
    assert caused_by_step([step]) == [{0: 0, 1: 0, 2: 300 + 295}]


def test_what_the_root_itself_takes_is_its_own_fault() -> None:
    step = star(100, 100, 100, late_root=50)
    assert step.ranks[1].wait_ns == 50
    assert caused_by_step([step]) == [{0: 2 * 50, 1: 0, 2: 0}]


def test_a_wait_for_a_transfer_among_others_is_nobodys_fault() -> None:
    """Ranks 0 and 1 exchange something, and rank 2 can only begin when they are through."""
    programs: dict[int, Program] = {
        0: [("aggregate", [Work(10), Call("p", "send", 500, 1), Call("all", "all_reduce", 5)])],
        1: [("aggregate", [Work(10), Call("p", "recv", 500, 0), Call("all", "all_reduce", 5)])],
        2: [("aggregate", [Work(10), Call("all", "all_reduce", 5)])],
    }
    [step] = align_steps(simulate([programs])).steps
    assert waits_of(step) == [0, 0, 500]
    assert caused_by_step([step]) == [{0: 0, 1: 0, 2: 0}]


def test_blame_reaches_back_over_the_end_of_a_step() -> None:
    """Rank 2 is late in one step; what that costs its partner is waited for by a third rank in the next."""
    exchange = {1: Call("p", "send", 0, 2), 2: Call("p", "recv", 0, 1)}
    first: dict[int, Program] = {
        0: [("data", [Work(10)]), ("optimizer", [])],
        1: [("data", [Work(10)]), ("aggregate", [exchange[1]])],
        2: [("data", [Work(300)]), ("aggregate", [exchange[2]])],
    }
    second: dict[int, Program] = {
        rank: [("data", [Work(10)]), ("aggregate", [Call("all", "all_reduce", 5)])] for rank in RANKS
    }
    by_step = caused_by_step(align_steps(simulate([first, second])).steps)
    caused = {rank: sum(of_step[rank] for of_step in by_step) for rank in RANKS}
    assert caused[0] == 0
    assert caused[2] >= 290 * 2 - 20
    assert caused[1] <= 20


@given(WORKS, st.sampled_from([all_reduce, reduce_broadcast]))
def test_all_that_is_waited_for_is_blamed_on_somebody_or_was_a_transfer(
    works: list[dict[int, list[int]]], shape: object
) -> None:
    for transfer in (1, 9):
        steps = align_steps(trace(works, shape, transfer)).steps  # type: ignore[arg-type]
        waited = sum(own.wait_ns for step in steps for own in step.ranks.values())
        blamed = sum(sum(of_step.values()) for of_step in caused_by_step(steps))
        assert blamed <= waited
        assert blamed >= waited - 4 * transfer * len(works) * len(works[0]) ** 2


def test_every_call_that_is_held_up_is_aggregation_even_within_backward() -> None:
    calls: Sequence[Move] = [Call("a", "all_reduce", 5, held=30), Work(3), Call("b", "all_reduce", 5, held=20)]
    [step] = align_steps(simulate([{rank: [("backward", [Work(7), *calls])] for rank in (0, 1)}])).steps
    assert step.ranks[0].work_ns[BACKWARD] == 10
    assert step.ranks[0].work_ns[AGGREGATE] == 50


def test_phases_come_in_the_order_that_the_step_tells() -> None:
    """Parameters are averaged after the optimizer; the wait lies within that, wherever it stands among the phases."""
    call = Call("it", "all_reduce", 5)
    programs: dict[int, Program] = {
        rank: [
            (BETWEEN, [Work(4)]),
            ("data", [Work(1)]),
            ("forward", [Work(2 + 50 * rank)]),
            ("backward", [Work(3)]),
            ("optimizer", [Work(40)]),
            ("aggregate", [Work(7), call]),
        ]
        for rank in (0, 1)
    }
    first, second = align_steps(simulate([programs, programs])).steps
    assert first.ranks[0].work_ns == [1, 2, 3, 7, 40, 0]
    assert second.ranks[0].work_ns == [1, 2, 3, 7, 40, 4]
    assert second.ranks[1].work_ns == [1, 52, 3, 7, 40, 4]
    assert first.ranks[0].wait_ns == 50


def both_in_one(*pauses: tuple[int, int, int]) -> AlignedStep:
    """Rank 0 enters at 10, rank 1 at 20, both are through at 100. Pauses: whose, from and until when."""
    told = {0: [made(0, operation(enter=10, exit=100))], 1: [made(1, operation(enter=20, exit=100))]}
    [step] = align_steps(told, [Pause(rank=rank, begin_ns=begin, end_ns=end) for rank, begin, end in pauses]).steps
    return step


@pytest.mark.parametrize(
    ("pauses", "waited", "stood"),
    [
        ([], 10, 0),
        ([(1, 30, 80)], 10 + 50, 50),
        ([(1, 0, 80)], 10 + 60, 60),  # until 20 it was simply not there
        ([(1, 30, 500)], 10 + 70, 70),
        ([(1, 30, 40), (1, 50, 60)], 10 + 20, 20),
        ([(1, 0, 15)], 10, 0),
        ([(2, 30, 80)], 10, 0),
        ([(0, 12, 18)], 10, 0),  # one that stands still while it waits is not waited for
    ],
)
def test_who_stands_still_in_an_operation_is_waited_for(
    pauses: list[tuple[int, int, int]], waited: int, stood: int
) -> None:
    step = both_in_one(*pauses)
    one, other = step.ranks[0], step.ranks[1]
    assert (one.wait_ns, one.transfer_ns) == (waited, 90 - waited)
    assert {wait.late_rank for wait in one.waits} == {1}
    assert other.wait_ns == 0
    assert other.exposed_ns == other.transfer_ns == 80 - stood
    assert other.work_ns[AGGREGATE] == 1000 - 80 + stood
    assert caused_by_step([step]) == [{0: 0, 1: waited}]


def test_who_stands_still_himself_waits_for_nobody_meanwhile() -> None:
    """Both at once, as when the whole machine does: wait and transfer are still all that is exposed."""
    step = both_in_one((0, 30, 60), (1, 40, 80))
    one, other = step.ranks[0], step.ranks[1]
    assert (one.wait_ns, one.transfer_ns, one.exposed_ns) == (10 + 20, 30, 60)
    assert (other.wait_ns, other.transfer_ns, other.exposed_ns) == (10, 30, 40)
