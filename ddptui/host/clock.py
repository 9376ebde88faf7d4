"""Which clock this process has."""

import os
import platform
from contextlib import suppress
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
TIME_NAMESPACE = Path("/proc/self/ns/time")  # a container may have a namespace in which the clock is shifted


def own_clock() -> str:
    """The name of this process's monotonic clock. Processes with the same name can compare `time.monotonic_ns()`."""
    try:
        boot = BOOT.read_text("ascii").strip()
    except OSError:
        return platform.node()  # the kernel reveals no boot id: only processes of one host can be told to share a clock
    namespace = 0  # on kernels without time namespaces
    with suppress(OSError):
        namespace = os.stat(TIME_NAMESPACE).st_ino
    return f"{boot}/{namespace}"
