"""A stall is said when it has been looked at for a while, and no process that a rank has started works meanwhile."""

import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ddptui.config.trial import Trial
from ddptui.diagnosis.positions import Stall
from ddptui.engines.base import Launch
from ddptui.engines.hub import Hub
from ddptui.run import supervisor
from ddptui.store.journal import RepeatJournal
from ddptui.wire.messages import Hello
from tests.support.builders import hello

STALL = Stall("rank 0 is in step 3, in forward; no progress for 5 s", 0)
MS = 1_000_000


class Still:
    """Nobody has come any further, unless a process works."""

    def check(self, now_ns: int, states: Mapping[int, str]) -> Stall | None:
        return None if "running" in states.values() else STALL


class Elsewhere(Launch):
    """A launch that answers as one on other hosts does."""


class Watched:
    """A vigil over one rank, looked at every quarter of a second."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.helpers_work = False
        self.asked = 0
        self.now_ns = 10**12
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        with Hub(1) as hub:
            launcher = Elsewhere()
            monkeypatch.setattr(launcher, "helpers_work", self._asked, raising=False)
            self.supervisor = supervisor.LaunchSupervisor(
                Trial(), hub, launcher, RepeatJournal(folder, 1, io.BytesIO())
            )  # type: ignore[arg-type]
            hub.hellos[0] = hello(0)
        monkeypatch.setattr(self.supervisor, "_stall_detector", Still())

    def _asked(self, _: Hello) -> bool:
        self.asked += 1
        return self.helpers_work

    def look(self, state: str = "sleeping") -> Stall | None:
        self.now_ns += 250 * MS
        return self.supervisor._stalled({0: state})


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    with monkeypatch.context() as patch:
        yield Watched(tmp_path, patch)


def test_a_stall_is_looked_at_for_half_a_second(watched: Watched) -> None:
    assert [watched.look() for _ in range(4)] == [None, None, STALL, STALL]


def test_helpers_that_work_between_two_looks_are_enough(watched: Watched) -> None:
    for works in (False, True, False, True, False):
        watched.helpers_work = works
        assert watched.look() is None


def test_nobody_asks_for_helpers_of_a_rank_that_is_stopped_or_works(watched: Watched) -> None:
    watched.helpers_work = True
    assert [watched.look("stopped") for _ in range(3)][-1] == STALL
    assert watched.look("running") is None
    assert watched.asked == 0
