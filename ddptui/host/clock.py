"""Which clock a process tells the time by: two that name the same one can compare their `time.monotonic_ns()`."""

import os
import platform
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
TIME_NAMESPACE = Path("/proc/self/ns/time")  # such a namespace may shift the clock


def own_clock() -> str:
    """The boot of the kernel, and the time namespace in it; where the system does not tell them, the host's name."""
    try:
        boot = BOOT.read_text("ascii").strip()
    except OSError:
        return platform.node()
    return f"{boot}/{_inode(TIME_NAMESPACE)}"


def _inode(path: Path) -> int:
    """0: this kernel has no such namespaces."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
