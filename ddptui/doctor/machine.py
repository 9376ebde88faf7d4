"""Checks without another process: Python, cores, memory, a compiler, limits, the time of day, and the network."""

import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import psutil

from ddptui.config.preset import EngineOptions
from ddptui.config.trial import Trial
from ddptui.doctor.finding import Finding
from ddptui.engines.checks import CHECKS, files_needed, too_few_files
from ddptui.engines.slurm.job import refusal
from ddptui.host.machine import available_cores, cpu_model
from ddptui.host.network import NetworkError, choose_interface
from ddptui.text.words import GB, first_line

ENOUGH_MEMORY_GB = 2  # for two ranks
FEW, MANY = 2, 64  # numbers of ranks for which limits are checked
PIDS_FILES = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids/pids")  # plus .max or .current: cgroups version 2 and 1
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)  # before ddptui existed
LATEST = datetime(2100, 1, 1, tzinfo=UTC)


def machine() -> Iterator[Finding]:
    """Checks Python, the cores and the memory."""
    yield Finding("python", f"{sys.version.split()[0]}, {sys.executable}")
    cores = available_cores()
    remedy = "ranks will share this core, so their times mean little" if cores < FEW else ""
    yield Finding("cores", f"{cores}, {cpu_model()}", remedy)
    free = psutil.virtual_memory().available / GB
    remedy = "two ranks need 2 GB: close other programs" if free < ENOUGH_MEMORY_GB else ""
    yield Finding("memory", f"{free:.1f} GB free", remedy)


def need(name: str, met: str) -> Iterator[Finding]:
    """Checks a requirement that only some trials have. name: its key in CHECKS. met: the finding's text if it is
    met."""
    problem = CHECKS[name].probe(Trial())
    yield Finding(name, problem or met, tried=not problem)


def open_files() -> Iterator[Finding]:
    """Checks the limit of open files, which a launcher reaches first. Like a run, the check raises the limit as far as
    it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few, many = Trial(world_size=FEW), Trial(world_size=MANY)
    text = f"{_limit(soft)} per process, can be raised to {_limit(hard)}; {MANY} ranks need {files_needed(many)}"
    yield Finding("open files", text, too_few_files(few) or too_few_files(many) or "")


def processes() -> Iterator[Finding]:
    """Checks how many more processes and threads the limits of the user and of the container allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    # Linux does not apply this limit to root
    by_user = None if soft == resource.RLIM_INFINITY or os.geteuid() == 0 else soft - _threads_of_user()
    by_group = _room_in_cgroup()
    rooms = [room for room in (by_user, by_group) if room is not None]
    text = f"room for {min(rooms)} more processes and threads" if rooms else "no limit"
    yield Finding("processes", f"{text}; {MANY} ranks need {threads_for(MANY)}", processes_remedy(by_user, by_group))


def threads_for(ranks: int) -> int:
    """The number of processes and threads that a launch of this many ranks needs."""
    return 16 + 10 * ranks  # measured: 71 for 8 ranks


def processes_remedy(by_user: int | None, by_group: int | None) -> str:
    """The remedy if too few processes can be started; empty if there is room. by_user, by_group: how many more the
    limits of the user and of the container allow (None: no limit)."""
    room = min([room for room in (by_user, by_group) if room is not None], default=threads_for(MANY))
    if room >= threads_for(MANY):
        return ""
    who = f"{FEW} ranks need {threads_for(FEW)}" if room < threads_for(FEW) else f"for {MANY} ranks"
    remedy = "raise `ulimit -u`" if room == by_user else "raise the container's limit (docker: --pids-limit)"
    return f"{who}: {remedy}"


def _threads_of_user() -> int:
    user = os.getuid()
    infos = (process.info for process in psutil.process_iter(["uids", "num_threads"]))
    return sum(info["num_threads"] or 0 for info in infos if info["uids"] and info["uids"].real == user)


def _room_in_cgroup() -> int | None:
    for path in PIDS_FILES:
        try:
            most, now = (Path(path + end).read_text(encoding="utf-8").strip() for end in (".max", ".current"))
            return int(most) - int(now)
        except (OSError, ValueError):  # no such file, or it contains `max`, which means no limit
            continue
    return None


def wall_clock() -> Iterator[Finding]:
    """Checks the time of day, by which runs are named."""
    now = datetime.now(UTC)
    yield Finding("time of day", f"{now.astimezone():%Y-%m-%d %H:%M:%S %z}", time_remedy(now))


def time_remedy(now: datetime) -> str:
    """The remedy for an implausible time of day; empty if it is plausible."""
    return "" if EARLIEST <= now < LATEST else "runs are named by it; set the clock: `timedatectl set-ntp true`"


def _limit(limit: int) -> str:
    return "any number" if limit == resource.RLIM_INFINITY else str(limit)


def finest_tick_ns(readings: int = 1000) -> int:
    """The smallest step of `time.monotonic_ns()` over this many readings, in ns; 0: the clock never advanced."""
    times = [time.monotonic_ns() for _ in range(readings)]
    return min((after - before for before, after in pairwise(times) if after > before), default=0)


def interfaces() -> Iterator[Finding]:
    """Lists the network interfaces, and checks a connection over 127.0.0.1, which ranks need."""
    addresses = {
        name: [entry.address for entry in entries if entry.family == socket.AF_INET]
        for name, entries in psutil.net_if_addrs().items()
    }
    listed = ", ".join(f"{name} {' '.join(ipv4)}" for name, ipv4 in addresses.items() if ipv4) or "none"
    try:
        # with a timeout, because a firewall may drop packets silently
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            pass
    except OSError as error:
        why = f"{listed}; no connection over 127.0.0.1: {first_line(error)}"
        yield Finding("interfaces", why, "ranks need it: `ip link set lo up`, or allow it in the firewall", True)
    else:
        yield Finding("interfaces", listed)


def join() -> Iterator[Finding]:
    """Checks whether nodes can join, and at which address of this host."""
    try:
        interface = choose_interface()
    except NetworkError as error:
        yield Finding("join", f"other hosts cannot reach this one: {error}", tried=False)
    else:
        yield Finding("join", f"other hosts reach this one at {interface.address} ({interface.name}): --engine join")


def slurm() -> Iterator[Finding]:
    """Checks whether Slurm jobs can be submitted from here. A machine without Slurm is fine."""
    if shutil.which("sbatch") is None:
        yield Finding("slurm", "no sbatch here, so no jobs can be submitted", tried=False)
        return
    why = refusal(EngineOptions(name="slurm"))
    remedy = "ask the cluster's administrators" if why else ""
    yield Finding("slurm", why or "jobs can be submitted: --engine slurm", remedy)
