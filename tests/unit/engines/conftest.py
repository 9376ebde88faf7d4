"""A hub, and who connects to it; and a warm parent for tests that break it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from ddptui.engines.local import warm as warm_parent
from ddptui.engines.local.warm import WarmParent
from ddptui.engines.rank_server import RankServer
from tests.support.runner import ENOUGH_S
from workers.warm import LIBRARIES

Socket = zmq.Socket[bytes]
Connect = Callable[[], Socket]

# Of the lab's own modules it finds none: they need more of torch than there is.
NOTHING_ELSE = "import pkgutil\npkgutil.walk_packages = lambda *_: ()\n"


@pytest.fixture
def hub(request: pytest.FixtureRequest) -> Iterator[RankServer]:
    """For two ranks, or as many as the test wants."""
    with RankServer(world_size=getattr(request, "param", 2)) as hub:
        yield hub


@pytest.fixture
def connect(hub: RankServer) -> Iterator[Connect]:
    """Somebody who has found the socket."""
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


def ready(parent: WarmParent) -> WarmParent:
    deadline = time.monotonic() + ENOUGH_S
    while not parent.is_ready(0.1):
        assert time.monotonic() < deadline
    return parent
