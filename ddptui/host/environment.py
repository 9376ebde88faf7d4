"""What a run was made on: for environment.json, so that figures can be read later. torch is not imported for it."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from ddptui import __version__
from ddptui.host import gpus
from ddptui.host.cores import available_cores
from ddptui.host.gpus import VISIBLE, Driver, Gpu

GB = 2**30
PACKAGES = ("torch", "torchvision", "numpy", "pyzmq", "msgspec", "psutil")


def describe() -> dict[str, Any]:
    """This host, this Python, and the packages that matter."""
    return {
        "ddptui": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: installed(name) for name in PACKAGES},
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",  # no more: that starts `uname`
        "host": platform.node(),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_before": os.getloadavg()[0],
        **gpus_of(gpus.ask()),
    }


def gpus_of(driver: Driver | None) -> dict[str, Any]:
    """This host's GPUs, if there are any, whoever uses them: by name and memory, their driver, and which are hidden."""
    if driver is None or not driver.gpus:
        return {}
    knows = f" (CUDA {driver.cuda[0]}.{driver.cuda[1]})" if driver.cuda else ""
    return {
        "gpus": [_in_short(gpu) for gpu in driver.gpus],
        "gpu_driver": f"{driver.version}{knows}",
        "gpus_visible": os.environ.get(VISIBLE),
    }


def _in_short(gpu: Gpu) -> str:
    return f"{gpu.name}, {gpu.total_bytes / GB:.0f} GB" if gpu.total_bytes else gpu.name


def installed(package: str) -> str | None:
    """The version of a package; None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()
