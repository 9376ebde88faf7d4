"""Limits of this host: open files, and the kernel's count of processes that it killed for lack of memory."""

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def allow_open_files(wanted: int) -> int:
    """Raises this process's limit of open files, which its ranks inherit, to `wanted` if that is allowed.

    Returns how many of `wanted` may be open.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS allows less than its hard limit
        return soft
    return most


COUNTER = "oom_kill "
OF_MACHINE = Path("/proc/vmstat")
CGROUPS = Path("/sys/fs/cgroup")


def kills(own_cgroups: Path = Path("/proc/self/cgroup"), cgroups: Path = CGROUPS, machine: Path = OF_MACHINE) -> int:
    """How many processes the kernel has killed for lack of memory in this process's cgroup, which its ranks share.

    Of the whole machine, where the cgroup does not count them; 0 where nothing counts them.
    """
    for path in (*_of_cgroup(own_cgroups, cgroups), machine):
        with suppress(OSError):
            for line in path.read_text().splitlines():
                if line.startswith(COUNTER):
                    return int(line.removeprefix(COUNTER))
    return 0


def _of_cgroup(own: Path, cgroups: Path) -> Iterator[Path]:
    """The files in which a cgroup counts. A line of `own` is number:controllers:path; version 2 has no controllers."""
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                yield cgroups / "memory" / path.lstrip("/") / "memory.oom_control"
            elif not controllers:
                yield cgroups / path.lstrip("/") / "memory.events"
