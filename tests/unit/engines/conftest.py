"""Hubs, and who connects to them; kept launches, and a warm parent for tests that break it."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import zmq

from ddptui.engines.base import LAUNCHER_LOG
from ddptui.engines.join.engine import NodeServer
from ddptui.engines.local import warm as warm_parent
from ddptui.engines.local.engine import LocalLaunch
from ddptui.engines.local.warm import WarmParent, start_keeper
from ddptui.engines.rank_server import RankServer
from ddptui.host.folders import python_path
from ddptui.host.machine import heap_limits
from tests.support.runner import ENOUGH_S
from workers.warm import LIBRARIES

Socket = zmq.Socket[bytes]
Connect = Callable[[], Socket]
FIRST_PORT = 23_000

# Of the lab's own modules it finds none: they need more of torch than there is.
NOTHING_ELSE = "import pkgutil\npkgutil.walk_packages = lambda *_: ()\n"


@pytest.fixture
def hub(request: pytest.FixtureRequest) -> Iterator[RankServer]:
    """For two ranks, or as many as the test wants."""
    with RankServer(world_size=getattr(request, "param", 2)) as hub:
        yield hub


@pytest.fixture
def connect(hub: RankServer) -> Iterator[Connect]:
    """Connects a peer that knows where the socket is, and need not have its token."""
    context: zmq.Context[Socket] = zmq.Context()
    with ExitStack() as open_peers:

        def peer() -> Socket:
            made = context.socket(zmq.DEALER)
            made.setsockopt(zmq.LINGER, 0)
            made.setsockopt(zmq.RCVHWM, 10)  # what a stranger does not read is not to count here
            made.connect(hub.endpoint)
            open_peers.callback(made.close)
            return made

        yield peer
    context.term()


@pytest.fixture
def nodes_hub() -> Iterator[NodeServer]:
    with closing(NodeServer("a-run", 2, "127.0.0.1", FIRST_PORT)) as open_muster:
        yield open_muster


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmParent]:
    """One for this test alone, with libraries that are imported at once."""
    for library in (name.replace(".", "/") for name in LIBRARIES):
        path = tmp_path / library
        path.mkdir(parents=True)
        for folder in (path, *path.parents[: library.count("/")]):
            (folder / "__init__.py").write_text("")
    (tmp_path / "sitecustomize.py").write_text(NOTHING_ELSE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(warm_parent, "ANSWERS_WITHIN_S", 0.5)
    parent = WarmParent()
    yield parent
    parent.close()


def launched(script: str, folder: Path, warm: WarmParent | None, **variables: str) -> LocalLaunch:
    """Starts a Python script, kept, in a folder; its own folder is `own`. Without a warm parent, as a new process."""
    variables |= {"PYTHONPATH": python_path(), **heap_limits(os.environ)}  # as every launch has them
    own = folder / "own"
    own.mkdir(exist_ok=True)
    with (folder / LAUNCHER_LOG).open("wb") as log:
        where = variables, folder, own, log
        if warm is not None:
            return LocalLaunch(warm.fork("tests.support.script", "main", [script], *where), own, warm)
        command = [sys.executable, "-m", "tests.support.script", script]
        return LocalLaunch(start_keeper(command, *where), own)


def ready(parent: WarmParent) -> WarmParent:
    deadline = time.monotonic() + ENOUGH_S
    while not parent.is_ready(0.1):
        assert time.monotonic() < deadline
    return parent
