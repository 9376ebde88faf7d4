"""This machine: its cores, clock, processor, GPUs and installed packages, found out without importing torch."""

import os
import platform
import sys
from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import Any

from ddptui import __version__
from ddptui.host import gpus
from ddptui.host.gpus import VISIBLE, Driver, Gpu
from ddptui.text.units import GB
from ddptui.text.words import count

PACKAGES = ("torch", "torchvision", "numpy", "pyzmq", "msgspec", "psutil")
BOOT = Path("/proc/sys/kernel/random/boot_id")
TIME_NAMESPACE = Path("/proc/self/ns/time")  # a container may have a namespace in which the clock is shifted


def available_cores() -> int:
    """How many cores this process, and so its ranks, may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_clock() -> str:
    """The name of this process's monotonic clock: the kernel's boot and the time namespace.

    Processes with the same name can compare their `time.monotonic_ns()`. Where the kernel reveals no boot id, the
    host's name.
    """
    try:
        boot = BOOT.read_text("ascii").strip()
    except OSError:
        return platform.node()
    return f"{boot}/{_inode(TIME_NAMESPACE)}"


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0  # this kernel has no time namespaces


def in_short() -> str:
    """As in "2 cores · no GPU · torch 2.15.0". Where only torch could count the GPUs, they are left out."""
    devices = sum(len(glob(pattern)) for pattern in gpus.DEVICES)
    gpu_count = gpus_in_short(devices, os.environ) if sys.platform == "linux" else ""
    torch = installed("torch")
    parts = [count(available_cores(), "core"), gpu_count, f"torch {torch}" if torch else "no torch"]
    return " · ".join(filter(None, parts))


def gpus_in_short(devices: int, variables: Mapping[str, str]) -> str:
    """As in "2 GPUs", "1 of 2 GPUs", "no GPU": by the device files and the variable that hides GPUs.

    NVML knows more, but waking a sleeping driver may take seconds.
    """
    if not devices:
        return "no GPU"
    visible = variables.get(VISIBLE)
    by_uuid = (visible or "").startswith(("GPU-", "MIG-"))
    seen = min(devices, len((visible or "").split(","))) if by_uuid else len(gpus.seen(visible, [""] * devices))
    return count(devices, "GPU") if seen == devices else f"{seen} of {count(devices, 'GPU')}"


def describe() -> dict[str, Any]:
    """The contents of a run's environment.json: this host, this Python, and the packages that affect figures."""
    import psutil  # here: the ranks that want their cores do not need it

    return {
        "ddptui": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: installed(name) for name in PACKAGES},
        # no more of platform's functions: they start a process, `uname`
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "host": platform.node(),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_before": os.getloadavg()[0],
        **gpus_of(gpus.ask()),
    }


def gpus_of(driver: Driver | None) -> dict[str, Any]:
    """The entries on this host's GPUs, by name and memory, their driver, and the variable that hides some of them."""
    if driver is None or not driver.gpus:
        return {}
    newest_cuda = f" (CUDA {driver.cuda[0]}.{driver.cuda[1]})" if driver.cuda else ""
    return {
        "gpus": [_name_and_memory(gpu) for gpu in driver.gpus],
        "gpu_driver": f"{driver.version}{newest_cuda}",
        "gpus_visible": os.environ.get(VISIBLE),
    }


def _name_and_memory(gpu: Gpu) -> str:
    return f"{gpu.name}, {gpu.total_bytes / GB:.0f} GB" if gpu.total_bytes else gpu.name


def installed(package: str) -> str | None:
    """The version of an installed package; None where it is missing."""
    from importlib.metadata import PackageNotFoundError, version  # here: it takes a tenth of the console's start

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def cpu_model() -> str:
    """The processor's name, as /proc/cpuinfo gives it; elsewhere as Python does."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
