"""The hub on the network: who has the keys of the launch comes in; a stranger gets nothing in, and nothing out."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import msgspec
import pytest
import zmq

from ddptui.engines import gate
from ddptui.engines.gate import LAST_PORT, TRIES, bind_near
from ddptui.engines.hub import Hub
from ddptui.wire.connection import KEYS, Keys, use_keys
from ddptui.wire.messages import RankMessage
from ddptui.wire.records import Alive
from tests.support.builders import hello, ready

SOON_MS = 5_000
NEVER_MS = 400  # several handshakes' time
FIRST_PORT = 21_000
ALL_TAKEN = 22_000 + os.getpid() % 40 * TRIES  # of these nobody else may have one
GREETING = 64  # bytes: what ZeroMQ says to whoever connects, the same to all


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub(1, at=("127.0.0.1", FIRST_PORT)) as hub:
        yield hub


@pytest.fixture
def context() -> Iterator["zmq.Context[zmq.Socket[bytes]]"]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.term()


def connected(context: "zmq.Context[zmq.Socket[bytes]]", hub: Hub, keys: Keys | None) -> "zmq.Socket[bytes]":
    peer = context.socket(zmq.DEALER)
    peer.setsockopt(zmq.LINGER, 0)
    if keys:
        use_keys(peer, keys)
    peer.connect(hub.endpoint)
    return peer


def keys_of(hub: Hub) -> Keys:
    return Keys.read(hub.rank_environment[KEYS])


def other_pair() -> tuple[str, str]:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def packed(message: RankMessage) -> bytes:
    return msgspec.msgpack.encode([message])


@pytest.mark.parametrize("stranger", ["no keys", "another server's key", "a pair of its own"])
def test_who_has_not_the_keys_gets_nothing_in_and_nothing_out(
    hub: Hub, context: "zmq.Context[zmq.Socket[bytes]]", stranger: str
) -> None:
    right = keys_of(hub)
    keys = {
        "no keys": None,
        "another server's key": right._replace(server=other_pair()[0]),
        "a pair of its own": Keys(right.server, *other_pair()),  # it knows where to go, and was not given a pair
    }[stranger]
    with closing(connected(context, hub, right)) as rank, closing(connected(context, hub, keys)) as spy:
        words = hello(0, token=hub.token, world_size=1)
        rank.send(packed(words))
        assert hub.receive(SOON_MS) == [words]
        with suppress(zmq.Again):  # it has been put out already
            spy.send(packed(words), zmq.NOBLOCK)
        assert hub.receive(NEVER_MS) == []
        assert hub.refused == 0  # it has not come so far
        hub.send(Alive())
        assert not spy.poll(NEVER_MS)
        assert rank.poll(SOON_MS)
        assert msgspec.msgpack.decode(rank.recv(), type=Alive) == Alive()


def test_bytes_that_are_no_zeromq_get_a_greeting_and_no_more(hub: Hub) -> None:
    host, port = hub.endpoint.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.settimeout(NEVER_MS / 1000)
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        got = b""
        try:
            while chunk := raw.recv(4096):
                got += chunk
        except (TimeoutError, ConnectionResetError):
            pass
    assert hub.receive(0) == []
    assert len(got) <= GREETING
    assert hub.token.encode() not in got


def knocked_at(hub: Hub, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hub look at its door with this limit of open files."""
    monkeypatch.setattr(hub.socket, "_most", most)
    monkeypatch.setattr(hub.socket, "_has_new_connection", lambda: True)
    hub.socket.update_gate()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can shut the door and keep who is inside")
def test_when_the_door_is_shut_who_is_inside_stays_and_nobody_comes_in(
    context: "zmq.Context[zmq.Socket[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    with Hub(2, at=("127.0.0.1", FIRST_PORT)) as hub, closing(connected(context, hub, keys_of(hub))) as rank:
        first, second = (hello(number, token=hub.token, world_size=2) for number in (0, 1))
        rank.send(packed(first))
        assert hub.receive(SOON_MS) == [first]
        knocked_at(hub, 0, monkeypatch)
        with closing(connected(context, hub, keys_of(hub))) as newcomer:
            newcomer.send(packed(second))
            assert hub.receive(NEVER_MS) == []
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
        with Hub(1, at=("127.0.0.1", port)) as hub:
            knocked_at(hub, 0, monkeypatch)
            knocked_at(hub, 100_000, monkeypatch)
            with socket.create_connection(("127.0.0.1", int(hub.endpoint.rsplit(":", 1)[1]))) as raw:
                assert raw.recv(1)
            return hub.endpoint

    with Hub(1, at=("127.0.0.1", FIRST_PORT)) as one, Hub(1, at=("127.0.0.1", FIRST_PORT)) as other:
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
        monkeypatch.setattr(gate, "create_server", is_taken)
        with pytest.raises(OSError, match="from 65530 to 65535 are taken"):
            bind_near(last, "127.0.0.1", 65_530)
    assert tried == list(range(65_530, LAST_PORT + 1))
