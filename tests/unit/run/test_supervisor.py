"""A launch is followed: what is wanted of it, its last words, strangers, stalls; a run waits for a quiet machine."""

import io
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import zmq
from msgspec.structs import replace

from ddptui.config.trial import Bottleneck, Trial
from ddptui.diagnosis.positions import Stall
from ddptui.engines.base import Launch
from ddptui.engines.rank_server import RankServer
from ddptui.host.load import LoadMeter
from ddptui.run import prepare, runner, supervisor, watch_supervisor
from ddptui.run.prepare import CALM_READINGS, can_wait, wait_until_quiet
from ddptui.run.runner import RunControls
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.run.watch_supervisor import HOLDS_S, PER_S, SamplingPace
from ddptui.run.watch_supervisor import PER_S_IF_LATE as FASTER
from ddptui.store.journal import RepeatJournal
from ddptui.text.words import MS
from ddptui.wire.messages import Collective, Hello, Step
from ddptui.wire.records import Load, Refused
from tests.support.builders import done, hello, launched, preset_of, step

AFTER_S = 0.05  # the first look of the console
PATIENT_MS = 10_000  # both waits end with the message: on a busy machine it may take long
STALL = Stall("rank 0 is in step 3, in forward; no progress for 5 s", 0)


def supervised(hub: RankServer, launch: Launch, folder: Path) -> LaunchSupervisor:
    return LaunchSupervisor(Trial(world_size=1), hub, launch, RepeatJournal(folder, 1, io.BytesIO()))


class Over(Launch):
    """A launch that has ended well."""

    exit_code = 0


class UnderWay(Launch):
    """A launch that ends once so many connections were rejected."""

    def __init__(self, hub: RankServer, strangers: int) -> None:
        self._hub, self._strangers = hub, strangers

    @property
    def exit_code(self) -> int | None:
        return 0 if self._hub.refused >= self._strangers else None


def test_results_that_are_still_on_their_way_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "ON_THEIR_WAY_MS", PATIENT_MS)
    with RankServer(1) as hub, zmq.Context() as context, context.socket(zmq.DEALER) as rank:
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
    with RankServer(1) as hub, zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        launch = supervised(hub, UnderWay(hub, 4), tmp_path)
        stranger.connect(hub.endpoint)
        knock = msgspec.msgpack.encode([hello(0, world_size=1, token="wrong")])
        stranger.send(knock)
        follow = runner._follow(launched(), launch, None, RunControls())
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
        with RankServer(1) as hub:
            self.supervisor = supervised(hub, launch, folder)
            hub.hellos[0] = hello(0)
        monkeypatch.setattr(self.supervisor, "_stall_detector", Still())

    def _asked(self, _: Hello) -> bool:
        self.asked += 1
        return self.helpers_work

    def look(self, state: str = "sleeping") -> Stall | None:
        self.now_ns += 250 * MS
        return self.supervisor._stalled({0: state})


def test_a_stall_is_looked_at_for_a_while_and_helpers_may_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        watched = Watched(tmp_path, patch)
        assert [watched.look() for _ in range(4)] == [None, None, STALL, STALL]
        watched.look("running")
        for works in (False, True, False, True, False):  # between two looks is enough
            watched.helpers_work = works
            assert watched.look() is None


def test_of_a_rank_that_is_stopped_or_works_nobody_asks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        watched = Watched(tmp_path, patch)
        watched.helpers_work = True
        assert [watched.look("stopped") for _ in range(3)][-1] == STALL
        assert watched.look("running") is None
        assert watched.asked == 0


# What is wanted of a run under way, said in one thread and read in another


LATE = Bottleneck(at="forward", ranks=(1,), sleep_ms=5)


@pytest.fixture
def clock_of_lab(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock_of_lab = SimpleNamespace(now=100.0)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: clock_of_lab.now))
    return clock_of_lab


def test_a_launch_that_begins_knows_nothing_of_skips_and_delays_for_the_one_before() -> None:
    controls = RunControls()
    assert not controls.skip(0)  # none has begun
    controls.launched_ns = 0
    assert controls.end() is None
    assert controls.skip(0)
    assert controls.end() == "skipped"
    controls.launched_ns = 2
    assert not controls.skip(0)  # pressed as the launch changed
    controls.inject((LATE,), 1)  # a screen may not have heard yet of the launch that begins
    assert controls.end() is None
    assert list(controls.requests(2)) == []
    assert list(controls.requests(1)) == []


