"""Two versions of ddptui meet: both sides learn at once which versions they have, and what to do."""

import io
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ddptui import __version__
from ddptui.config.trial import Trial
from ddptui.engines.join import agent
from ddptui.engines.join.agent import JoinError, join
from ddptui.engines.join.engine import NodeServer
from ddptui.engines.rank_server import RankServer
from ddptui.host.network import Interface
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.store.journal import RepeatJournal
from ddptui.wire.helper_messages import Farewell
from ddptui.wire.messages import VERSION
from ddptui.wire.records import Stop
from tests.support.builders import hello, step
from tests.unit.engines.conftest import Connect
from tests.unit.engines.test_node_hub import Node, words

SOON_MS = 5_000
PORT = 24_000


# A Hello of the next version: a field more than this one knows, and one fewer. What follows it is unknown, too.
def hello_of_another_version(token: str) -> list[dict[str, Any]]:
    fields = msgspec.to_builtins(hello(0, token=token, version=VERSION + 1)) | {"colour": "red"}
    del fields["threads"]
    return [fields, {"type": "Mood", "rank": 0}]


OTHER_RANK = (
    f"rank 0 speaks version {VERSION + 1} of ddptui's protocol, this console version {VERSION}: "
    f"install ddptui {__version__} where the ranks run, too"
)


def test_a_rank_of_another_version_is_stopped_and_its_launch_names_both_and_the_remedy(
    hub: RankServer, connect: Connect, tmp_path: Path
) -> None:
    launch: Any = SimpleNamespace(exit_code=-15, end_reason=lambda: None)
    rank = connect()
    supervisor = LaunchSupervisor(Trial(), hub, launch, RepeatJournal(tmp_path, 1, io.BytesIO()))
    rank.send(msgspec.msgpack.encode(hello_of_another_version(hub.token)))
    assert hub.receive(SOON_MS) == []
    assert (hub.refused, hub.first_refusal, hub.hellos) == (1, OTHER_RANK, {})
    assert rank.poll(SOON_MS)
    assert msgspec.msgpack.decode(rank.recv(), type=Stop) == Stop(why=OTHER_RANK)
    supervisor.add([])
    assert supervisor.is_over()
    ended = supervisor.ended()
    assert (ended.status, str(ended.error).startswith(OTHER_RANK)) == ("failed", True)


def test_neither_a_stranger_nor_who_has_been_let_in_is_asked_for_its_version(hub: RankServer, connect: Connect) -> None:
    rank, stranger = connect(), connect()
    stranger.send(msgspec.msgpack.encode(hello_of_another_version("guessed")))
    assert hub.receive(SOON_MS) == []
    assert (hub.refused, hub.first_refusal) == (1, "a connection without this launch's token")
    rank.send(msgspec.msgpack.encode([hello(0, token=hub.token)]))
    assert len(hub.receive(SOON_MS)) == 1
    rank.send(msgspec.msgpack.encode(hello_of_another_version(hub.token)))
    assert hub.receive(SOON_MS) == []
    rank.send(msgspec.msgpack.encode([step(0)]))
    assert hub.receive(SOON_MS) == [step(0)]
    assert not rank.poll(100)
    assert not stranger.poll(0)


@pytest.mark.parametrize("version", ["0.0.1", "99.0"])
@pytest.mark.parametrize("change", [{"colour": "red"}, {"host": None}, {"node": "first"}])
def test_a_node_of_another_version_is_told_at_once(
    nodes_hub: NodeServer, version: str, change: dict[str, object]
) -> None:
    versions = f"has ddptui {version}, the console {__version__}: install the same version on both"
    with closing(Node(nodes_hub)) as node:
        fields = msgspec.to_builtins(words(nodes_hub, version=version)) | change
        stranger = fields | {"token": "x" * 32}
        node._socket.send(msgspec.msgpack.encode(stranger))  # which is not answered
        for _ in range(2):
            node._socket.send(
                msgspec.msgpack.encode({key: value for key, value in fields.items() if value is not None})
            )
            assert node.heard(nodes_hub) == Farewell(why=f"this node {versions}")
        with pytest.raises(AssertionError, match="nothing was heard"):
            node.heard(nodes_hub, within_s=0.1)
    assert nodes_hub.members == {}
    assert nodes_hub.take_notices() == [f"a node was rejected: it {versions}"] * 2


# The other way round: this node, and a console of another version


class Console(NodeServer):
    """A console that answers every message with these bytes."""

    def __init__(self, answer: bytes) -> None:
        super().__init__("a-run", 1, "127.0.0.1", PORT)
        self._answer = answer

    def answer(self) -> None:
        for identity, _ in self._socket.receive(SOON_MS):
            self._socket.send(identity, msgspec.Raw(self._answer))
            return


def joined(answer: object, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """The exit code of `ddptui join`, and what it printed."""
    monkeypatch.setattr(agent, "interface_towards", lambda _: Interface("lo", "127.0.0.1"))
    said: list[str] = []
    with closing(Console(msgspec.msgpack.encode(answer))) as console:
        receive = agent.ConsoleConnection.receive

        def answered(line: agent.ConsoleConnection) -> object:
            console.answer()
            return receive(line)

        monkeypatch.setattr(agent.ConsoleConnection, "receive", answered)
        return join(console.ticket, None, said.append), said


@pytest.mark.parametrize("answer", [{"type": "Welcome", "node": 0, "mood": "glad"}, {"type": "Song"}, [1, 2]])
def test_a_node_that_does_not_understand_its_console_says_so(answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JoinError, match=f"cannot read the console's messages.* this node has ddptui {__version__}"):
        joined(answer, monkeypatch)


def test_a_node_understands_the_farewell_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    farewell = {"type": "Farewell", "why": "this node has ddptui 1, the console 99", "well": False, "mood": "sad"}
    code, said = joined(farewell, monkeypatch)
    assert (code, said[-1]) == (1, "this node has ddptui 1, the console 99")
