"""How many cores the ranks on this host may use."""

import os


def available_cores() -> int:
    """How many cores this process, and so its ranks, may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
