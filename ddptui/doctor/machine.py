"""What the console can see of this machine by itself: cores, memory, the loopback interface, limits, the time."""

import os
import resource
import socket
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import psutil

from ddptui.doctor.finding import Finding
from ddptui.engines.preflight_machine import no_compiler
from ddptui.host.machine import available_cores, cpu_model
from ddptui.text.printable import first_line
from ddptui.text.units import GB

ENOUGH_MEMORY_GB = 2  # for two ranks
FEW, MANY = 2, 64  # ranks that limits are set against
MANY_S_NOFILE = 4096
PIDS_FILES = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids/pids")  # of cgroups, version 2 and 1: .max and .current
WRITTEN = datetime(2025, 1, 1, tzinfo=UTC)  # this was, or later
FAR_OFF = datetime(2100, 1, 1, tzinfo=UTC)
KEPT_TIME = "set the clock: `timedatectl set-ntp true`"


def machine() -> Iterator[Finding]:
    yield Finding("python", f"{sys.version.split()[0]}, {sys.executable}")
    cores = available_cores()
    yield Finding("cores", f"{cores}, {cpu_model()}", "ranks will share one: times mean little" if cores < FEW else "")
    free = psutil.virtual_memory().available / GB
    remedy = "two ranks want 2 GB: end other programs" if free < ENOUGH_MEMORY_GB else ""
    yield Finding("memory", f"{free:.1f} GB free", remedy)


def compiler() -> Iterator[Finding]:
    """Only torch.compile wants one: a machine without is no worse for it otherwise."""
    lacking = no_compiler(os.environ)
    yield Finding("compiler", lacking or "there is one for C++: compile = true may be had", tried=not lacking)


def interfaces() -> Iterator[Finding]:
    """Whoever listens at 127.0.0.1 must be heard there; ranks of one host meet so."""
    addresses = {
        name: [entry.address for entry in entries if entry.family == socket.AF_INET]
        for name, entries in psutil.net_if_addrs().items()
    }
    found = ", ".join(f"{name} {' '.join(own)}" for name, own in addresses.items() if own) or "none"
    try:
        _talk_to_ourselves()
    except OSError as error:
        why = f"{found}; nobody is heard at 127.0.0.1: {first_line(error)}"
        yield Finding("interfaces", why, "ranks meet there: `ip link set lo up`, or let the firewall pass it", True)
    else:
        yield Finding("interfaces", found)


def _talk_to_ourselves() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        with socket.create_connection(server.getsockname(), timeout=5) as here:
            there, _ = server.accept()
            with there:
                here.sendall(b"?")
                there.settimeout(5)
                there.recv(1)


def open_files() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{_spelled(soft)} a process, up to {_spelled(hard)} for the asking; {MANY} ranks want {files_for(MANY)}"
    yield Finding("open files", found, files_remedy(soft, hard))


def files_for(ranks: int) -> int:
    """What the launcher of so many ranks has open at most: 16, and 3 a rank, were counted with 8; and some to spare."""
    return 32 + 4 * ranks


def files_remedy(soft: int, hard: int) -> str:
    """What to do about a limit of open files; nothing where it suffices."""
    if soft == resource.RLIM_INFINITY or soft >= files_for(MANY):
        return ""
    who = f"{FEW} ranks want {files_for(FEW)}" if soft < files_for(FEW) else f"for {MANY} ranks"
    if hard == resource.RLIM_INFINITY or hard >= files_for(MANY):
        most = MANY_S_NOFILE if hard == resource.RLIM_INFINITY else min(MANY_S_NOFILE, hard)
        return f"{who}: `ulimit -n {most}`"
    return f"{who}: raise `nofile` in /etc/security/limits.conf (a container: --ulimit nofile={MANY_S_NOFILE})"


def processes() -> Iterator[Finding]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    by_user = None if soft == resource.RLIM_INFINITY or os.geteuid() == 0 else soft - _threads_of_ours()
    by_group = _room_in_cgroup()
    rooms = [room for room in (by_user, by_group) if room is not None]
    found = f"room for {min(rooms)} more, threads counted" if rooms else "no limit"
    yield Finding("processes", f"{found}; {MANY} ranks want {threads_for(MANY)}", processes_remedy(by_user, by_group))


def threads_for(ranks: int) -> int:
    """Processes and threads of so many ranks: 71 were counted with 8."""
    return 16 + 10 * ranks


def processes_remedy(by_user: int | None, by_group: int | None) -> str:
    """What to do where there is too little room for more processes (none: there is no such limit)."""
    room = min([room for room in (by_user, by_group) if room is not None], default=threads_for(MANY))
    if room >= threads_for(MANY):
        return ""
    who = f"{FEW} ranks want {threads_for(FEW)}" if room < threads_for(FEW) else f"for {MANY} ranks"
    mended = "raise `ulimit -u`" if room == by_user else "raise the container's limit (docker: --pids-limit)"
    return f"{who}: {mended}"


def _threads_of_ours() -> int:
    ours = os.getuid()
    every = psutil.process_iter(["uids", "num_threads"])
    return sum(one.info["num_threads"] or 0 for one in every if one.info["uids"] and one.info["uids"].real == ours)


def _room_in_cgroup() -> int | None:
    for path in PIDS_FILES:
        try:
            most, now = (Path(path + end).read_text(encoding="utf-8").strip() for end in (".max", ".current"))
            return int(most) - int(now)
        except (OSError, ValueError):  # not there; or `max`: no limit
            continue
    return None


def wall_clock() -> Iterator[Finding]:
    now = datetime.now(UTC)
    found = f"{now.astimezone():%Y-%m-%d %H:%M:%S %z}"
    yield Finding("time of day", found, time_remedy(now))


def time_remedy(now: datetime) -> str:
    """What to do about a time that cannot be. Runs are named by it."""
    return "" if WRITTEN <= now < FAR_OFF else f"runs are named by it; {KEPT_TIME}"


def _spelled(limit: int) -> str:
    return "any number" if limit == resource.RLIM_INFINITY else str(limit)


def finest_tick_ns(readings: int = 1000) -> int:
    """The smallest step that `time.monotonic_ns()` was seen to make; 0: it made none."""
    times = [time.monotonic_ns() for _ in range(readings)]
    return min((after - before for before, after in pairwise(times) if after > before), default=0)
