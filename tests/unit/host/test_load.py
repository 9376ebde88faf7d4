"""How busy the host is, and how much of that is the trial's: read from this very machine."""

import os
import time
from types import SimpleNamespace
from typing import NamedTuple

import psutil
import pytest

from ddptui.host import load
from ddptui.host.load import CpuTime, LoadMeter
from ddptui.wire.records import Load
from tests.support.load import busy_processes


class Clock:
    """The time, and what it was used for, as told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.busy_s = 5000.0
        self.stolen_s = 10.0
        self.spent_s: dict[int, float] = {}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    told = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: told.now)
    monkeypatch.setattr(load, "cpu_time", lambda: CpuTime(told.busy_s, told.stolen_s))
    monkeypatch.setattr(LoadMeter, "_spent_s", lambda _: dict(told.spent_s))
    return told


def meter(above: float = 100.0) -> LoadMeter:
    return LoadMeter(list, above)


def test_it_reads_twice_a_second_and_at_once_where_a_phase_ends(clock: Clock) -> None:
    reads = meter()
    clock.now += 0.4
    assert reads.read() == []
    clock.now += 0.2
    assert [len(reads.read()) for _ in range(2)] == [1, 0]
    clock.now += 0.1
    [reading] = reads.read(now=True)
    assert reading.s == pytest.approx(0.1)
    assert reads.read(now=True) == []


def test_busy_and_own_are_cores_on_average_since_the_last_reading(clock: Clock) -> None:
    clock.spent_s = {1: 10.0}
    reads = meter()
    clock.now, clock.busy_s, clock.spent_s = 102.0, 5003.0, {1: 11.0, 2: 0.5}  # one has come
    [reading] = reads.read()
    assert (reading.busy, reading.own) == pytest.approx((1.5, 0.75))
    clock.now, clock.busy_s, clock.spent_s = 103.0, 5003.5, {2: 0.75}  # one has gone
    [reading] = reads.read()
    assert (reading.busy, reading.own) == pytest.approx((0.5, 0.25))
    clock.now, clock.busy_s, clock.stolen_s = 104.0, 5004.3, 10.5  # some of it a hypervisor took
    [reading] = reads.read()
    assert (reading.busy, reading.own, reading.stolen) == pytest.approx((0.8, 0.0, 0.5))
    clock.now, clock.busy_s, clock.spent_s = 105.0, 5005.3, {2: 2.15}  # a trial is never busier than its host
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
    assert reading.own * reading.s == pytest.approx(spent, abs=0.05)


class Kernels:
    """A thread of the kernel's, as psutil shows it."""

    pid, worked_s = 3, 0.0

    def ppid(self) -> int:
        return 2

    def cmdline(self) -> list[str]:
        return []

    def cpu_times(self) -> object:
        return SimpleNamespace(user=self.worked_s, system=0.0)


def test_the_busiest_other_process_is_named_but_no_thread_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = Kernels()
    with busy_processes(1) as [busy]:
        gone = LoadMeter(lambda: [busy], 100.0)
        # whatever else is busy on this host: it must be told from one that sleeps
        monkeypatch.setattr(psutil, "process_iter", lambda: [kernels, psutil.Process(os.getppid()), busy])
        reads = meter(above=0.0)
        assert next_of(reads).by == ""  # one look tells nothing yet
        assert next_of(reads).by == f"{busy.name()} (process {busy.pid})"
        kernels.worked_s += 100.0  # beside that, the program is not what is to be closed
        assert next_of(reads).by == ""
    busy.wait()
    assert next_of(gone).own < 0.5


def next_of(reads: LoadMeter) -> Load:
    while not (told := reads.read()):
        time.sleep(0.01)
    return told[0]


def test_a_host_that_waits_for_its_disk_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Times(NamedTuple):
        user: float = 4.0
        idle: float = 8.0
        iowait: float = 2.0
        steal: float = 1.0

    monkeypatch.setattr(psutil, "cpu_times", Times)
    assert load.cpu_time() == CpuTime(4.0 + 1.0, 1.0)
