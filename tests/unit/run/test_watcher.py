"""What is said of a training that is watched and shows no steps, or is heard of no more."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddptui.config.command_presets import preset_of
from ddptui.engines.hub import Hub
from ddptui.run import watcher
from ddptui.run.watcher import LOST_AFTER_S, NO_STEP_S, WatchSupervisor
from ddptui.store.journal import RepeatJournal
from ddptui.wire.messages import Failed
from tests.support.builders import done, heartbeat, hello, step

[TRIAL] = preset_of(("train.py",), name=None, skip=3, steps=None, overrides={}).trials


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def monotonic_ns(self) -> int:
        return int(self.now * 1e9)

    def passes(self, seconds: float, supervisor: WatchSupervisor) -> None:
        """Time goes on, and the console looks once a second."""
        for _ in range(int(seconds)):
            self.now += 1
            supervisor.is_over()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watcher, "time", clock)
    return clock


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub(0) as hub:
        yield hub


def supervisor_of(hub: Hub, tmp_path: Path, *, ends_with_ranks: bool) -> WatchSupervisor:
    launch = SimpleNamespace(
        ends_with_ranks=ends_with_ranks, exit_code=None, end_reason=lambda: None, add_rank=lambda _: None
    )
    with (tmp_path / "journal").open("wb") as journal:
        return WatchSupervisor(TRIAL, hub, launch, RepeatJournal(tmp_path, 1, journal))  # type: ignore[arg-type]


def test_after_a_minute_without_a_step_that_is_said_once(hub: Hub, tmp_path: Path, clock: Clock) -> None:
    supervisor = supervisor_of(hub, tmp_path, ends_with_ranks=False)
    clock.passes(NO_STEP_S - 1, supervisor)
    assert supervisor.take_notices() == []
    clock.passes(2, supervisor)
    [notice] = supervisor.take_notices()
    assert notice.startswith("after 60 s: no rank was seen: no process computed a gradient with torch")
    assert supervisor.take_notices() == []


def test_elsewhere_the_minute_begins_with_the_first_rank(hub: Hub, tmp_path: Path, clock: Clock) -> None:
    supervisor = supervisor_of(hub, tmp_path, ends_with_ranks=True)
    clock.passes(10 * NO_STEP_S, supervisor)
    assert (supervisor.take_notices(), supervisor.is_over()) == ([], False)
    hub.hellos[0] = hello(0)
    supervisor.add([hello(0)])
    clock.passes(NO_STEP_S / 2, supervisor)
    supervisor.add([heartbeat(0)])
    clock.passes(NO_STEP_S / 2 + 1, supervisor)
    assert supervisor.take_notices() == [
        "after 60 s: 1 rank connected, but no step of an optimizer was seen; still watching"
    ]


def test_ranks_elsewhere_that_fall_silent_are_lost_but_not_where_the_console_stood_still(
    hub: Hub, tmp_path: Path, clock: Clock
) -> None:
    supervisor = supervisor_of(hub, tmp_path, ends_with_ranks=True)
    supervisor.add([hello(0), step(0, 0)])
    clock.now += 5 * LOST_AFTER_S  # in one leap
    assert not supervisor.is_over()
    clock.passes(LOST_AFTER_S + 1, supervisor)
    assert supervisor.is_over()
    assert supervisor.ended().error == "no message from its ranks for 60 s: they were killed, or cannot be reached"


def test_ranks_that_were_started_again_have_yet_to_train_and_that_is_said_once(
    hub: Hub, tmp_path: Path, clock: Clock
) -> None:
    supervisor = supervisor_of(hub, tmp_path, ends_with_ranks=True)
    hub.world_size = 2
    supervisor.add([hello(0), hello(1), step(0), step(1), done(0), done(1)])
    assert (supervisor.has_trained(), supervisor.take_notices()) == (True, [])
    hub.restarts = 1
    supervisor.add([hello(1), hello(0)])
    assert not supervisor.has_trained()
    assert supervisor.take_notices() == ["the ranks were restarted; step numbers continue"]
    assert supervisor.take_notices() == []


def test_a_rank_that_has_failed_elsewhere_is_waited_for_until_it_must_be_lost(
    hub: Hub, tmp_path: Path, clock: Clock
) -> None:
    supervisor = supervisor_of(hub, tmp_path, ends_with_ranks=True)
    hub.world_size = 2
    failed = Failed(rank=1, at_ns=0, error="RuntimeError: out of data")
    supervisor.add([hello(0), hello(1), step(0), step(1), done(0), failed])
    assert not supervisor.is_over()  # its launcher may start it again
    supervisor.add([hello(1), step(1), done(1)])
    assert (supervisor.is_over(), supervisor.ended().status) == (True, "ok")
    supervisor.add([hello(1), failed])
    clock.passes(LOST_AFTER_S + 1, supervisor)
    assert (supervisor.is_over(), supervisor.ended().error) == (True, "rank 1 has failed: RuntimeError: out of data")
