"""What would have been: replayed with the work as it was, the measured time comes out again; with other work, the time
of a simulated world in which that work is done."""

from collections.abc import Sequence
from statistics import median

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.analysis.late import Window, replayed_ns, what_if
from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.findings.verdict import analyze_waits
from ddptui.wire.messages import Pause
from tests.support.traces import (
    MS,
    Await,
    ByPart,
    Call,
    Move,
    Program,
    Shape,
    Told,
    Work,
    all_reduce,
    bucketed,
    delayed,
    gather_scatter,
    reduce_broadcast,
    simulate,
    trace,
    works_of,
)

SHAPES = [all_reduce, reduce_broadcast, gather_scatter, bucketed]
BLOCKING = SHAPES[:-1]
A_FEW_NS = 20  # what rounding to whole ns may come to

PART = st.integers(1, 60).map(lambda work: 4 * work)  # some of each part, in whole quarters
Works = list[dict[int, list[int]]]


def works(least: int = 2) -> st.SearchStrategy[Works]:
    def of_ranks(ranks: int) -> st.SearchStrategy[Works]:
        step = st.fixed_dictionaries({rank: st.lists(PART, min_size=6, max_size=6) for rank in range(ranks)})
        return st.lists(step, min_size=1, max_size=3)

    return st.integers(least, 3).flatmap(of_ranks)


def measured(told: Told) -> int:
    return max(own[-1].end_ns for own in told.values()) - min(own[0].begin_ns for own in told.values())


def replayed(steps: Sequence[AlignedStep]) -> float:
    return replayed_ns(steps, Window(steps).work)


@given(works(), st.sampled_from(SHAPES), st.integers(1, 40))
def test_with_the_work_as_it_was_the_measured_time_comes_out_again(works: Works, shape: Shape, transfer: int) -> None:
    told = trace(works, shape, transfer)
    assert replayed(align_steps(told).steps) == pytest.approx(measured(told), abs=1e-3)


@given(works(), st.sampled_from(BLOCKING), st.integers(1, 40), st.data())
def test_with_other_work_it_takes_what_that_work_really_takes(
    works: Works, shape: Shape, transfer: int, data: st.DataObject
) -> None:
    works = [{rank: [*work[:5], 0] for rank, work in works[0].items()}, *works[1:]]  # no gap before the first
    others = [
        {rank: [data.draw(PART) if part else 0 for part in work] for rank, work in step.items()} for step in works
    ]
    steps = align_steps(trace(works, shape, transfer)).steps
    found = replayed_ns(steps, np.array([[step[rank] for rank in sorted(step)] for step in others], dtype=float))
    assert found == pytest.approx(measured(trace(others, shape, transfer)), abs=A_FEW_NS)
    assert replayed([]) == 0.0


@pytest.mark.parametrize("transfer_ms", [0.5, 2.0])
@pytest.mark.parametrize("fault", ["at the end of backward", "a heavier share", "throughout backward"])
def test_what_was_over_before_it_was_waited_for_does_not_hold_up_a_quicker_rank(fault: str, transfer_ms: float) -> None:
    """The slow rank's buckets come back while it still works on the next ones: it never waited for them, and does not
    when it is quicker, but at the end."""

    def shape(rank: int, work: ByPart, transfer: int) -> Program:
        *usual, longer = work
        program = list(bucketed(rank, usual, transfer))
        name, moves = program[3]
        program[3] = (name, [*moves, Work(longer)])
        return program

    clean = [{rank: [*work, 0] for rank, work in step.items()} for step in works_of(11, steps=50)]
    late = [{rank: list(work) for rank, work in step.items()} for step in clean]
    for step in late:
        match fault:
            case "at the end of backward":
                step[1][6] = 25 * MS
            case "a heavier share":
                step[1][1:3] = [2 * part for part in step[1][1:3]]
            case _:
                step[1][2] += 25 * MS
    judgement = analyze_waits(trace(late, shape, round(transfer_ms * MS)))
    without = what_if(judgement).without_culprit
    assert without == pytest.approx(measured(trace(clean, shape, round(transfer_ms * MS))) / 1e9, rel=0.1)


def test_messages_between_neighbours_are_replayed_too() -> None:
    def program(late: int) -> dict[int, Program]:
        return {
            0: [("data", [Work(10)]), ("aggregate", [Call("a", "send", 5, 1), Call("c", "recv", 5, 2)])],
            1: [("data", [Work(20 + late)]), ("aggregate", [Call("a", "recv", 5, 0), Call("b", "send", 5, 2)])],
            2: [("data", [Work(30)]), ("aggregate", [Call("b", "recv", 5, 1), Call("c", "send", 5, 0)])],
        }

    told = simulate([program(0), program(300), program(0)])
    steps = align_steps(told).steps
    assert replayed(steps) == measured(told)
    in_time = Window(steps).work.copy()
    in_time[:, :, 0] = [10, 20, 30]
    assert replayed_ns(steps, in_time) == measured(simulate([program(0)] * 3)) < measured(told) - 250


def test_what_was_entered_at_the_very_moment_at_which_another_is_waited_for_was_entered_first() -> None:
    sent: list[Move] = [
        Call("a", "all_reduce", 50, background=True),
        Work(10),
        Call("b", "all_reduce", 50, background=True),
    ]
    programs: dict[int, Program] = {
        rank: [("backward", sent), ("aggregate", [Await("a"), Await("b")])] for rank in (0, 1)
    }
    told = simulate([programs])
    assert measured(told) == 10 + 50
    assert replayed(align_steps(told).steps) == measured(told)


def test_where_a_rank_stood_still_in_an_operation_the_measured_time_comes_out_again() -> None:
    """Rank 1 stops in it for 500. Its operation lasts so much longer for all; the others meet it at the next one."""
    program: dict[int, Program] = {
        0: [("aggregate", [Work(10), Call("it", "all_reduce", 600)]), ("optimizer", [Work(100)])],
        1: [("aggregate", [Work(20), Call("it", "all_reduce", 600)]), ("optimizer", [Work(100)])],
    }
    told = simulate([program, program], start_ns=1000)
    stop = Pause(rank=1, begin_ns=1000 + 50, end_ns=1000 + 550)
    assert replayed(align_steps(told, [stop]).steps) == pytest.approx(measured(told))


def test_the_culprit_is_replaced_by_the_median_of_the_others_step_by_step() -> None:
    """Two of the others' hiccups are not taken over by it."""
    clean = works_of(7, ranks=4, noise=0.0, skew=0.0)
    late, _ = delayed(clean, 3, "data", lambda _: 25.0)
    late, _ = delayed(late, 0, "optimizer", lambda step: 50.0 if step == 50 else 0.0)
    judgement = analyze_waits(trace(late))
    assert judgement.culprit.rank == 3
    expected = [
        step | {3: [round(median(parts)) for parts in zip(step[0], step[1], step[2], strict=True)]} for step in late
    ]
    assert what_if(judgement).without_culprit == pytest.approx(measured(trace(expected)) / 1e9, abs=1e-4)


def test_a_step_that_was_left_out_is_in_the_time_all_the_same() -> None:
    told = trace(works_of(8))
    differs = msgspec.structs.replace(told[1][40], collectives=told[1][40].collectives[:1])
    told[1][40] = differs
    judgement = analyze_waits(told)
    assert list(judgement.aligned.mismatches) == [40]
    assert judgement.train_ns == measured(told)
    assert what_if(judgement).without_skew == pytest.approx(measured(told) / 1e9, rel=0.2)
