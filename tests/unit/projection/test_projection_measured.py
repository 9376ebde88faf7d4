"""What is read off a launch: own work, computed and slept; calls, how long each took by itself; what a step sends."""

from collections.abc import Sequence

import msgspec
import pytest

from ddptui.analysis.launch_data import LaunchData
from ddptui.config.trial import Bottleneck, Site
from ddptui.config.values import make_trial
from ddptui.projection.measured import measured_trial, predicted_trials, step_ms
from ddptui.projection.model import MeasuredTrial, Work
from ddptui.wire.messages import Slept, Step
from ddptui.wire.records import Message
from tests.support.builders import done, ended, hello, launched, ready
from tests.support.projected import STEPS, journal
from tests.support.traces import BETWEEN, MS, Await, Call, Program, simulate
from tests.support.traces import Work as Busy

SIZES = ("weight", "bias", "other")


def heard_of(messages: Sequence[Message]) -> LaunchData:
    heard = LaunchData()
    for message in messages:
        heard.add(message)
    return heard


def launch_of(
    program: Program,
    other: Program | None = None,
    *,
    slept: Sequence[tuple[Site, int]] = (),
    strategy: str = "all_reduce",
) -> MeasuredTrial:
    """Two ranks that make three steps each, of this program or of one each; the sleep of a step, in ms, is somewhere in
    it."""
    told = simulate([{0: program, 1: other or program}] * 3, start_ns=1000 * MS)
    steps = [_with_sleep(step, slept) for own in told.values() for step in own]
    ranks = (0, 1)
    others: list[Message] = [launched(), *(hello(rank) for rank in ranks), *(ready(rank, 3) for rank in ranks)]
    names = dict.fromkeys(SIZES, "hash")
    heard = heard_of([*others, *steps, *(done(rank, parameters=names) for rank in ranks), ended()])
    return measured_trial(make_trial({"strategy": strategy}), [heard])


def _with_sleep(step: Step, slept: Sequence[tuple[Site, int]]) -> Step:
    told = tuple(Slept(at, step.begin_ns, step.begin_ns + ms * MS) for at, ms in slept)
    return msgspec.structs.replace(step, slept=told)


def program(*aggregate: Call | Await, backward: Sequence[Call] = ()) -> Program:
    return [
        (BETWEEN, [Busy(1 * MS)]),
        ("data", [Busy(2 * MS)]),
        ("forward", [Busy(8 * MS)]),
        ("backward", [Busy(10 * MS), *backward, Busy(6 * MS)]),
        ("aggregate", aggregate),
        ("optimizer", [Busy(3 * MS)]),
    ]


def test_work_is_without_transfers_and_what_was_slept_is_apart() -> None:
    found = launch_of(program(Call("a", "all_reduce", 7 * MS)), slept=[("forward", 5), ("backward", 4)])
    for [*_, last] in found.work[0]:
        assert last == pytest.approx(Work(batch=17e-3, rest=4e-3, batch_slept=9e-3, rest_slept=0.0))
    assert found.hidden is None
    assert found.backward == pytest.approx(12e-3)  # what it computes
    found = launch_of(program(Call("a", "all_reduce", 7 * MS, held=5 * MS)), slept=[("aggregate", 5)])
    assert found.work[0][0][-1][1:] == pytest.approx((4e-3, 0, 5e-3))


def test_calls_that_queue_count_from_the_end_of_the_one_before_and_those_of_a_kind_together() -> None:
    calls = [
        Call("a", "all_reduce", 9 * MS, background=True),
        Call("b", "all_reduce", 11 * MS, background=True, bytes=16),
    ]
    found = launch_of(program(Await("a"), Await("b"), backward=calls))
    assert [call.bytes for call in found.calls] == [8, 16]
    assert [call.s for call in found.calls] == pytest.approx([9e-3, 2e-3])
    calls = [
        Call("a", "all_reduce", 2 * MS),
        Call("b", "all_reduce", 4 * MS),
        Call("c", "all_reduce", 9 * MS, bytes=16),
    ]
    small, large = launch_of(program(*calls)).calls
    assert (small.s, small.weight, large.s, large.weight) == pytest.approx((3e-3, 18e-3, 9e-3, 27e-3))


def test_a_call_is_over_on_the_last_rank_but_the_last_one_of_a_step_on_average() -> None:
    """The root of a broadcast is free at once, and waits for the other in what follows."""
    sizes = (8, 16)
    root, leaf = (
        program(*(Call(str(size), "broadcast", transfer * MS, root=0, bytes=size) for size in sizes))
        for transfer in (0, 4)
    )
    assert [call.s for call in launch_of(root, leaf).calls] == pytest.approx([4e-3, 2e-3])


@pytest.mark.parametrize(("strategy", "hidden_ms"), [("bucketed", 6), ("all_reduce", None)])
def test_what_backward_hid_of_the_transfers(strategy: str, hidden_ms: float | None) -> None:
    """The bucket leaves after 10 of 16 ms, takes 9, and is over 3 ms after backward."""
    bucket = Call("a", "all_reduce", 9 * MS, background=True)
    found = launch_of(program(Await("a"), backward=[bucket]), strategy=strategy)
    assert found.buckets == 1
    assert found.hidden == (hidden_ms and pytest.approx(hidden_ms / 1e3))
    assert found.backward == pytest.approx(16e-3)


def test_what_is_hidden_while_a_delay_sleeps_stays_hidden() -> None:
    bucket = Call("a", "all_reduce", 9 * MS, background=True)
    late = launch_of(program(Await("a"), backward=[bucket]), slept=[("backward", 14)], strategy="bucketed")
    assert late.backward == late.hidden == pytest.approx(6e-3)


def test_parts_count_all_together_and_gradients_are_as_large_as_the_parameters() -> None:
    found = launch_of(program(Call("a", "all_gather", 2 * MS, bytes=100)))
    assert [each.bytes for each in found.calls] == [200]
    found = launch_of(program(Call("a", "all_reduce", 2 * MS)))
    assert (found.ranks, found.tensors, found.bytes, found.itemsize) == (2, 3, 4000, 4)


def test_a_step_takes_the_train_time_by_their_number() -> None:
    heard = heard_of(journal("two", 2, seed=1))
    first, final = heard.steps[0][0], heard.steps[0][-1]
    assert step_ms([heard]) == pytest.approx((final.end_ns - first.begin_ns) / 1e6 / STEPS)


def delays(ranks: tuple[int, ...]) -> tuple[Bottleneck, ...]:
    return (Bottleneck(at="forward", sleep_ms=5, ranks=ranks),)


def test_what_is_predicted_is_the_same_training_on_other_ranks() -> None:
    two = make_trial({"name": "two", "batch_size": 16, "bottleneck": delays((0, 1))})
    four = make_trial(
        {"name": "four", "world_size": 4, "batch_size": 32, "seed": 7, "bottleneck": delays((0, 1, 2, 3))}
    )
    ring = msgspec.structs.replace(four, name="ring", strategy="ring")
    longer = msgspec.structs.replace(four, name="longer", steps=99, warmup_steps=9)
    shared = msgspec.structs.replace(four, name="shared", batch_size=16)
    deeper = msgspec.structs.replace(four, name="deeper", depth=5)
    one_late = msgspec.structs.replace(four, name="one late", bottleneck=delays((0, 1)))
    trials = (two, four, ring, longer, shared, deeper, one_late)
    assert [each.name for each in predicted_trials(two, trials, strong=False)] == ["two", "four", "ring", "longer"]
    assert [each.name for each in predicted_trials(two, trials, strong=True)] == ["two", "shared"]
