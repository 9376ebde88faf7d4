"""Starts sessions with real ranks from the process of a test, and follows them to their end."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddptui.engines.local.warm import WarmParent
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.run.runner import Session
from ddptui.store.runs import Run
from ddptui.wire.records import Ended, Launched, Message
from tests.support.builders import preset_of
from tests.support.runner import ENOUGH_S

TINY: dict[str, Any] = {"model": "mlp", "width": 16, "depth": 1, "warmup_steps": 2, "threads": 1}


def trial(name: str, steps: int | None, ranks: tuple[int, ...] = (0,), **fields: Any) -> dict[str, Any]:
    """Its steps take 8 ms at least: a console has time to see them."""
    pace = {"at": "data", "ranks": list(ranks), "sleep_ms": 8}
    return {"name": name, "launch": "single", "steps": steps, "bottleneck": [pace], **TINY, **fields}


@contextmanager
def session_of(warm: WarmParent, runs: Path, *trials: dict[str, Any], repeats: int = 1) -> Iterator[Session]:
    preset = preset_of({"repeats": repeats, "trial": list(trials)})
    with ThreadPoolExecutor(1) as threads:
        session = Session(preset, Run.create(runs, preset, {"cores": 2}), threads, warm=warm)
        try:
            yield session
        finally:
            session.close()


def follow(session: Session, act: Callable[[Live], object] = lambda live: None) -> list[Message]:
    """Return all messages of a session, once it has ended. `act` is called with the state after each look at it."""
    live, heard = Live(), []
    deadline = time.monotonic() + ENOUGH_S
    while not session.is_over:
        assert time.monotonic() < deadline, live
        new = session.drain()
        fold(live, new)
        heard += new
        act(live)
        time.sleep(0.01)  # a session is looked at from time to time: it calls nobody
    return heard + session.drain()


def launches(heard: list[Message]) -> list[tuple[str, int]]:
    return [(message.trial, message.repeat) for message in heard if isinstance(message, Launched)]


def ends(heard: list[Message]) -> list[str]:
    return [message.status for message in heard if isinstance(message, Ended)]
