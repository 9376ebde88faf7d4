"""This machine: its cores, clock, limits, GPUs and installed packages, found out without importing torch."""

import os
import platform
import re
import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any

from ddptui import __version__
from ddptui.host import gpus
from ddptui.host.gpus import VISIBLE, Driver
from ddptui.text.units import GB
from ddptui.text.words import count

PACKAGES = ("torch", "torchvision", "numpy", "pyzmq", "msgspec", "psutil")
NCCL_PACKAGES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")  # of which torch's wheels require one
OLDEST_TORCH = (2, 8)  # as in pyproject.toml; of an older one, ranks wait for each other in vain
OWN_CGROUPS, CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # variables that say how OpenMP's threads wait
# How often a thread looks before it sleeps. GCC's OpenMP looks 300,000 times, for some ms: where another process wants
# the core that the awaited thread is to run on, both threads then stand still. `benchmarks/spinning.py` compares.
SPINS = "2000"
# How much free memory glibc keeps at the end of the heap, and from which size on a block is outside the heap, in bytes.
# By default glibc gives back what a step has freed, if it lies at the end; then the kernel clears new pages in the next
# step. Where it lies is chance, for a whole launch: some take half as long again. `benchmarks/trimming.py` compares.
HEAP = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
TUNABLES = "GLIBC_TUNABLES"
KILLS = "oom_kill "  # begins the line of the kernel's counter, in the files of cgroups and of the machine alike


def available_cores() -> int:
    """How many cores this process, and so its ranks, may use."""
    # containers and Slurm leave a process some of the cores: os.cpu_count() would count all of them
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def openmp_waits(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that say how OpenMP's threads wait in ranks: the user's own, or ours."""
    return {name: environ[name] for name in WAITING if name in environ} or {"GOMP_SPINCOUNT": SPINS}


def heap_limits(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that say what memory glibc keeps in ranks: the user's own, or ours."""
    own = {name: value for name, value in environ.items() if name in HEAP or (name == TUNABLES and "malloc" in value)}
    return own or HEAP


def steadying(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with which ranks do alike in each launch."""
    return openmp_waits(environ) | heap_limits(environ)


def allow_open_files(wanted: int) -> int:
    """Raises this process's limit of open files, which its ranks inherit. Returns how many of `wanted` may be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:  # RLIM_INFINITY is -1 in Python: no comparison covers it
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS allows less than its hard limit
        return soft
    return most


def oom_kills(own_cgroups: Path = OWN_CGROUPS, cgroups: Path = CGROUPS, machine: Path = VMSTAT) -> int:
    """How many processes the kernel has killed for lack of memory in this process's cgroup, which its ranks share."""
    # of the whole machine, where the cgroup does not count them; 0 where nothing counts them
    for path in (*_memory_files(own_cgroups, cgroups), machine):
        with suppress(OSError):
            for line in path.read_text().splitlines():
                if line.startswith(KILLS):
                    return int(line.removeprefix(KILLS))
    return 0


def _memory_files(own_cgroups: Path, cgroups: Path) -> Iterator[Path]:
    with suppress(OSError):
        for line in own_cgroups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)  # number:controllers:path
            if "memory" in controllers.split(","):
                yield cgroups / "memory" / path.lstrip("/") / "memory.oom_control"
            elif not controllers:  # version 2: one tree for all controllers
                yield cgroups / path.lstrip("/") / "memory.events"


def in_short() -> str:
    """As in "2 cores · no GPU · torch 2.15.0". Where only torch could count the GPUs, they are left out."""
    devices = sum(len(glob(pattern)) for pattern in gpus.DEVICES)
    gpu_count = gpus_in_short(devices, os.environ) if sys.platform == "linux" else ""
    torch = installed("torch")
    parts = [count(available_cores(), "core"), gpu_count, f"torch {torch}" if torch else "no torch"]
    return " · ".join(filter(None, parts))


def gpus_in_short(devices: int, variables: Mapping[str, str]) -> str:
    """As in "2 GPUs", "1 of 2 GPUs", "no GPU": by the device files and the variable that hides GPUs."""
    # NVML knows more, but waking a sleeping driver may take seconds
    if not devices:
        return "no GPU"
    visible = variables.get(VISIBLE)
    by_uuid = (visible or "").startswith(("GPU-", "MIG-"))
    seen = min(devices, len((visible or "").split(","))) if by_uuid else len(gpus.seen(visible, [""] * devices))
    return count(devices, "GPU") if seen == devices else f"{seen} of {count(devices, 'GPU')}"


def describe(*, in_console: bool = False) -> dict[str, Any]:
    """The contents of a run's environment.json: this host, this Python, and the packages that affect figures.
    in_console: whether the console's screens show the run."""
    import psutil  # here: the ranks that want their cores do not need it

    driver = gpus.ask(with_links=True)
    has_gpus, nccl = bool(driver and driver.gpus), next(filter(None, map(installed, NCCL_PACKAGES)), None)
    return {
        "ddptui": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: installed(name) for name in PACKAGES} | ({"nccl": nccl} if has_gpus and nccl else {}),
        # no more of platform's functions: they start a process, `uname`
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "host": platform.node(),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "openmp": " ".join(f"{name}={value}" for name, value in openmp_waits(os.environ).items()),
        "malloc": " ".join(f"{name}={value}" for name, value in heap_limits(os.environ).items()),
        "load_before": os.getloadavg()[0],  # of the last minute: what else the machine does distorts figures
        "watched": "in the console" if in_console else "headless",  # drawing takes time from the ranks
        **gpus_of(driver),
    }


def gpus_of(driver: Driver | None) -> dict[str, Any]:
    """The entries on this host's GPUs, by name and memory, their driver, the variable that hides some of them, their
    power limits, and what connects them."""
    if driver is None or not driver.gpus:
        return {}
    where_known: dict[str, list[Any]] = {
        "gpu_power_limit_w": [gpu.power_limit_w for gpu in driver.gpus],
        "gpu_default_power_limit_w": [gpu.default_power_limit_w for gpu in driver.gpus],
        "gpu_links": [*driver.links],
    }
    newest_cuda = f" (CUDA {driver.cuda[0]}.{driver.cuda[1]})" if driver.cuda else ""
    return {
        "gpus": [f"{gpu.name}, {gpu.total_bytes / GB:.0f} GB" if gpu.total_bytes else gpu.name for gpu in driver.gpus],
        "gpu_driver": f"{driver.version}{newest_cuda}",
        "gpus_visible": os.environ.get(VISIBLE),
        **{key: entry for key, entry in where_known.items() if any(value is not None for value in entry)},
    }


def installed(package: str) -> str | None:
    """The version of an installed package; None where it is missing."""
    from importlib.metadata import PackageNotFoundError, version  # here: it takes a tenth of the console's start

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def too_old_torch(version: str | None) -> str:
    """What is wrong with this version of torch; empty: nothing, or it cannot be told."""
    release = re.match(r"(\d+)\.(\d+)", version or "")
    if release is None or tuple(map(int, release.groups())) >= OLDEST_TORCH:
        return ""
    return f"too old: ddptui needs {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or newer"


def cpu_model() -> str:
    """The processor's name, as /proc/cpuinfo gives it; elsewhere as Python does."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()  # Arm's cpuinfo has no such line
