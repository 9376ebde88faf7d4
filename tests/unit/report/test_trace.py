"""A run as Trace Event JSON: everything nests, wait and transfer fill an operation, arrows go where they should."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from ddptui.report.exports import TRACKS_A_RANK, trace
from ddptui.wire.messages import Pause, Slept
from ddptui.wire.records import Launched, Message
from tests.support.traces import (
    MS,
    Shape,
    Told,
    all_reduce,
    bucketed,
    delayed,
    gather_scatter,
    reduce_broadcast,
    works_of,
)
from tests.support.traces import trace as told_by

Event = dict[str, Any]
SHAPES = (reduce_broadcast, gather_scatter, bucketed)


def late(shape: Shape, ranks: int = 2, steps: int = 4) -> Told:
    """Rank 1 is late by 25 ms in every step."""
    works, _ = delayed(works_of(1, ranks=ranks, steps=steps), 1, "forward", lambda _: 25.0)
    return told_by(works, shape)


def events_of(told: Told, begin: Iterable[Message] = ()) -> list[Event]:
    messages = [*begin, *(step for own in told.values() for step in own)]
    decoded: dict[str, Any] = msgspec.json.decode("".join(trace({("a", 1): messages})))
    assert decoded["displayTimeUnit"] == "ms"
    return decoded["traceEvents"]


def slices(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["ph"] == "X" and event["cat"] == kind]


def end(event: Event) -> float:
    return event["ts"] + event["dur"]


@pytest.mark.parametrize("shape", SHAPES)
def test_on_every_track_slices_lie_within_each_other_or_apart(shape: Shape) -> None:
    ranks = 3
    by_track = defaultdict(list)
    for event in events_of(late(shape, ranks)):
        if event["ph"] == "X":
            by_track[event["tid"]].append(event)
    assert len(by_track) >= 2 * ranks
    for track in by_track.values():
        open_until: list[float] = []
        for event in sorted(track, key=lambda event: (event["ts"], -event["dur"])):
            while open_until and open_until[-1] <= event["ts"] + 1e-3:
                open_until.pop()
            assert not open_until or end(event) <= open_until[-1] + 1e-3
            open_until.append(end(event))


def test_each_rank_has_a_track_with_its_steps_and_their_phases_since_the_launch() -> None:
    told = late(all_reduce)
    events = events_of(told)
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {
        0: "rank 0",
        1: "rank 0, operations",
        TRACKS_A_RANK: "rank 1",
        TRACKS_A_RANK + 1: "rank 1, operations",
    }
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == ["a, repeat 1"]
    for track in (0, TRACKS_A_RANK):
        assert [each["name"] for each in slices(events, "step") if each["tid"] == track] == [
            f"step {number}" for number in range(4)
        ]
        phases = [each["name"] for each in slices(events, "phase") if each["tid"] == track]
        assert phases == 4 * ["data", "forward", "backward", "aggregate", "optimizer"]
    early = Launched(trial="a", repeat=1, at_ns=told[0][0].begin_ns - 7 * MS, command=())
    [begin, *_] = slices(events_of(told, [early]), "step")
    assert begin["ts"] == pytest.approx(7000)


def test_a_wait_and_a_transfer_fill_the_operation() -> None:
    events = events_of(late(reduce_broadcast))
    operations = [each for each in slices(events, "operation") if each["tid"] == 1]  # of rank 0, who waits
    waits = [each for each in slices(events, "wait") if each["tid"] == 1]
    parts = waits + [each for each in slices(events, "transfer") if each["tid"] == 1]
    assert len(waits) >= 4
    for operation in operations:
        begin, over = operation["ts"] - 1e-3, end(operation) + 1e-3
        within = [each["dur"] for each in parts if begin <= each["ts"] and end(each) <= over]
        assert sum(within) == pytest.approx(operation["dur"], abs=2e-3)
    assert {each["name"] for each in waits} == {"wait for rank 1"}
    assert max(each["dur"] for each in waits) > 20_000


@pytest.mark.parametrize("shape", SHAPES)
def test_an_arrow_goes_from_the_wait_to_the_moment_at_which_the_other_came(shape: Shape) -> None:
    events = events_of(late(shape))
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    waits = slices(events, "wait")
    assert begins.keys() == ends.keys()
    assert len(begins) == len(waits) > 0
    for wait, (number, begin) in zip(waits, begins.items(), strict=True):
        whom = int(wait["name"].removeprefix("wait for rank "))
        assert (begin["tid"], begin["ts"]) == (wait["tid"], wait["ts"])
        assert ends[number]["tid"] // TRACKS_A_RANK == whom != wait["tid"] // TRACKS_A_RANK
        assert ends[number]["ts"] == pytest.approx(end(wait))
        assert any(
            each["tid"] == ends[number]["tid"] and each["ts"] == ends[number]["ts"]
            for each in slices(events, "operation")
        )


def test_delays_and_standstills_are_marked() -> None:
    told = late(all_reduce, steps=1)
    [step] = told[1]
    slept = Slept("forward", step.begin_ns + 2 * MS, step.begin_ns + 20 * MS)
    told[1] = [msgspec.structs.replace(step, slept=(slept,))]
    [delay] = slices(events_of(told), "bottleneck")
    assert (delay["name"], delay["tid"]) == ("delay put in at forward", TRACKS_A_RANK)
    assert delay["dur"] == pytest.approx(18_000)
    told = late(all_reduce, steps=1)
    [operation, *_] = told[1][0].collectives
    stop = Pause(rank=1, begin_ns=operation.enter_ns + 1000, end_ns=operation.exit_ns - 1000)
    events = events_of(told, [stop])
    [stood] = slices(events, "pause")
    assert stood["tid"] == 2 * TRACKS_A_RANK - 1
    assert stood["dur"] == pytest.approx((stop.end_ns - stop.begin_ns) / 1000)
    assert not [each for each in slices(events, "wait") if each["tid"] // TRACKS_A_RANK == 1]


def test_of_a_step_in_which_ranks_disagree_the_operations_are_there_and_no_more() -> None:
    told = late(all_reduce, steps=2)
    told[1][1] = msgspec.structs.replace(told[1][1], collectives=told[1][1].collectives[:1])
    events = events_of(told)
    begin = min(step[1].begin_ns for step in told.values()) / 1000
    assert len([each for each in slices(events, "operation") if each["ts"] > begin]) == 2 + 1
    assert not [each for each in slices(events, "wait") + slices(events, "transfer") if each["ts"] > begin]


def test_arrows_of_two_repeats_are_not_the_same_ones() -> None:
    told = late(all_reduce, steps=1)
    steps = [step for own in told.values() for step in own]
    text = "".join(trace({("a", 1): steps, ("a", 2): steps}))
    ids = [each["id"] for each in msgspec.json.decode(text)["traceEvents"] if each["ph"] == "s"]
    assert len(ids) == len(set(ids)) >= 2
