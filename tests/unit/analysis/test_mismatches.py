"""Steps of ranks that cannot be joined: left out, and told by their first difference."""

import msgspec
import pytest

from ddptui.analysis.operations import SLACK_NS, mismatch
from ddptui.analysis.waits import align_steps
from ddptui.wire.messages import Collective, Step
from ddptui.wire.records import shift_times
from tests.support.traces import trace, works_of
from tests.unit.analysis.test_waits import made, operation


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            [operation(), operation("broadcast", 1, root=0)],
            [operation(), operation("reduce", 1, root=0)],
            "as operation 2, rank 0 made broadcast (8 bytes, root 0), rank 1 reduce (8 bytes, root 0)",
        ),
        ([operation()], [operation(bytes=16)], "as operation 1, rank 0 made all_reduce (8 bytes), rank 1 all_reduce"),
        (
            [operation("broadcast", root=0)],
            [operation("broadcast", root=1)],
            "as operation 1, rank 0 made broadcast (8 bytes, root 0), rank 1 broadcast (8 bytes, root 1)",
        ),
        ([], [operation()], "as operation 1, rank 0 made none, rank 1 all_reduce (8 bytes)"),
        ([operation(seq=1)], [operation(seq=2)], "ranks number their operations in different ways"),
        ([operation("send", root=1)], [], "from rank 0 to rank 1, 1 more sent than received"),
        ([], [operation("recv", root=0)] * 2, "from rank 0 to rank 1, 2 more received than sent"),
    ],
)
def test_a_step_in_which_ranks_differ_is_told_by_its_first_difference_and_left_out(
    one: list[Collective], other: list[Collective], words: str
) -> None:
    told = {
        rank: [made(rank, *own), shift_times(made(rank, operation(), number=1), 1000)]
        for rank, own in enumerate((one, other))
    }
    joints = align_steps(told)
    assert [*joints.mismatches] == [0]
    assert joints.mismatches[0].startswith(words)
    assert [step.number for step in joints.steps] == [1]


def test_a_rank_outside_a_group_does_not_differ_for_not_taking_part_in_it() -> None:
    inside = [made(rank, operation(group=(0, 1)), operation()) for rank in (0, 1)]
    assert mismatch({0: inside[0], 1: inside[1], 2: made(2, operation())}) is None
    assert mismatch({0: inside[0], 1: made(1, operation()), 2: made(2, operation())}) is not None


def test_a_step_of_which_a_rank_has_not_told_is_left_out() -> None:
    told = trace(works_of(1, ranks=2, steps=5))
    del told[1][2]
    del told[0][4]
    joints = align_steps(told)
    assert ([step.number for step in joints.steps], joints.mismatches) == ([0, 1, 3], {})
    assert align_steps({}).steps == align_steps({0: [], 1: []}).steps == []


FIRST = operation("all_reduce", 0, 10, 20)


def with_call(**fields: object) -> Step:
    return made(1, msgspec.structs.replace(FIRST, **fields))


IMPOSSIBLE: dict[str, tuple[Step, str]] = {
    "it ends before it begins": (made(1, end=-5), "impossible phases"),
    "it takes no time": (made(1, end=0), "impossible phases"),
    "a phase of less than nothing": (
        msgspec.structs.replace(with_call(), phases_ns=(-1, 0, 0, 0, 0)),
        "impossible phases",
    ),
    "a phase comes twice": (msgspec.structs.replace(with_call(), order=(0, 0)), "impossible phases"),
    "entered before it was called": (with_call(called_ns=15), "impossible times of all_reduce 0"),
    "awaited before it was entered": (with_call(awaited_ns=-(10**9)), "impossible times of all_reduce 0"),
    "over before it was entered": (with_call(exit_ns=9), "impossible times of all_reduce 0"),
    "over long after the step": (with_call(exit_ns=2**62), "impossible times of all_reduce 0"),
    "begun before the step": (with_call(called_ns=-1), "impossible times of all_reduce 0"),
    "a root that is not there": (with_call(kind="broadcast", root=77), "broadcast 0 with ranks that do not exist"),
    "a root in its group but not there": (
        with_call(kind="broadcast", root=2, group=(1, 2)),
        "broadcast 0 with ranks that do not exist",
    ),
    "a message to nobody": (with_call(kind="send"), "send 0 with ranks that do not exist"),
    "in a group of others": (with_call(group=(0, 2)), "all_reduce 0 with ranks that do not exist"),
    "twice": (made(1, FIRST, FIRST), "the same operation twice"),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_step_that_cannot_be_is_left_out_and_told(what: str) -> None:
    step, words = IMPOSSIBLE[what]
    joints = align_steps({0: [made(0, FIRST)], 1: [step]})
    assert joints.steps == []
    assert joints.mismatches == {0: f"rank 1 reported {words}"}


def test_what_ends_a_little_after_the_step_may_be() -> None:
    assert align_steps({0: [made(0, FIRST)], 1: [with_call(exit_ns=1000 + SLACK_NS)]}).mismatches == {}
