"""What is wanted of a run under way, said in one thread and read in another."""

from types import SimpleNamespace

import pytest

from ddptui.config.trial import Bottleneck
from ddptui.run import lab
from ddptui.run.lab import Controls

LATE = Bottleneck(at="forward", ranks=(1,), sleep_ms=5)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(lab, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_a_launch_that_begins_knows_nothing_of_skips_and_delays_for_the_one_before() -> None:
    controls = Controls()
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


def test_a_stop_is_for_all_that_is_to_come() -> None:
    controls = Controls()
    controls.launched_ns = 1
    controls.skip(1)
    controls.stop()
    controls.launched_ns = 2
    assert controls.end() == "interrupted"


@pytest.mark.parametrize("wish", ["skip", "stop"])
def test_it_is_known_since_when_an_end_is_wanted(wish: str, clock: SimpleNamespace) -> None:
    controls = Controls()
    controls.launched_ns = 1
    controls.skip(1) if wish == "skip" else controls.stop()
    clock.now += 2.5
    assert controls.waited_s() == 2.5


def test_what_is_to_be_sent_is_sent_once_in_order_and_to_the_launch_that_is_meant() -> None:
    controls = Controls()
    assert (controls.end(), list(controls.requests(1))) == (None, [])
    controls.ask_for_stacks(1)
    controls.inject((LATE,), 1)
    controls.inject((), 1)
    controls.ask_for_stacks(0)  # for the launch before
    assert list(controls.requests(1)) == [None, (LATE,), ()]
    assert list(controls.requests(1)) == []
