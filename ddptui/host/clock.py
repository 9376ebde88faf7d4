"""Identifies the clock of this process."""

import os
import platform
from contextlib import suppress
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
TIME_NAMESPACE = Path("/proc/self/ns/time")  # the clock may be shifted in a container's own time namespace


def own_clock() -> str:
    """The name of this process's monotonic clock. Processes with the same name can compare `time.monotonic_ns()`."""
    try:
        boot = BOOT.read_text("ascii").strip()
    except OSError:
        return platform.node()  # without a boot id, the host's name has to do
    namespace = 0  # on kernels without time namespaces
    with suppress(OSError):
        namespace = os.stat(TIME_NAMESPACE).st_ino
    return f"{boot}/{namespace}"
