"""What another process of this host can do, tried with one: tell the same time, be scheduled as asked, die with those
it depends on."""

import os
import sys
import time
from collections.abc import Iterator

import psutil

from ddptui.doctor.finding import Finding
from ddptui.doctor.machine import finest_tick_ns
from ddptui.host.rank_side import Child, NoAnswer

MODULE = "workers.doctor.host"
COARSEST_NS = 100_000
DEATH_S = 5.0
LOOK_S = 0.01
CLOCK_REMEDY = "waiting is measured with it: run on one host, in one container; `ddptui selftest` tells if it is right"


def clock() -> Iterator[Finding]:
    """Wait and transfer set times of different processes against each other."""
    with Child(MODULE) as child:
        try:
            child.ask("clock")  # the first answer comes late: it is started with it
            before = time.monotonic_ns()
            there: int = child.ask("clock")["ns"]
            yield judge_clock(before, there, time.monotonic_ns(), finest_tick_ns())
        except NoAnswer as why:
            yield Finding("clock", str(why), CLOCK_REMEDY)


def judge_clock(before_ns: int, there_ns: int, after_ns: int, tick_ns: int) -> Finding:
    """Another process's reading must lie between two of ours."""
    if not before_ns <= there_ns <= after_ns:
        apart_ms = min(abs(there_ns - before_ns), abs(there_ns - after_ns)) / 1e6
        return Finding("clock", f"processes differ by {apart_ms:.3g} ms", CLOCK_REMEDY)
    coarse = not 0 < tick_ns <= COARSEST_NS
    remedy = "phases shorter than that read 0: use a newer kernel or another clock source" if coarse else ""
    return Finding("clock", f"the same in another process, in steps of {tick_ns / 1000:.3g} µs", remedy)


def scheduler() -> Iterator[Finding]:
    if not sys.platform.startswith("linux"):
        yield Finding("scheduler", "SCHED_BATCH is Linux's own: sched_batch means nothing here")
        return
    with Child(MODULE) as child:
        try:
            taken = child.ask("scheduler")["taken"]
            why = "" if taken else "asked for, and not given"
        except NoAnswer as no:
            why = str(no)
    remedy = "`--set sched_batch=false` where a preset asks for it" if why else ""
    yield Finding("scheduler", f"SCHED_BATCH: {why}" if why else "SCHED_BATCH may be had (sched_batch)", remedy)


def orphans() -> Iterator[Finding]:
    """Whoever starts ranks is killed here, as a user may: do its dependants die?"""
    with Child(MODULE) as child:
        try:
            pids = child.ask("dependants")
        except NoAnswer as why:
            yield Finding("orphans", f"cannot be tried: {why}", orphans_remedy())
            return
        watched = {way: psutil.Process(pid) for way, pid in pids.items()}
        child.kill_alone()
        yield judge_orphans({way: _is_gone(process) for way, process in watched.items()}, **_means())


def _means() -> dict[str, bool]:
    return {"linux": sys.platform.startswith("linux"), "pidfd": hasattr(os, "pidfd_open")}


def judge_orphans(gone: dict[str, bool], *, linux: bool, pidfd: bool) -> Finding:
    """gone: who died in time, of a rank that depends on its parent, and of one that depends on the console."""
    watched = "pidfd" if pidfd else "looking four times a second: there is no pidfd"
    told = f"ranks die with their launcher (prctl) and the console ({watched})"
    if not linux:
        told = f"ranks die with the console ({watched}); with their launcher on Linux only"
    left = [way for way, ended in gone.items() if not ended and (linux or way != "parent")]
    if not left:
        return Finding("orphans", told)
    return Finding("orphans", f"a rank outlives its {' and its '.join(left)}", orphans_remedy())


def orphans_remedy() -> str:
    return "after a crash, look for ranks left behind: `pgrep -af workers`"


def _is_gone(process: psutil.Process) -> bool:
    """Whether it ends in time. Nobody may be there to bury it: a zombie is gone."""
    until = time.monotonic() + DEATH_S
    while time.monotonic() < until:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(LOOK_S)
    return False
