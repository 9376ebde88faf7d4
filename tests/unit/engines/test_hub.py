"""The console's end of the wire, with real sockets: whom it lets in, what it refuses, whom it tells what."""

import errno
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec
import pytest
import zmq
from msgspec.structs import replace

from ddptui.config.trial import Bottleneck
from ddptui.engines import sockets
from ddptui.engines.rank_server import MOST_BYTES_OF_A_STRANGER, RankServer
from ddptui.engines.sockets import LAST_PORT, TRIES, bind_near
from ddptui.host.folders import LOCK, TemporaryFolder
from ddptui.wire.connection import KEYS_VARIABLE, PeerKeys, use_keys
from ddptui.wire.messages import Failed, Heartbeat, Position, RankMessage, Step
from ddptui.wire.records import Alive, ConsoleMessage, Look, SetBottleneck, Stop
from tests.support.builders import done, heartbeat, hello, ready, step
from tests.unit.engines.conftest import Connect, Socket

SOON_MS = 5_000  # for what must come
NEVER_MS = 100  # for what must not


class Peer:
    """A rank's socket, with nothing of a rank behind it."""

    def __init__(self, socket: Socket, hub: RankServer) -> None:
        self._hub = hub
        self.socket = socket

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


MakePeer = Callable[[], Peer]


@pytest.fixture
def peer(hub: RankServer, connect: Connect) -> MakePeer:
    return lambda: Peer(connect(), hub)


def test_what_a_rank_with_the_token_says_comes_through_in_order(hub: RankServer, peer: MakePeer) -> None:
    rank, words = peer(), hello(1, token=hub.token)
    assert rank.say(words, ready(1), step(1)) == [words, ready(1), step(1)]
    said = [step(1, number) for number in range(5)]
    assert rank.say(*said) == said
    assert rank.say(done(1)) == [done(1)]
    assert rank.say() == hub.receive(0) == []
    assert (hub.hellos, hub.refused) == ({1: words}, 0)


def test_a_wrong_token_is_refused_and_not_answered(hub: RankServer, peer: MakePeer) -> None:
    stranger = peer()
    for token in ("guessed", "gefühlt", "", hub.token[:-1]):
        assert stranger.say(hello(0, token=token)) == []
    assert (hub.refused, hub.hellos) == (4, {})
    assert stranger.heard(NEVER_MS) is None


def test_nobody_speaks_before_the_hello(hub: RankServer, peer: MakePeer) -> None:
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
def test_a_rank_that_does_not_fit_is_told_to_stop(
    hub: RankServer, peer: MakePeer, changes: dict[str, int], why: str
) -> None:
    rank = peer()
    assert rank.say(hello(token=hub.token, **changes)) == []
    assert rank.heard() == Stop(why=why)
    assert (hub.refused, hub.hellos) == (1, {})


@pytest.mark.parametrize("hub", [0], indirect=True)
def test_ranks_that_were_started_again_take_their_places_and_count_their_steps_on(
    hub: RankServer, peer: MakePeer
) -> None:
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


def test_a_rank_cannot_speak_for_another(hub: RankServer, peer: MakePeer) -> None:
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
def test_garbage_is_refused_from_strangers_and_from_ranks(hub: RankServer, peer: MakePeer, garbage: bytes) -> None:
    assert peer().send(garbage) == []
    assert hub.refused == 1
    rank = peer()
    rank.say(hello(0, token=hub.token))
    assert rank.send(garbage) == []
    assert hub.refused == 2
    assert rank.say(step(0)) == [step(0)]


