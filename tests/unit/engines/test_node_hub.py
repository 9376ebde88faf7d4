"""Who joins a run: let in by the ticket, given a number, missed when silent, and told when all is over."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from ddptui import __version__
from ddptui.config.engine import EngineOptions
from ddptui.engines.join import engine as join_engine
from ddptui.engines.join import node_hub
from ddptui.engines.join.engine import JoinEngine
from ddptui.engines.join.node_hub import NodeHub
from ddptui.host.network import Interface
from ddptui.store.runs import Run
from ddptui.wire.connection import use_keys
from ddptui.wire.node_messages import Beat, Farewell, Join, LaunchEnded, Leave, NodeMessage, Present, ToNode, Welcome
from tests.support.builders import preset_of

SOON_S = 5.0
FIRST_PORT = 23_000


@pytest.fixture
def nodes_hub() -> Iterator[NodeHub]:
    with closing(NodeHub("a-run", 2, "127.0.0.1", FIRST_PORT)) as open_muster:
        yield open_muster


class Node:
    """A node's socket, with nothing of a node behind it."""

    def __init__(self, to: NodeHub) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        use_keys(self._socket, to.ticket.keys)
        self._socket.connect(to.ticket.endpoint)

    def close(self) -> None:
        self._socket.close()
        self._context.term()

    def say(self, message: NodeMessage) -> None:
        self._socket.send(msgspec.msgpack.encode(message))

    def heard(self, to: NodeHub, within_s: float = SOON_S) -> ToNode:
        """The next word that is no mere sign of life."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            to.receive()
            if self._socket.poll(10):
                message: ToNode = msgspec.msgpack.decode(self._socket.recv(), type=ToNode)
                if not isinstance(message, Present):
                    return message
        raise AssertionError("nothing was heard")


@pytest.fixture
def node(nodes_hub: NodeHub) -> Iterator[Node]:
    with closing(Node(nodes_hub)) as made:
        yield made


@pytest.fixture
def other(nodes_hub: NodeHub) -> Iterator[Node]:
    with closing(Node(nodes_hub)) as made:
        yield made


def words(to: NodeHub, node: int | None = None, **changes: str) -> Join:
    fields = {"version": __version__, "token": to.ticket.token, "host": "h", "address": "10.0.0.7", "interface": "eth0"}
    return Join(node=node, **(fields | changes))  # type: ignore[arg-type]


def join(hub: NodeHub, *nodes: Node) -> None:
    for number, each in enumerate(nodes):
        each.say(words(hub, node=number))
        assert isinstance(each.heard(hub), Welcome)


def test_nodes_are_numbered_as_they_come_or_as_they_ask(nodes_hub: NodeHub, node: Node, other: Node) -> None:
    node.say(words(nodes_hub, node=1))
    assert node.heard(nodes_hub) == Welcome(node=1, nodes=2, run="a-run")
    other.say(words(nodes_hub))
    assert other.heard(nodes_hub) == Welcome(node=0, nodes=2, run="a-run")
    assert nodes_hub.missing == 0
    assert nodes_hub.take_notices()[0] == "node 1 (h, 10.0.0.7) has joined by eth0: 1 of 2 nodes"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (2, "no node 2: this run has nodes 0 to 1"),
        (0, "node 0 (h, 10.0.0.7) has joined already: choose another --node"),
    ],
)
def test_who_does_not_fit_is_told_why(nodes_hub: NodeHub, node: Node, other: Node, asked: int, why: str) -> None:
    join(nodes_hub, node)
    other.say(words(nodes_hub, node=asked))
    assert other.heard(nodes_hub) == Farewell(why=why)
    assert list(nodes_hub.members) == [0]


def test_without_the_token_nobody_is_answered(nodes_hub: NodeHub, node: Node) -> None:
    node.say(words(nodes_hub, token="x" * 32))
    node.say(Beat())
    node.say(LaunchEnded(number=1, exit_code=0))
    with pytest.raises(AssertionError, match="nothing was heard"):
        node.heard(nodes_hub)
    assert (nodes_hub.members, nodes_hub.ended) == ({}, {})


def test_who_is_silent_or_leaves_is_missed(
    nodes_hub: NodeHub, node: Node, other: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(nodes_hub, node, other)
    other.say(Leave())
    lost = []
    deadline = time.monotonic() + SOON_S
    while not lost and time.monotonic() < deadline:
        lost = nodes_hub.receive()
    assert [there.number for there in lost] == [1]
    assert nodes_hub.receive() == []
    monkeypatch.setattr(node_hub, "LOST_AFTER_S", 0.0)
    assert [there.number for there in nodes_hub.receive()] == [0]
    assert nodes_hub.missing == 2
    assert node.heard(nodes_hub) == Farewell(why=node_hub.LOST)


def test_a_launch_says_the_same_however_its_nodes_come(
    nodes_hub: NodeHub, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine two may join between two looks of the console, or one after the other."""
    preset = preset_of({"trial": [{"name": "a"}]})
    monkeypatch.setattr(join_engine, "choose_interface", lambda _: Interface("lo", "127.0.0.1"))
    engine = JoinEngine(EngineOptions(name="join", nodes=2), Run.create(tmp_path, preset, {}))
    engine.close()
    monkeypatch.setattr(engine, "node_hub", nodes_hub)
    monkeypatch.setattr(engine, "ticket_file", Path("ticket"))
    alone: Any = None  # what a launch that has not begun does not use
    launch = engine.start(preset.trials[0], [], alone, alone)
    [waits] = launch.take_notices()
    assert waits.startswith("waiting for 2 nodes: run `ddptui join ticket` there")
    join(nodes_hub, node)
    assert launch.take_notices() == ["node 0 (h, 10.0.0.7) has joined by eth0: 1 of 2 nodes"]
    node.say(Leave())
    while nodes_hub.missing < 2:
        nodes_hub.receive()
    assert launch.take_notices() == [waits]
    assert launch.take_notices() == []


def test_how_a_launch_ended_is_kept_in_the_order_in_which_nodes_said_so(
    nodes_hub: NodeHub, node: Node, other: Node
) -> None:
    join(nodes_hub, node, other)
    nodes_hub.begin_launch(3)
    other.say(LaunchEnded(number=2, exit_code=1))  # of a launch that is over
    other.say(LaunchEnded(number=3, exit_code=7, logs={"rank-1.log": "it fell"}))
    other.say(LaunchEnded(number=3, exit_code=0))  # said twice
    until_heard(nodes_hub, 1)
    node.say(LaunchEnded(number=3, exit_code=-15))
    until_heard(nodes_hub, 2)
    assert [(number, over.exit_code) for number, over in nodes_hub.ended.items()] == [(1, 7), (0, -15)]
    assert nodes_hub.ended[1].logs == {"rank-1.log": "it fell"}
    nodes_hub.begin_launch(4)
    assert nodes_hub.ended == {}


def until_heard(nodes_hub: NodeHub, overs: int) -> None:
    deadline = time.monotonic() + SOON_S
    while len(nodes_hub.ended) < overs and time.monotonic() < deadline:
        nodes_hub.receive()


def test_all_are_told_when_the_run_is_over() -> None:
    closed = NodeHub("a-run", 1, "127.0.0.1", FIRST_PORT)
    with closing(Node(closed)) as node:
        with closing(closed):
            join(closed, node)
        assert node._socket.poll(SOON_S * 1000)
        assert msgspec.msgpack.decode(node._socket.recv(), type=ToNode) == Farewell(why="the run is over", well=True)
