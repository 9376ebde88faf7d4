"""Limits of this host: open files, and memory, as far as the kernel counts out-of-memory kills."""

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def allow_open_files(wanted: int) -> int:
    """Raise this process's limit, which its ranks inherit, to `wanted`, or as far as that is allowed. Returns how many
    of them it may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS allows less than it says
        return soft
    return most


COUNTER = "oom_kill "
OF_MACHINE = Path("/proc/vmstat")
CGROUPS = Path("/sys/fs/cgroup")


def kills(own_cgroups: Path = Path("/proc/self/cgroup"), cgroups: Path = CGROUPS, machine: Path = OF_MACHINE) -> int:
    """How many processes of this one's cgroup, which its ranks are in, too, have been killed for that; of the machine,
    where the cgroup does not say; 0 where nobody does."""
    for path in (*_of_cgroup(own_cgroups, cgroups), machine):
        with suppress(OSError):
            for line in path.read_text().splitlines():
                if line.startswith(COUNTER):
                    return int(line.removeprefix(COUNTER))
    return 0


def _of_cgroup(own: Path, cgroups: Path) -> Iterator[Path]:
    """Where a cgroup counts. A line of `own` is number:controllers:path; in version 2 it names no controllers."""
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                yield cgroups / "memory" / path.lstrip("/") / "memory.oom_control"
            elif not controllers:
                yield cgroups / path.lstrip("/") / "memory.events"
