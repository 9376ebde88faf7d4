"""Before it ends, the relay reads everything that ranks have sent; what it cannot read, it says."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from ddptui.engines.local.training import SOCKET, Relay
from ddptui.engines.rank_server import RankServer
from ddptui.wire.messages import Hello, OwnGpu, RankMessage, Ready
from ddptui.wire.relay_file import Watching
from workers.relay.rank import WatchedRank
from workers.watch.link import JSON, Link, framed
from workers.watch.notes import VERSION

PATIENCE_MS = 60_000
OWN = {"rank": 0, "world_size": 1, "at_ns": 1, "host": "here", "pid": 1, "device": "cpu", "threads": 1}
OWN |= {"torch": "2.8.0", "backend": "gloo"}
HELLO = {"version": VERSION, "hello": OWN, "gpus": [["A GPU", "its-uuid"]], "nccl": None, "signs": 0, "page": None}


def test_a_rank_that_connected_before_the_end_is_heard(tmp_path: Path) -> None:
    with RankServer(0) as hub:
        relay = Relay(tmp_path / "console", hub.folder, hub.rank_environment, Watching(), ends_training=False)
        link = Link(str(hub.folder / SOCKET))
        link.put(JSON, json.dumps(HELLO).encode())
        link.send()
        link.close()
        relay.close()  # its Python has yet to start
        heard: list[RankMessage] = []
        while len(heard) < 2 and (new := hub.receive(PATIENCE_MS)):
            heard += new
    hello, ready, *_ = heard  # then perhaps a heartbeat
    assert isinstance(hello, Hello)
    assert (hello.torch, hello.host) == ("2.8.0", "here")
    assert isinstance(ready, Ready)
    assert ready.gpus == (OwnGpu("A GPU", "its-uuid"),)


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        ({**HELLO, "version": -1}, "ValueError: the training was started by another version of ddptui"),
        ({key: value for key, value in HELLO.items() if key != "gpus"}, "KeyError: 'gpus'"),
        ([], "ValueError: the training was started by another version of ddptui"),
    ],
)
def test_why_a_rank_cannot_be_read_is_said(hello: Any, said: str) -> None:
    notes: list[str] = []
    ours, of_rank = socket.socketpair()
    rank = WatchedRank(ours, {}, Watching(), notes.append)
    with of_rank:
        of_rank.sendall(framed(JSON, json.dumps(hello).encode()))
    rank.thread.join()
    [note] = notes
    assert note.startswith(said)
