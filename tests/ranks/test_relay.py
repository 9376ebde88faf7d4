"""Before it ends, the relay reads everything that ranks have sent."""

import json
from pathlib import Path

from ddptui.engines.hub import Hub
from ddptui.engines.local.relay import SOCKET, Relay
from ddptui.wire.messages import Hello, OwnGpu, RankMessage, Ready
from ddptui.wire.watching import Watching
from workers.watch.link import JSON, Link
from workers.watch.notes import VERSION

PATIENCE_MS = 60_000
HELLO = {"version": VERSION, "rank": 0, "world_size": 1, "at_ns": 1, "host": "here", "pid": 1, "device": "cpu"}
HELLO |= {"threads": 1, "torch": "2.8.0", "backend": "gloo", "gpus": [["A GPU", "its-uuid"]], "nccl": None, "signs": 0}


def test_a_rank_that_connected_before_the_end_is_heard(tmp_path: Path) -> None:
    with Hub(0) as hub:
        relay = Relay(tmp_path / "console", hub.folder, hub.rank_environment, Watching(), ends_training=False)
        link = Link(str(hub.folder / SOCKET))
        link.put(JSON, json.dumps(HELLO).encode())
        link.send()
        link.close()
        relay.close()  # its Python has yet to start
        heard: list[RankMessage] = []
        while len(heard) < 2 and (new := hub.receive(PATIENCE_MS)):
            heard += new
    hello, ready = heard
    assert isinstance(hello, Hello)
    assert (hello.torch, hello.host) == ("2.8.0", "here")
    assert isinstance(ready, Ready)
    assert ready.gpus == (OwnGpu("A GPU", "its-uuid"),)
