"""What is no rank of the launch, or is one and speaks nonsense: counted, never fatal, and never in the record."""

import os
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddptui.engines import rank_server as module
from ddptui.engines import sockets
from ddptui.engines.rank_server import RankServer
from ddptui.findings.compare import RunningResults
from ddptui.findings.repeat import outcome_of_messages
from ddptui.live.fold import fold
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import Live
from ddptui.wire.limits import MOST_BYTES_A_FRAME
from ddptui.wire.messages import VERSION, Collective, RankMessage, Slept, Step
from ddptui.wire.records import Alive, Message
from tests.support.builders import done, ended, hello, launched, preset_of, ready, step, trained
from tests.unit.engines.conftest import Connect

RANKS = 2
SOON_MS = 5_000
FRAMES = 100_000
MOST_GROWTH = 64 * 2**20  # bytes: what sockets and allocators hold on to

# At a running hub


def packed(*messages: RankMessage) -> bytes:
    return msgspec.msgpack.encode(messages)


def heard_until(hub: RankServer, refused: int) -> list[RankMessage]:
    """What the hub hears until it has refused so much."""
    heard: list[RankMessage] = []
    while hub.refused < refused:
        before = hub.refused
        new = hub.receive(SOON_MS)
        assert new or hub.refused > before, f"only {before} of {refused} frames were refused"
        heard += new
    return heard


def frames_of_a_stranger(hub: RankServer, chance: random.Random) -> Iterator[bytes]:
    """Of every kind, without end: noise, sound words without a token, the token with what does not fit, and replays."""
    sound = packed(ready(0), step(0))
    replayed = packed(hello(0, token=hub.token))
    while True:
        yield chance.choice(
            [
                chance.randbytes(chance.randrange(200)),
                sound[: chance.randrange(len(sound))],
                sound,
                packed(hello(0, token="guessed")),
                packed(hello(0, token=hub.token, version=VERSION + 1)),
                packed(hello(RANKS, token=hub.token)),
                packed(hello(0, token=hub.token, world_size=7)),
                replayed,
                packed(step(1), hello(1, token=hub.token)),
                bytes(module.MOST_BYTES_OF_A_STRANGER + 1) if chance.random() < 0.01 else b"",
            ]
        )


