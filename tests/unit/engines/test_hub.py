"""The console's end of the wire, with real sockets: whom it lets in, what it counts as refused, whom it tells what."""

import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import zmq
from msgspec.structs import replace

from ddptui.config.trial import Bottleneck
from ddptui.engines.hub import MOST_BYTES_OF_A_STRANGER, Hub
from ddptui.host.folders import LOCK, TemporaryFolder
from ddptui.wire.messages import Failed, Heartbeat, Position, RankMessage, Step
from ddptui.wire.records import ConsoleMessage, Look, SetBottleneck, Stop
from tests.support.builders import done, heartbeat, hello, ready, step

SOON_MS = 5_000  # for what must come
NEVER_MS = 100  # for what must not


@pytest.fixture
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    with Hub(world_size=getattr(request, "param", 2)) as hub:
        yield hub


class Peer:
    """A rank's socket, with nothing of a rank behind it."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", hub: Hub) -> None:
        self._hub = hub
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(hub.endpoint)

    def send(self, *frames: bytes) -> list[RankMessage]:
        """Send one message of these frames; returns what the hub makes of it."""
        self.socket.send_multipart(frames)
        return self._hub.receive(SOON_MS)

    def say(self, *messages: RankMessage) -> list[RankMessage]:
        return self.send(msgspec.msgpack.encode(messages))

    def heard(self, within_ms: int = SOON_MS) -> ConsoleMessage | None:
        if not self.socket.poll(within_ms):
            return None
        return msgspec.msgpack.decode(self.socket.recv(), type=ConsoleMessage)


@pytest.fixture
def peer(hub: Hub) -> Iterator[Callable[[], Peer]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with ExitStack() as open_peers:

        def connect() -> Peer:
            made = Peer(context, hub)
            open_peers.callback(made.socket.close)
            return made

        yield connect
    context.term()


MakePeer = Callable[[], Peer]


def test_what_a_rank_with_the_token_says_comes_through_in_order(hub: Hub, peer: MakePeer) -> None:
    rank, words = peer(), hello(1, token=hub.token)
    assert rank.say(words, ready(1), step(1)) == [words, ready(1), step(1)]
    said = [step(1, number) for number in range(5)]
    assert rank.say(*said) == said
    assert rank.say(done(1)) == [done(1)]
    assert rank.say() == hub.receive(0) == []
    assert (hub.hellos, hub.refused) == ({1: words}, 0)


def test_a_wrong_token_is_refused_and_not_answered(hub: Hub, peer: MakePeer) -> None:
    stranger = peer()
    for token in ("guessed", "gefühlt", "", hub.token[:-1]):
        assert stranger.say(hello(0, token=token)) == []
    assert (hub.refused, hub.hellos) == (4, {})
    assert stranger.heard(NEVER_MS) is None


def test_nobody_speaks_before_the_hello(hub: Hub, peer: MakePeer) -> None:
    assert peer().say(step(0)) == []
    assert peer().say(step(0), hello(0, token=hub.token)) == []
    assert peer().say() == []
    frame = msgspec.msgpack.encode([hello(0, token=hub.token)])
    assert peer().send(frame, frame) == []  # a message of many frames
    assert (hub.refused, hub.hellos) == (4, {})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rank": 2}, "rank 2 of 2 connected to a launch of 2 ranks"),
        ({"rank": -1}, "rank -1 of 2 connected to a launch of 2 ranks"),
        ({"world_size": 3}, "rank 0 of 3 connected to a launch of 2 ranks"),
    ],
)
def test_a_rank_that_does_not_fit_is_told_to_stop(hub: Hub, peer: MakePeer, changes: dict[str, int], why: str) -> None:
    rank = peer()
    assert rank.say(hello(token=hub.token, **changes)) == []
    assert rank.heard() == Stop(why=why)
    assert (hub.refused, hub.hellos) == (1, {})


def test_a_rank_that_is_here_already_is_not_replaced(hub: Hub, peer: MakePeer) -> None:
    first, second = peer(), peer()
    first.say(hello(0, token=hub.token, pid=1))
    assert second.say(hello(0, token=hub.token, pid=2)) == []
    assert second.heard() == Stop(why="a second process connected as rank 0")
    assert hub.refused == 1
    assert hub.hellos[0].pid == 1
    assert first.say(step(0)) == [step(0)]


@pytest.mark.parametrize("hub", [0], indirect=True)
def test_ranks_that_were_started_again_take_their_places_and_count_their_steps_on(hub: Hub, peer: MakePeer) -> None:
    def comes(rank: int, *numbers: int) -> Peer:
        made = peer()
        said = made.say(hello(rank, token=hub.token), *(step(rank, number) for number in numbers))
        steps.append([message.step for message in said if isinstance(message, Step)])
        return made

    def ends(process: Peer, rank: int) -> None:
        process.socket.close()
        [identity] = [identity for identity, known in hub._rank_of.items() if known == rank]
        deadline = time.monotonic() + SOON_MS / 1000
        while hub.socket.is_connected(identity):
            assert hub.receive(10) == []  # else ZeroMQ does not find it out
            assert time.monotonic() < deadline

    steps: list[list[int]] = []
    before = [comes(rank, *range(5 + rank)) for rank in (0, 1)]
    delay, pace = SetBottleneck(bottleneck=(Bottleneck(at="forward", ranks=(1,), sleep_ms=1),)), Look(per_s=50)
    hub.send(delay)
    hub.send(pace)
    assert comes(1, 0).heard() == Stop(why="a second process connected as rank 1")  # which is still there
    assert hub.refused == 1
    for rank, process in enumerate(before):
        ends(process, rank)
    again = [comes(1, 0, 1), comes(0, 0)]
    assert steps[2:] == [[], [7, 8], [7]]  # 5 was the last
    assert [process.heard() for process in again] == [delay, delay]
    assert [process.heard() for process in again] == [pace, pace]
    beat = replace(heartbeat(1), position=Position(step=2))
    words = again[0].say(beat, heartbeat(1))
    assert [message.position.step for message in words if isinstance(message, Heartbeat)] == [9, None]
    assert hub.refused == 1
    died = Failed(rank=1, at_ns=9, error="", position=Position(step=4))  # it has sent step 1 last
    assert [message.position.step for message in again[0].say(died) if isinstance(message, Failed)] == [11]
    ends(again[0], 1)
    comes(1, 0)
    assert steps[-1] == [13]


def test_a_rank_cannot_speak_for_another(hub: Hub, peer: MakePeer) -> None:
    liar, other = peer(), peer()
    liar.say(hello(0, token=hub.token))
    other.say(hello(1, token=hub.token))
    assert liar.say(step(1), step(0), done(1)) == [step(0)]
    assert hub.refused == 2


GARBAGE = {
    "nothing": b"",
    "noise": b"\xc1\xff\x00",
    "a pickle": b"\x80\x04\x95.",
    "JSON": b'[{"type":"Ready"}]',
    "no list": msgspec.msgpack.encode(ready(0)),
    "no text": b"\x91\x84\xa4type\xa6Failed\xa4rank\x00\xa5at_ns\x00\xa5error\xa2\xff\xfe",
    "unknown field": msgspec.msgpack.encode([msgspec.to_builtins(ready(0)) | {"more": 1}]),
    "a list without its items": b"\xdd\xff\xff\xff\xff",
    "a nest without end": b"\x91\x82\xa1x" + b"\x91" * 200_000,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_refused_from_strangers_and_from_ranks(hub: Hub, peer: MakePeer, garbage: bytes) -> None:
    assert peer().send(garbage) == []
    assert hub.refused == 1
    rank = peer()
    rank.say(hello(0, token=hub.token))
    assert rank.send(garbage) == []
    assert hub.refused == 2
    assert rank.say(step(0)) == [step(0)]


def test_of_a_stranger_no_long_frame_is_read(hub: Hub, peer: MakePeer) -> None:
    stranger, words = peer(), hello(0, token=hub.token)
    assert stranger.say(words, *[step(0)] * (MOST_BYTES_OF_A_STRANGER // 100)) == []
    assert (hub.refused, hub.first_refusal) == (1, "a first message that is too long")
    assert stranger.say(words) == [words]
    long = [step(0)] * (MOST_BYTES_OF_A_STRANGER // 100)
    assert stranger.say(*long) == long


def test_the_console_can_tell_all_ranks_or_some_or_nobody(hub: Hub, peer: MakePeer) -> None:
    hub.send(Stop(why="nobody is here"))
    hub.send(Stop(why="enough"), ranks=[0, 1, 7])
    ranks = [peer(), peer()]
    ranks[0].say(hello(0, token=hub.token))
    hub.send(Look(per_s=25))
    ranks[1].say(hello(1, token=hub.token))
    assert [rank.heard() for rank in ranks] == [Look(per_s=25)] * 2  # who comes later is told what stands
    stranger = peer()
    stranger.say(hello(0, token="guessed"))

    late = SetBottleneck(bottleneck=(Bottleneck(at="forward", ranks=(0,), sleep_ms=5.0),))
    hub.send(late)
    assert [rank.heard() for rank in ranks] == [late, late]

    hub.send(Stop(why="enough"), ranks=[1])
    assert ranks[1].heard() == Stop(why="enough")
    assert ranks[0].heard(NEVER_MS) is None
    assert stranger.heard(NEVER_MS) is None


def folder_of(hub: Hub) -> Path:
    return Path(hub.endpoint.removeprefix("ipc://")).parent


def test_only_this_user_can_enter_the_folder_of_thesocket_and_it_goes_with_the_hub() -> None:
    with Hub(world_size=1) as hub:
        assert stat.S_IMODE(folder_of(hub).stat().st_mode) == 0o700
        assert {path.name for path in folder_of(hub).iterdir()} == {"hub", LOCK}
    assert not folder_of(hub).exists()


def test_a_temporary_folder_with_a_long_name_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with Hub(world_size=1) as hub:
        assert len(hub.endpoint) < 107
    assert list(long.iterdir()) == []
    assert not folder_of(hub).exists()


@pytest.mark.parametrize("at", [None, ("203.0.113.9", 21_000)], ids=["a path that is too long", "no address of ours"])
def test_a_hub_that_cannot_be_opened_leaves_nothing_behind(
    at: tuple[str, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = TemporaryFolder("long" * 25, tmp_path)
    monkeypatch.setattr("ddptui.engines.hub._new_folder", lambda: folder)
    threads = threading.enumerate()
    with pytest.raises(OSError, match=r"longer than|assign requested address"):
        Hub(world_size=1, at=at)
    assert not folder.path.exists()
    assert threading.enumerate() == threads
