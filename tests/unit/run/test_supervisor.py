"""A launch is followed: its last words are waited for, strangers are reported, and a stall is looked at for a while."""

import io
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
import zmq

from ddptui.config.trial import Trial
from ddptui.diagnosis.positions import Stall
from ddptui.engines.base import Launch
from ddptui.engines.hub import Hub
from ddptui.run import lab, supervisor
from ddptui.run.lab import Controls
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.store.journal import RepeatJournal
from ddptui.wire.messages import Hello
from ddptui.wire.records import Refused
from tests.support.builders import done, hello, launched

MS = 1_000_000
AFTER_S = 0.05  # the first look of the console
PATIENT_MS = 10_000  # both waits end with the message: on a busy machine it may take long
STALL = Stall("rank 0 is in step 3, in forward; no progress for 5 s", 0)


def supervised(hub: Hub, launch: Launch, folder: Path) -> LaunchSupervisor:
    return LaunchSupervisor(Trial(world_size=1), hub, launch, RepeatJournal(folder, 1, io.BytesIO()))


class Over(Launch):
    """A launch that has ended well."""

    exit_code = 0


class UnderWay(Launch):
    """A launch that ends once so many connections were rejected."""

    def __init__(self, hub: Hub, strangers: int) -> None:
        self._hub, self._strangers = hub, strangers

    @property
    def exit_code(self) -> int | None:
        return 0 if self._hub.refused >= self._strangers else None


def test_results_that_are_still_on_their_way_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "ON_THEIR_WAY_MS", PATIENT_MS)
    with Hub(1) as hub, zmq.Context() as context, context.socket(zmq.DEALER) as rank:
        rank.connect(hub.endpoint)
        rank.send(msgspec.msgpack.encode([hello(0, world_size=1, token=hub.token)]))
        launch = supervised(hub, Over(), tmp_path)
        launch.add(hub.receive(PATIENT_MS))
        assert launch.is_over()
        late = threading.Timer(AFTER_S, rank.send, [msgspec.msgpack.encode([done(0)])])
        late.start()
        last = list(launch.last_messages())
        late.join()
    assert (last, launch.ended().status) == ([done(0)], "ok")


def test_the_first_stranger_is_reported_at_once_and_the_others_are_left_for_the_end(tmp_path: Path) -> None:
    with Hub(1) as hub, zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        launch = supervised(hub, UnderWay(hub, 4), tmp_path)
        stranger.connect(hub.endpoint)
        knock = msgspec.msgpack.encode([hello(0, world_size=1, token="wrong")])
        stranger.send(knock)
        follow = lab._follow(launched(), launch, None, Controls())
        first = next(follow)
        for _ in range(3):
            stranger.send(knock)
        with pytest.raises(StopIteration) as over:
            next(follow)
        assert not over.value.value  # the user has not ended it
        [last] = launch.last_messages()
    assert [each.count for each in (first, last) if isinstance(each, Refused)] == [1, 4]


class Still:
    """Nobody has come any further, unless a process works."""

    def check(self, now_ns: int, states: Mapping[int, str]) -> Stall | None:
        return None if "running" in states.values() else STALL


class Watched:
    """A vigil over one rank, looked at every quarter of a second; its launch answers as one on other hosts does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.helpers_work = False
        self.asked = 0
        self.now_ns = 10**12
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        launch = Over()
        monkeypatch.setattr(launch, "helpers_work", self._asked, raising=False)
        with Hub(1) as hub:
            self.supervisor = supervised(hub, launch, folder)
            hub.hellos[0] = hello(0)
        monkeypatch.setattr(self.supervisor, "_stall_detector", Still())

    def _asked(self, _: Hello) -> bool:
        self.asked += 1
        return self.helpers_work

    def look(self, state: str = "sleeping") -> Stall | None:
        self.now_ns += 250 * MS
        return self.supervisor._stalled({0: state})


def test_a_stall_is_looked_at_for_half_a_second_and_is_none_while_helpers_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        watched = Watched(tmp_path, patch)
        assert [watched.look() for _ in range(4)] == [None, None, STALL, STALL]
        watched.look("running")
        for works in (False, True, False, True, False):  # between two looks is enough
            watched.helpers_work = works
            assert watched.look() is None


def test_nobody_asks_for_helpers_of_a_rank_that_is_stopped_or_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        watched = Watched(tmp_path, patch)
        watched.helpers_work = True
        assert [watched.look("stopped") for _ in range(3)][-1] == STALL
        assert watched.look("running") is None
        assert watched.asked == 0
