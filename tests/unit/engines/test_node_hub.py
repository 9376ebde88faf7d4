"""Who joins a run: let in by the ticket, given a number, missed when silent, and told when all is over."""

import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from ddptui import __version__
from ddptui.config.preset import EngineOptions
from ddptui.engines.join import engine as join_engine
from ddptui.engines.join.engine import JoinEngine, NodeServer
from ddptui.engines.join.ticket import MARK, Ticket, TicketError, read_ticket
from ddptui.host.folders import write_private
from ddptui.host.network import Interface
from ddptui.store.runs import Run
from ddptui.wire.connection import PeerKeys, use_keys
from ddptui.wire.helper_messages import Beat, Farewell, Join, LaunchEnded, Leave, NodeMessage, ToNode, Welcome
from tests.support.builders import preset_of
from tests.support.runner import arguments
from tests.support.waiting import until

SOON_S = 30.0


class Node:
    """A node's socket, with nothing of a node behind it."""

    def __init__(self, to: NodeServer) -> None:
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

    def heard(self, to: NodeServer, within_s: float = SOON_S) -> ToNode:
        """The next word."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            to.receive()
            if self._socket.poll(10):
                message: ToNode = msgspec.msgpack.decode(self._socket.recv(), type=ToNode)
                return message
        raise AssertionError("nothing was heard")


@pytest.fixture
def node(nodes_hub: NodeServer) -> Iterator[Node]:
    with closing(Node(nodes_hub)) as made:
        yield made


@pytest.fixture
def other(nodes_hub: NodeServer) -> Iterator[Node]:
    with closing(Node(nodes_hub)) as made:
        yield made


def words(to: NodeServer, node: int | None = None, **changes: str) -> Join:
    fields = {"version": __version__, "token": to.ticket.token, "host": "h", "address": "10.0.0.7", "interface": "eth0"}
    return Join(node=node, **(fields | changes))


def join(hub: NodeServer, *nodes: Node) -> None:
    for number, each in enumerate(nodes):
        each.say(words(hub, node=number))
        assert isinstance(each.heard(hub), Welcome)


def test_nodes_are_numbered_as_they_come_or_as_they_ask(nodes_hub: NodeServer, node: Node, other: Node) -> None:
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
def test_who_does_not_fit_is_told_why(nodes_hub: NodeServer, node: Node, other: Node, asked: int, why: str) -> None:
    join(nodes_hub, node)
    other.say(words(nodes_hub, node=asked))
    assert other.heard(nodes_hub) == Farewell(why=why)
    assert list(nodes_hub.members) == [0]


def test_without_the_token_nobody_is_answered(nodes_hub: NodeServer, node: Node) -> None:
    node.say(words(nodes_hub, token="x" * 32))
    node.say(Beat())
    node.say(LaunchEnded(number=1, exit_code=0))
    node.say(words(nodes_hub, node=1))  # comes after them, and is the first to be answered
    assert node.heard(nodes_hub) == Welcome(node=1, nodes=2, run="a-run")
    assert ([*nodes_hub.members], nodes_hub.ended) == ([1], {})


def test_who_is_silent_is_missed(
    nodes_hub: NodeServer, node: Node, other: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(nodes_hub, node, other)
    other.say(Leave())
    assert [there.number for there in until(nodes_hub.receive, SOON_S)] == [1]
    assert nodes_hub.receive() == []
    monkeypatch.setattr(join_engine, "LOST_AFTER_S", 0.0)
    assert [there.number for there in nodes_hub.receive()] == [0]
    assert nodes_hub.missing == 2
    assert node.heard(nodes_hub) == Farewell(why=join_engine.LOST)


def test_a_launch_says_the_same_however_its_nodes_come(
    nodes_hub: NodeServer, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    nodes_hub: NodeServer, node: Node, other: Node
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


def until_heard(nodes_hub: NodeServer, overs: int) -> None:
    def are_there() -> bool:
        nodes_hub.receive()
        return len(nodes_hub.ended) >= overs

    until(are_there, SOON_S)


# Tickets


INSTALL = f"install the console's version on this host, which has {__version__}"
TICKET = Ticket(run="r", endpoint="tcp://10.0.0.1:15000", token="t" * 32, keys=PeerKeys("s" * 40, "p" * 40, "x" * 40))


def test_a_ticket_is_read_from_its_line_and_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ticket"
    write_private(path, TICKET.spell() + "\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_ticket(str(path)) == read_ticket(f"  {TICKET.spell()}\n") == TICKET
    path.write_bytes(b"\x00\xff" * 5000)
    with pytest.raises(TicketError, match="begins with ddptui1:"):
        read_ticket(str(path))


@given(st.integers(1, 300))
def test_a_ticket_that_was_cut_short_is_refused(length: int) -> None:
    spelled = TICKET.spell()
    with pytest.raises(TicketError):
        read_ticket(spelled[: max(len(MARK), len(spelled) - length)])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nowhere", "nowhere: neither a ticket (ddptui1:…) nor a file that holds one: No such file or directory"),
        ("", "neither a ticket"),
        (f"{MARK}!!!", f"or of another version of ddptui: copy the whole line again, or {INSTALL}"),
        ("ddptui2:AAAA", f"this ticket is from another version of ddptui: {INSTALL}"),
        (MARK + "A" * 5000, "begins with ddptui1: and is one line"),
    ],
)
def test_what_is_no_ticket_is_refused(text: str, why: str) -> None:
    with pytest.raises(TicketError) as refused:
        read_ticket(text)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "damage",
    [
        *({"endpoint": endpoint} for endpoint in (
            "", "ipc:///tmp/x", "inproc://x", "udp://10.0.0.1:5", "tcp://10.0.0.1", "tcp://10.0.0.1:x", "tcp://:15000",
            "tcp://10.0.0.1:0", "tcp://10.0.0.1:65536", "tcp://10.0.0.1:15000/x", "tcp://[:15000",
            "tcp://localhost:15000", "tcp://10.0.0.256:15000",
            "tcp://10.0.0.1:15000\n", "tcp://a\x1b]0;x:1",
        )),
        *({"keys": keys} for keys in (
            PeerKeys("s", "p", "x"), PeerKeys("é" * 40, "p" * 40, "x" * 40), PeerKeys("s" * 40, "#" * 40, "x" * 40),
            PeerKeys("s" * 40, "p" * 40, "x" * 39 + " "),
        )),
    ],
)  # fmt: skip
def test_a_ticket_with_which_no_node_can_connect_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(TicketError, match="this ticket is damaged or incomplete"):
        read_ticket(msgspec.structs.replace(TICKET, **damage).spell())


# `ddptui join` ends with its run


NODE_ENDS_S = 60
CONSOLE = """
import os, sys
from ddptui.engines.join.engine import NodeServer
hub = NodeServer("a-run", 1, "127.0.0.1", 23_500)
print(hub.ticket.spell(), flush=True)
while hub.missing:
    hub.receive()
sys.stdin.readline()  # until the node has been welcomed
"""
KILLED = CONSOLE + f"os.kill(os.getpid(), {signal.SIGKILL:d})"
FINISHED = CONSOLE + "hub.close()"
GONE = "Error: lost the console: the connection has ended; the ranks of this node were ended"


@pytest.mark.parametrize(
    ("console", "code", "why"),
    [(KILLED, 2, GONE), (FINISHED, 0, "the run is over")],
    ids=["killed", "finished"],
)
def test_a_node_ends_with_its_run_and_says_why(console: str, code: int, why: str) -> None:
    with subprocess.Popen([sys.executable, "-c", console], stdin=PIPE, stdout=PIPE, text=True) as run:
        ticket = run.stdout.readline().strip()
        with subprocess.Popen(arguments("join", ticket), stderr=PIPE, text=True) as node:
            next(line for line in node.stderr if "this is node 0" in line)
            run.stdin.close()
            _, said = node.communicate(timeout=NODE_ENDS_S)
    assert (node.returncode, said.splitlines()[-1]) == (code, why)