def test_a_flood_of_hostile_frames_is_counted_and_the_ranks_are_heard(hub: RankServer, connect: Connect) -> None:
    ranks = [connect() for _ in range(RANKS)]
    for rank, own in enumerate(ranks):
        own.send(packed(hello(rank, token=hub.token)))
    heard: list[RankMessage] = []
    while len(heard) < RANKS:
        heard += hub.receive(SOON_MS)
    strangers = [connect() for _ in range(20)]
    hostile = frames_of_a_stranger(hub, random.Random(1))
    sent, begin = 0, psutil.Process().memory_info().rss
    for number in range(FRAMES // 100):
        for _ in range(100):
            strangers[sent % len(strangers)].send(next(hostile))
            sent += 1
        for rank, own in enumerate(ranks):
            own.send(packed(step(rank, number)))
        heard += heard_until(hub, sent)
    while len(heard) < RANKS * (1 + FRAMES // 100):
        heard += hub.receive(SOON_MS)
    assert hub.refused == sent == FRAMES
    for rank in range(RANKS):
        own_words = [message for message in heard if message.rank == rank]
        assert own_words == [hello(rank, token=hub.token), *(step(rank, number) for number in range(FRAMES // 100))]
    assert psutil.Process().memory_info().rss - begin < MOST_GROWTH


def knock(hub: RankServer) -> socket.socket:
    stranger = socket.socket(socket.AF_UNIX)
    try:
        stranger.connect(hub.endpoint.removeprefix("ipc://"))
    except OSError:
        stranger.close()
        raise
    return stranger


def knock_until_nobody_opens(hub: RankServer, strangers: ExitStack) -> None:
    for _ in range(1000):
        strangers.enter_context(knock(hub))
        hub.receive(0)


def test_before_files_run_out_the_door_is_shut_and_opens_again(hub: RankServer, connect: Connect) -> None:
    """libzmq aborts the process when a connection comes that it has no file for."""
    rank = connect()
    rank.send(packed(hello(0, token=hub.token)))
    assert hub.receive(SOON_MS) == [hello(0, token=hub.token)]
    hub.socket._most = len(os.listdir("/dev/fd")) + 40
    with ExitStack() as strangers:
        with pytest.raises(FileNotFoundError):
            knock_until_nobody_opens(hub, strangers)
        rank.send(packed(step(0)))
        assert hub.receive(SOON_MS) == [step(0)]
    late = connect()
    late.send(packed(hello(1, token=hub.token)))
    heard: list[RankMessage] = []
    while not heard:
        heard = hub.receive(100)
    assert heard == [hello(1, token=hub.token)]


def test_who_never_reads_does_not_hold_up_the_console(hub: RankServer, connect: Connect) -> None:
    deaf, rank = connect(), connect()
    for number, own in enumerate((deaf, rank)):
        own.send(packed(hello(number, token=hub.token)))
    while len(hub.hellos) < RANKS:
        hub.receive(SOON_MS)
    for _ in range(20_000):
        hub.send(Alive(), ranks=[0])
    hub.send(Alive(), ranks=[1])
    assert rank.poll(SOON_MS)


def test_the_largest_frame_comes_through_and_a_larger_one_ends_the_connection(
    hub: RankServer, connect: Connect
) -> None:
    rank = connect()
    rank.send(packed(hello(0, token=hub.token)))
    hub.receive(SOON_MS)
    rank.send(bytes(MOST_BYTES_A_FRAME))
    assert heard_until(hub, 1) == []
    rank.send(bytes(MOST_BYTES_A_FRAME + 1))
    other = connect()
    other.send(packed(hello(1, token=hub.token)))
    assert hub.receive(SOON_MS) == [hello(1, token=hub.token)]
    assert hub.refused == 1


def test_what_is_decoded_at_once_is_bounded(hub: RankServer, connect: Connect) -> None:
    """A rank that says much is heard in turns, so that the console can do other things."""
    rank = connect()
    rank.send(packed(hello(0, token=hub.token)))
    hub.receive(SOON_MS)
    one = packed(step(0))
    messages = [step(0)] * (MOST_BYTES_A_FRAME // len(one))
    for _ in range(4):
        rank.send(packed(*messages))
    heard = []
    while sum(heard) < 4 * len(messages):
        heard.append(len(hub.receive(SOON_MS)))
    assert max(heard) <= (sockets.MOST_BYTES_AT_ONCE // len(packed(*messages)) + 1) * len(messages)


# Anything of the right types

TIMES = st.integers(0, 60) | st.sampled_from([0, 10**9, 2**62])
RANK = st.integers(0, RANKS)  # one too many
NUMBERS = st.floats(-1.7e308, 1.7e308) | st.none()
KINDS = st.sampled_from(["all_reduce", "broadcast", "gather", "scatter", "send", "recv", "gather_outputs", ""])


@st.composite
def collectives(draw: st.DrawFn) -> Collective:
    """Often in the order in which it can have happened."""
    times = draw(st.lists(TIMES, min_size=4, max_size=4))
    called, enter, awaited, over = sorted(times) if draw(st.booleans()) else times
    return Collective(
        draw(KINDS), draw(st.integers(0, 3)), 8, called, enter, awaited, over, draw(st.none() | RANK),
        draw(st.sampled_from([(), (0, 1), (1,), (7,)])), draw(st.none() | st.integers(0, 3)),
    )  # fmt: skip


@st.composite
def steps(draw: st.DrawFn) -> Step:
    times = draw(st.lists(TIMES, min_size=2, max_size=2))
    return Step(
        rank=draw(RANK),
        step=draw(st.integers(0, 5)),
        epoch=0,
        warmup=draw(st.booleans()),
        begin_ns=min(times) if draw(st.booleans()) else times[0],
        end_ns=max(times),
        phases_ns=draw(st.tuples(*[st.integers(0, 30)] * 5)),
        samples=draw(st.integers(0, 4)),
        loss=draw(NUMBERS),
        order=draw(st.sampled_from([(0, 1, 2, 3, 4), (0, 0, 0), (4, 3)])),
        collectives=tuple(draw(st.lists(collectives(), max_size=3))),
        slept=tuple(draw(st.lists(st.builds(Slept, st.sampled_from(["start", "data"]), TIMES, TIMES), max_size=2))),
    )


MADE = preset_of({"title": "?", "trial": [{"name": "a"}]})


def told(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[RankMessage]:
    """A message of this kind, of some rank."""
    made = st.fixed_dictionaries({"type": st.just(kind), "rank": RANK, **fields})
    return made.map(lambda fields: msgspec.convert(fields, RankMessage))


COUNTS = st.integers(0, 6) | st.just(2**62)
HASHES = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
BUFFER = st.tuples(st.just("x"), COUNTS, st.none() | st.lists(NUMBERS), st.none(), st.booleans())
MESSAGES = st.one_of(
    steps(),
    steps(),
    st.builds(hello, RANK),
    told("Ready", at_ns=TIMES, steps=COUNTS, parameters=COUNTS),
    told("Trained", first_ns=TIMES, begin_ns=TIMES, end_ns=TIMES, steps=COUNTS, samples=COUNTS, loss=NUMBERS),
    told("Pause", begin_ns=TIMES, end_ns=TIMES),
    told("Heartbeat", at_ns=TIMES, cpu_percent=NUMBERS, rss_bytes=COUNTS),
    told("Fingerprint", step=COUNTS, parameters=HASHES, buffers=st.just({})),
    told("Done", at_ns=TIMES, correct=COUNTS, evaluated=COUNTS, parameters=HASHES, buffers=st.just({}),
         orders=st.lists(st.sampled_from("12")), bottleneck_fired=COUNTS, bottleneck_ns=COUNTS),
    told("Shown", place=COUNTS, at_ns=TIMES, operation=st.sampled_from(["reduce", "nothing"]), root=st.none() | RANK,
         reduce_op=st.sampled_from(["sum", "most", None]), call=st.just("x"), buffers=st.lists(BUFFER, max_size=2)),
    told("Timed", place=COUNTS, at_ns=TIMES, operation=st.sampled_from(["all_reduce", "barrier", "ring"]),
         composite=st.booleans(), reduce_op=st.none(), cadence=st.sampled_from(["barrier", "x"]), bytes=COUNTS,
         calls_ns=st.lists(COUNTS, max_size=4), wrong=COUNTS),
    told("Failed", at_ns=TIMES, error=st.text(max_size=9)),
)  # fmt: skip


def heard_by_all(told: list[Message]) -> None:
    """By all that folds, side by side, as a run does."""
    monitor, running_results, live = RunMonitor(), RunningResults(MADE, "run", {}), Live()
    for number, message in enumerate(told):
        fold(live, [message])
        monitor.add([message])
        running_results.add(message)
        if number % 3 == 0:
            monitor.look(number * 10**9)
            monitor.judge()
    monitor.look(10**12)
    assert outcome_of_messages(told) is not None


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(MESSAGES, max_size=60))
def test_no_order_of_sound_messages_is_fatal(told: list[RankMessage]) -> None:
    first: list[Message] = [launched(), hello(0), hello(1)]
    heard_by_all([*first, *told, ended()])
    heard_by_all([*told, *first, ended()])


@st.composite
def side_by_side(draw: st.DrawFn, number: int) -> list[Step]:
    """A step of both ranks, as it can nearly have been: what they do together is nearly the same."""
    begin = 50 * number + draw(st.sampled_from([0] * 9 + [-20]))
    calls = draw(st.lists(st.tuples(KINDS, st.integers(0, 2), st.none() | st.integers(0, 1)), max_size=3))
    told = []
    for rank in range(RANKS):
        moments = sorted(
            draw(st.lists(st.integers(begin, begin + 40), min_size=3 * len(calls), max_size=3 * len(calls)))
        )
        own = []
        for place, (kind, seq, root) in enumerate(calls):
            called, enter, over = moments[3 * place : 3 * place + 3]
            partner = 1 - rank if kind in ("send", "recv") else root
            what = {"send": "recv", "recv": "send"}.get(kind, kind) if rank else kind
            seq += draw(st.sampled_from([0] * 9 + [1]))
            own.append(Collective(what, seq, 8, called, enter, draw(st.integers(enter, over)), over, partner))
        told.append(
            Step(
                rank=rank, step=number, epoch=0, warmup=False, begin_ns=begin, end_ns=begin + 41,
                phases_ns=(0, 10, 10, 10, 10), samples=4, loss=draw(NUMBERS), collectives=tuple(own),
            )
        )  # fmt: skip
    return told


ORDERS = st.lists(st.integers(1, 40), min_size=1, max_size=40) | st.integers(1, 40).map(
    lambda last: list(range(1, last))
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(ORDERS, st.data(), st.lists(MESSAGES, max_size=3))
def test_no_steps_that_nearly_fit_kill(numbers: list[int], data: st.DataObject, besides: list[RankMessage]) -> None:
    told = [step for number in numbers for step in data.draw(side_by_side(number))]
    heard_by_all([launched(), hello(0), hello(1), *told, *besides, done(0), done(1), ended()])


def test_a_rank_that_comes_when_others_have_made_steps_is_not_fatal() -> None:
    told = [step_with_a_call(number) for number in range(9)]
    late = [msgspec.structs.replace(each, rank=1) for each in told]
    monitor = RunMonitor()
    monitor.add([launched(), hello(0), *told[:4]])
    monitor.look(10**9)
    monitor.add([hello(1), *late, *told[4:]])
    monitor.look(10**10)
    assert [sorted(each.ranks) for each in monitor.joined] == [[0, 1]] * 5


def step_with_a_call(number: int) -> Step:
    made = step(0, number, begin_ms=10 * number, end_ms=10 * number + 9)
    enter_ns = made.begin_ns + 10
    call = Collective("all_reduce", 0, 8, enter_ns, enter_ns, enter_ns, enter_ns + 10)
    return msgspec.structs.replace(made, collectives=(call,))


def test_ranks_that_wait_for_each_other_in_a_circle_have_no_what_if() -> None:
    """Each receives before it sends: so it cannot have been."""
    told: list[Message] = [launched(), hello(0), hello(1)]
    for number in range(25):
        for rank in range(RANKS):
            made = step(rank, number, begin_ms=10 * number, end_ms=10 * number + 9)
            moments = [made.begin_ns + 10] * 3 + [made.begin_ns + 20]
            calls = tuple(Collective(kind, 0, 8, *moments, 1 - rank) for kind in ("recv", "send"))
            told.append(msgspec.structs.replace(made, collectives=calls))
    found = outcome_of_messages([*told, done(0), done(1), ended()])
    assert found.result.wait_ms is not None
    assert found.result.what_if_s is None


def test_losses_that_are_nearly_infinite_have_no_mean() -> None:
    told = [trained(rank, loss=1.7e308) for rank in range(RANKS)]
    found = outcome_of_messages([launched(), hello(0), hello(1), *told, done(0), done(1), ended()])
    assert found.result.loss.last is None