def test_of_a_stranger_no_long_frame_is_read(hub: RankServer, peer: MakePeer) -> None:
    stranger, words = peer(), hello(0, token=hub.token)
    assert stranger.say(words, *[step(0)] * (MOST_BYTES_OF_A_STRANGER // 100)) == []
    assert (hub.refused, hub.first_refusal) == (1, "a first message that is too long")
    assert stranger.say(words) == [words]
    long = [step(0)] * (MOST_BYTES_OF_A_STRANGER // 100)
    assert stranger.say(*long) == long


def test_the_console_can_tell_all_ranks_or_some_or_nobody(hub: RankServer, peer: MakePeer) -> None:
    hub.send(Stop(why="nobody is here"))
    hub.send(Stop(why="enough"), ranks=[0, 1, 7])
    ranks = [peer(), peer()]
    ranks[0].say(hello(0, token=hub.token))
    hub.send(Look(per_s=25))
    ranks[1].say(hello(1, token=hub.token))
    assert [rank.heard() for rank in ranks] == [Look(per_s=25)] * 2  # also the one that connected later
    stranger = peer()
    stranger.say(hello(0, token="guessed"))

    late = SetBottleneck(bottleneck=(Bottleneck(at="forward", ranks=(0,), sleep_ms=5.0),))
    hub.send(late)
    assert [rank.heard() for rank in ranks] == [late, late]

    hub.send(Stop(why="enough"), ranks=[1])
    assert ranks[1].heard() == Stop(why="enough")
    assert ranks[0].heard(NEVER_MS) is None
    assert stranger.heard(NEVER_MS) is None


def folder_of(hub: RankServer) -> Path:
    return Path(hub.endpoint.removeprefix("ipc://")).parent


@pytest.mark.parametrize("name", ["short", "long" * 25])  # the latter no obstacle
def test_only_this_user_can_enter_the_folder_of_the_socket_and_it_goes_with_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))
    with RankServer(world_size=1) as hub:
        assert len(hub.endpoint) < 107
        assert stat.S_IMODE(folder_of(hub).stat().st_mode) == 0o700
        assert {path.name for path in folder_of(hub).iterdir()} == {"hub", LOCK}
    assert not folder_of(hub).exists()
    assert list((tmp_path / name).iterdir()) == []


@pytest.mark.parametrize("at", [None, ("203.0.113.9", 21_000)], ids=["a path that is too long", "no address of ours"])
def test_a_hub_that_cannot_be_opened_leaves_nothing_behind(
    at: tuple[str, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = TemporaryFolder("long" * 25, tmp_path)
    monkeypatch.setattr("ddptui.engines.rank_server._new_folder", lambda: folder)
    threads = threading.enumerate()
    with pytest.raises(OSError, match=r"longer than|assign requested address"):
        RankServer(world_size=1, at=at)
    assert not folder.path.exists()
    assert threading.enumerate() == threads


# On the network: a stranger gets nothing in, and nothing out


HANDSHAKES_MS = 400  # several handshakes' time
FIRST_PORT = 21_000
ALL_TAKEN = 22_000 + os.getpid() % 40 * TRIES  # of these nobody else may have one
GREETING = 64  # bytes that ZeroMQ sends first on every connection


@pytest.fixture
def tcp_hub() -> Iterator[RankServer]:
    with RankServer(1, at=("127.0.0.1", FIRST_PORT)) as hub:
        yield hub


@pytest.fixture
def context() -> Iterator["zmq.Context[zmq.Socket[bytes]]"]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.term()


def connected(context: "zmq.Context[zmq.Socket[bytes]]", hub: RankServer, keys: PeerKeys | None) -> "zmq.Socket[bytes]":
    peer = context.socket(zmq.DEALER)
    peer.setsockopt(zmq.LINGER, 0)
    if keys:
        use_keys(peer, keys)
    peer.connect(hub.endpoint)
    return peer


def keys_of(hub: RankServer) -> PeerKeys:
    return PeerKeys.read(hub.rank_environment[KEYS_VARIABLE])


def other_pair() -> tuple[str, str]:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def packed(message: RankMessage) -> bytes:
    return msgspec.msgpack.encode([message])


@pytest.mark.parametrize("stranger", ["no keys", "another server's key", "a pair of its own"])
def test_who_has_not_the_keys_gets_nothing_in_and_nothing_out(
    tcp_hub: RankServer, context: "zmq.Context[zmq.Socket[bytes]]", stranger: str
) -> None:
    right = keys_of(tcp_hub)
    keys = {
        "no keys": None,
        "another server's key": right._replace(server=other_pair()[0]),
        "a pair of its own": PeerKeys(right.server, *other_pair()),  # it knows where to go, and was not given a pair
    }[stranger]
    with closing(connected(context, tcp_hub, right)) as rank, closing(connected(context, tcp_hub, keys)) as spy:
        words = hello(0, token=tcp_hub.token, world_size=1)
        rank.send(packed(words))
        assert tcp_hub.receive(SOON_MS) == [words]
        with suppress(zmq.Again):  # it has been put out already
            spy.send(packed(words), zmq.NOBLOCK)
        assert tcp_hub.receive(HANDSHAKES_MS) == []
        assert tcp_hub.refused == 0  # it has not come so far
        tcp_hub.send(Alive())
        assert not spy.poll(HANDSHAKES_MS)
        assert rank.poll(SOON_MS)
        assert msgspec.msgpack.decode(rank.recv(), type=Alive) == Alive()


def test_bytes_that_are_no_zeromq_get_a_greeting_and_no_more(tcp_hub: RankServer) -> None:
    host, port = tcp_hub.endpoint.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.settimeout(HANDSHAKES_MS / 1000)
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        got = b""
        try:
            while chunk := raw.recv(4096):
                got += chunk
        except (TimeoutError, ConnectionResetError):
            pass
    assert tcp_hub.receive(0) == []
    assert len(got) <= GREETING
    assert tcp_hub.token.encode() not in got


def knocked_at(hub: RankServer, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hub look at its door with this limit of open files."""
    monkeypatch.setattr(hub.socket, "_most", most)
    monkeypatch.setattr(hub.socket, "_has_new_connection", lambda: True)
    hub.socket.update_gate()


def knock_until_nobody_opens(hub: RankServer, strangers: ExitStack) -> None:
    where = ("127.0.0.1", int(hub.endpoint.rsplit(":", 1)[1]))
    for _ in range(1000):
        strangers.enter_context(socket.create_connection(where, timeout=0.5))
        hub.receive(0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can shut the door and keep who is inside")
def test_before_files_run_out_the_door_is_shut_and_opens_again(context: "zmq.Context[zmq.Socket[bytes]]") -> None:
    """libzmq aborts the process when a connection comes that it has no file for."""
    with RankServer(2, at=("127.0.0.1", FIRST_PORT)) as hub:
        hub.socket._most = len(os.listdir("/dev/fd")) + 40
        with ExitStack() as strangers, pytest.raises(TimeoutError):
            knock_until_nobody_opens(hub, strangers)
        with closing(connected(context, hub, keys_of(hub))) as late:
            late.send(packed(hello(1, token=hub.token, world_size=2)))
            heard: list[RankMessage] = []
            while not heard:
                heard = hub.receive(NEVER_MS)
            assert heard == [hello(1, token=hub.token, world_size=2)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can shut the door and keep who is inside")
def test_when_the_door_is_shut_who_is_inside_stays_and_nobody_comes_in(
    context: "zmq.Context[zmq.Socket[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    with RankServer(2, at=("127.0.0.1", FIRST_PORT)) as hub, closing(connected(context, hub, keys_of(hub))) as rank:
        first, second = (hello(number, token=hub.token, world_size=2) for number in (0, 1))
        rank.send(packed(first))
        assert hub.receive(SOON_MS) == [first]
        knocked_at(hub, 0, monkeypatch)
        with closing(connected(context, hub, keys_of(hub))) as newcomer:
            newcomer.send(packed(second))
            assert hub.receive(HANDSHAKES_MS) == []
            rank.send(packed(ready(0)))
            assert hub.receive(SOON_MS) == [ready(0)]
            hub.send(Alive())
            assert rank.poll(SOON_MS)
            knocked_at(hub, 100_000, monkeypatch)
            assert hub.receive(SOON_MS) == [second]
        rank.send(packed(ready(0)))
        assert hub.receive(SOON_MS) == [ready(0)]
        assert hub.refused == 0


def test_a_hub_has_keys_and_a_port_of_its_own_and_once_closed_leaves_the_port_free_and_no_file_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def open_and_close(port: int) -> str:
        with RankServer(1, at=("127.0.0.1", port)) as hub:
            knocked_at(hub, 0, monkeypatch)
            knocked_at(hub, 100_000, monkeypatch)
            with socket.create_connection(("127.0.0.1", int(hub.endpoint.rsplit(":", 1)[1]))) as raw:
                assert raw.recv(1)
            return hub.endpoint

    with RankServer(1, at=("127.0.0.1", FIRST_PORT)) as one, RankServer(1, at=("127.0.0.1", FIRST_PORT)) as other:
        assert one.endpoint != other.endpoint
        assert not {*keys_of(one), one.token} & {*keys_of(other), other.token}
        assert len(one.token) >= 32
    endpoint = open_and_close(FIRST_PORT)
    before = len(os.listdir("/dev/fd"))
    assert open_and_close(int(endpoint.rsplit(":", 1)[1])) == endpoint
    assert len(os.listdir("/dev/fd")) == before


def test_where_all_ports_are_taken_it_says_so_and_tries_none_beyond_the_last(
    context: "zmq.Context[zmq.Socket[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def is_taken(where: tuple[str, int], backlog: int) -> None:
        tried.append(where[1])
        raise OSError(errno.EADDRINUSE, "taken")

    with ExitStack() as taken:
        for _ in range(TRIES):
            bind_near(taken.enter_context(closing(context.socket(zmq.ROUTER))), "127.0.0.1", ALL_TAKEN)
        last = taken.enter_context(closing(context.socket(zmq.ROUTER)))
        with pytest.raises(OSError, match=f"the ports from {ALL_TAKEN} to {ALL_TAKEN + TRIES - 1} are taken"):
            bind_near(last, "127.0.0.1", ALL_TAKEN)
        with pytest.raises(OSError, match="address"):
            bind_near(last, "203.0.113.9", ALL_TAKEN)
        monkeypatch.setattr(sockets, "create_server", is_taken)
        with pytest.raises(OSError, match="from 65530 to 65535 are taken"):
            bind_near(last, "127.0.0.1", 65_530)
    assert tried == list(range(65_530, LAST_PORT + 1))
