"""Checks with the help of another process: its clock, its scheduling, and whether it dies with its parents."""

import os
import sys
import time
from collections.abc import Iterator

import psutil

from ddptui.doctor.finding import Finding
from ddptui.doctor.machine import finest_tick_ns
from ddptui.host.rank_side import Child, NoAnswer

MODULE = "workers.doctor.host"
COARSEST_NS = 100_000  # allowed clock resolution: phases of a small model take about 1 ms
DEATH_S = 5.0  # time within which a dependent process must have ended
LOOK_S = 0.01
CLOCK_REMEDY = (
    "waits are measured across processes: run all ranks on one host, in one container; `ddptui selftest` checks them"
)
ORPHANS_REMEDY = "after a crash, look for leftover ranks: `pgrep -af workers`"


def clock() -> Iterator[Finding]:
    """Checks whether processes share a clock: waits and transfers are computed from the times of several processes."""
    with Child(MODULE) as child:
        try:
            child.ask("clock")  # the first answer also includes the start of the process
            before = time.monotonic_ns()
            reading: int = child.ask("clock")["ns"]
            yield clock_finding(before, reading, time.monotonic_ns(), finest_tick_ns())
        except NoAnswer as why:
            yield Finding("clock", str(why), CLOCK_REMEDY)


def clock_finding(before_ns: int, reading_ns: int, after_ns: int, tick_ns: int) -> Finding:
    """The finding about the clock: another process's reading must lie between two readings of this one. tick_ns: the
    clock's smallest step."""
    if not before_ns <= reading_ns <= after_ns:
        apart_ms = min(abs(reading_ns - before_ns), abs(reading_ns - after_ns)) / 1e6
        return Finding("clock", f"the clocks of two processes differ by {apart_ms:.3g} ms", CLOCK_REMEDY)
    coarse = not 0 < tick_ns <= COARSEST_NS
    remedy = "shorter phases are measured as 0: use a newer kernel or another clock source" if coarse else ""
    return Finding("clock", f"the same in another process, in steps of {tick_ns / 1000:.3g} µs", remedy)


def scheduler() -> Iterator[Finding]:
    """Checks whether ranks can run under SCHED_BATCH."""
    if not sys.platform.startswith("linux"):
        yield Finding("scheduler", "sched_batch has no effect here: only Linux has SCHED_BATCH")
        return
    with Child(MODULE) as child:
        try:
            why = "" if child.ask("scheduler")["taken"] else "the kernel ignored the request"
        except NoAnswer as error:
            why = str(error)
    remedy = "`--set sched_batch=false` for presets that ask for it" if why else ""
    yield Finding("scheduler", f"SCHED_BATCH: {why}" if why else "SCHED_BATCH works (sched_batch = true)", remedy)


def orphans() -> Iterator[Finding]:
    """Checks whether ranks end when their parent or the console is killed, by trying both."""
    with Child(MODULE) as child:
        try:
            pids = child.ask("dependants")
        except NoAnswer as why:
            yield Finding("orphans", f"cannot be checked: {why}", ORPHANS_REMEDY)
            return
        ranks = {on: psutil.Process(pid) for on, pid in pids.items()}
        child.kill_alone()
        gone = {on: _is_gone(rank) for on, rank in ranks.items()}
        yield orphans_finding(gone, linux=sys.platform.startswith("linux"), pidfd=hasattr(os, "pidfd_open"))


def orphans_finding(gone: dict[str, bool], *, linux: bool, pidfd: bool) -> Finding:
    """The finding about orphans. gone: for "parent" and "console", whether a rank ended in time after that process was
    killed."""
    means = "pidfd" if pidfd else "checked four times a second, without pidfd"
    text = f"ranks die with their launcher (prctl) and the console ({means})"
    if not linux:
        text = f"ranks die with the console ({means}); with their launcher on Linux only"
    survived = [on for on, ended in gone.items() if not ended and (linux or on != "parent")]
    if not survived:
        return Finding("orphans", text)
    return Finding("orphans", f"a rank outlives its {' and its '.join(survived)}", ORPHANS_REMEDY)


def _is_gone(process: psutil.Process) -> bool:
    """Whether a process ends within DEATH_S. A zombie counts as ended: it may have no parent to reap it."""
    until = time.monotonic() + DEATH_S
    while time.monotonic() < until:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(LOOK_S)
    return False