@pytest.mark.parametrize("wish", ["skip", "stop"])
def test_it_is_known_since_when_an_end_is_wanted(wish: str, clock_of_lab: SimpleNamespace) -> None:
    controls = RunControls()
    controls.launched_ns = 1
    controls.skip(1) if wish == "skip" else controls.stop()
    clock_of_lab.now += 2.5
    assert controls.waited_s() == 2.5
    controls.launched_ns = 2
    assert controls.end() == (None if wish == "skip" else "interrupted")  # a stop is for all that is to come


def test_what_is_to_be_sent_is_sent_once_in_order_and_to_the_launch_that_is_meant() -> None:
    controls = RunControls()
    assert (controls.end(), list(controls.requests(1))) == (None, [])
    controls.ask_for_stacks(1)
    controls.inject((LATE,), 1)
    controls.inject((), 1)
    controls.ask_for_stacks(0)  # for the launch before
    assert list(controls.requests(1)) == [None, (LATE,), ()]
    assert list(controls.requests(1)) == []


# How often ranks look at their lines


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(watch_supervisor, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def idle(rank: int, number: int, ms: float) -> Step:
    """A step of 10 ms in which the rank waits so long."""
    made = step(rank, number, end_ms=3_010)
    begin, end = made.end_ns - round(ms * MS), made.end_ns
    return replace(made, collectives=(Collective("all_reduce", 0, 8, begin, begin, begin, end),))


@pytest.mark.parametrize(
    ("of_0", "of_1", "per_s"), [(5.0, 0.1, FASTER), (5.0, 4.8, PER_S), (0.0, 0.0, PER_S), (0.5, 2.0, FASTER)]
)
def test_a_rank_that_waits_less_than_another_is_late(
    clock: SimpleNamespace, of_0: float, of_1: float, per_s: int
) -> None:
    pace = SamplingPace()
    changes = [pace.add([idle(0, number, of_0), idle(1, number, of_1)]) for number in range(30)]
    assert pace.per_s == per_s
    assert sum(changes) == (per_s != PER_S)
    alone = SamplingPace()
    alone.add([idle(0, number, of_0) for number in range(30)])
    assert alone.per_s == PER_S


def test_the_higher_rate_lasts_a_while_and_ends(clock: SimpleNamespace) -> None:
    pace = SamplingPace()
    for number in range(30):
        pace.add([idle(0, number, 5.0), idle(1, number, 0.1)])
    for number in range(30, 200):
        pace.add([idle(0, number, 1.0), idle(1, number, 1.0)])
    clock.now += HOLDS_S - 1
    pace.add([])
    assert pace.per_s == FASTER
    clock.now += 2
    pace.add([])
    assert pace.per_s == PER_S


# A run waits until this machine is quiet, and no longer than it may


BUSY = Load(at_ns=0, busy=2.0, own=0.0, by="python (process 4711)")
CALM = Load(at_ns=0, busy=0.1, own=0.0, idle=1.9)


def waited(monkeypatch: pytest.MonkeyPatch, readings: Iterator[Load], within_s: float = 600.0) -> list[str]:
    monkeypatch.setattr(LoadMeter, "read", lambda *_, **__: [next(readings)])
    monkeypatch.setattr(prepare, "LOOK_EVERY_S", 0.0)
    said: list[str] = []
    wait_until_quiet(within_s, said.append)
    return said


def test_on_a_busy_machine_it_waits_until_that_was_quiet_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([BUSY, CALM, BUSY, *[CALM] * CALM_READINGS])
    first, last = waited(monkeypatch, readings)
    assert first.startswith("waiting until this machine is quiet, 600 s at most: other programs kept 2.0 cores busy")
    assert "python (process 4711)" in first
    assert last == "this machine is quiet"
    assert next(readings, None) is None
    assert waited(monkeypatch, iter([CALM] * CALM_READINGS)) == []
    *_, last = waited(monkeypatch, iter(lambda: BUSY, None), within_s=0.05)
    assert last.startswith("not quiet after 0.05 s, starting")


def test_a_training_of_the_users_own_is_never_held_up() -> None:
    assert can_wait(preset_of({"trial": [{"name": "a"}]}))
    assert not can_wait(preset_of({"kind": "command", "trial": [{"name": "a", "command": ["true"]}]}))
