"""How busy the host is, and how much of that is the trial's: read from this very machine."""

import os
import time
from typing import Any

import psutil
import pytest

from ddptui.run import lab
from ddptui.run.lab import LoadMeter


class Clock:
    """The time, and what it was used for, as told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.busy_s = 5000.0
        self.spent_s: dict[int, float] = {}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    told = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: told.now)
    monkeypatch.setattr(lab, "_busy_s", lambda: told.busy_s)
    monkeypatch.setattr(LoadMeter, "_spent_s", lambda _: dict(told.spent_s))
    return told


class Alone:
    """A launcher that has started nobody."""

    def processes(self) -> list[psutil.Process]:
        return []


def meter() -> LoadMeter:
    launcher: Any = Alone()
    return LoadMeter(launcher)


def test_it_reads_once_a_second(clock: Clock) -> None:
    reads = meter()
    clock.now += 0.9
    assert reads.read() == []
    clock.now += 0.2
    assert len(reads.read()) == 1
    assert reads.read() == []


def test_busy_and_own_are_cores_on_average_since_the_last_reading(clock: Clock) -> None:
    clock.spent_s = {1: 10.0}
    reads = meter()
    clock.now, clock.busy_s, clock.spent_s = 102.0, 5003.0, {1: 11.0, 2: 0.5}  # one has come
    [reading] = reads.read()
    assert (reading.busy, reading.own) == pytest.approx((1.5, 0.75))
    clock.now, clock.busy_s, clock.spent_s = 103.0, 5003.5, {2: 0.75}  # one has gone
    [reading] = reads.read()
    assert (reading.busy, reading.own) == pytest.approx((0.5, 0.25))


def test_a_trial_is_never_busier_than_its_host(clock: Clock) -> None:
    clock.spent_s = {1: 0.0}
    reads = meter()
    clock.now, clock.busy_s, clock.spent_s = 101.0, 5001.0, {1: 1.4}
    [reading] = reads.read()
    assert reading.own == reading.busy == pytest.approx(1.0)


def test_what_this_very_process_does_is_its_own() -> None:
    reads = meter()
    begin = time.thread_time()
    while not (told := reads.read()):
        sum(range(10_000))
    spent = time.thread_time() - begin
    [reading] = told
    assert 0 < reading.own <= reading.busy <= (os.cpu_count() or 1) + 0.1
    assert reading.own == pytest.approx(spent, abs=0.25)


def test_who_is_gone_or_may_not_be_asked_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: psutil.Process) -> Any:
        raise psutil.NoSuchProcess(self.pid)

    monkeypatch.setattr(psutil.Process, "cpu_times", gone)
    assert meter()._spent_s() == {}
