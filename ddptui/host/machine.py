"""Describes this machine without importing torch: cores, limits, GPUs, installed packages, its clock and its
terminal."""

import os
import platform
import re
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any

from ddptui import __version__
from ddptui.host import gpus
from ddptui.host.gpus import VISIBLE, Driver
from ddptui.text.words import GB, count

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


DUMB = ("dumb", "unknown")  # values of TERM for terminals that take plain lines only, such as a shell in Emacs


def is_dumb() -> bool:
    """Whether the terminal takes plain lines only: no escape sequences, no full-screen program."""
    return os.environ.get("TERM") in DUMB


PACKAGES = ("torch", "torchvision", "numpy", "pyzmq", "msgspec", "psutil")
NCCL_PACKAGES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")  # torch's wheels require one of them
OLDEST_TORCH = (2, 8)  # as in pyproject.toml; with an older version, ranks wait for each other forever
OWN_CGROUPS, CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # variables that determine how OpenMP threads wait
# How many times a waiting OpenMP thread checks before it sleeps. GCC's default is 300,000, which takes some ms. While a
# thread spins, it can occupy the core that the awaited thread needs. `benchmarks/spinning.py` compares.
SPINS = "2000"
# How much free memory glibc keeps at the end of the heap, and the size from which a block is mapped outside the heap,
# in bytes. By default glibc returns memory that a step has freed at the end of the heap, and in the next step the
# kernel has to clear new pages. Chance decides for a whole launch whether that happens, and some launches take 1.5
# times as long. `benchmarks/trimming.py` compares.
HEAP = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
TUNABLES = "GLIBC_TUNABLES"
KILLS = "oom_kill "  # prefix of the counter's line, both in the files of cgroups and in /proc/vmstat


def available_cores() -> int:
    """How many cores this process and its ranks may use."""
    # containers and Slurm restrict a process to some of the cores: os.cpu_count() would count all of them
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def openmp_waits(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that determine how OpenMP threads wait in ranks: the user's, or else ours."""
    return {name: environ[name] for name in WAITING if name in environ} or {"GOMP_SPINCOUNT": SPINS}


def heap_limits(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that determine what memory glibc keeps in ranks: the user's, or else ours."""
    own = {name: value for name, value in environ.items() if name in HEAP or (name == TUNABLES and "malloc" in value)}
    return own or HEAP


def steadying(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that make the launches of a trial comparable: `openmp_waits` and `heap_limits`."""
    return openmp_waits(environ) | heap_limits(environ)


def allow_open_files(wanted: int) -> int:
    """Raises this process's limit of open files, which its ranks inherit. Returns the limit, at most `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:  # RLIM_INFINITY is -1 in Python
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS allows less than its hard limit
        return soft
    return most


def oom_kills(own_cgroups: Path = OWN_CGROUPS, cgroups: Path = CGROUPS, machine: Path = VMSTAT) -> int:
    """How many processes the kernel has killed for lack of memory in this process's cgroup, which its ranks share; in
    the whole machine if the cgroup does not count them."""
    # 0 if the machine does not count them either
    files = [machine]
    with suppress(OSError):
        own = own_cgroups.read_text().rpartition("::")[2].strip()  # version 2: one tree for all controllers
        files.insert(0, cgroups / own.lstrip("/") / "memory.events")
    for path in files:
        with suppress(OSError):
            for line in path.read_text().splitlines():
                if line.startswith(KILLS):
                    return int(line.removeprefix(KILLS))
    return 0


def in_short() -> str:
    """One line about this machine: "2 cores · no GPU · torch 2.15.0". GPUs are left out if only torch could count
    them."""
    devices = sum(len(glob(pattern)) for pattern in gpus.DEVICES)
    gpu_count = gpus_in_short(devices, os.environ) if sys.platform == "linux" else ""
    torch = installed("torch")
    parts = [count(available_cores(), "core"), gpu_count, f"torch {torch}" if torch else "no torch"]
    return " · ".join(filter(None, parts))


def gpus_in_short(devices: int, variables: Mapping[str, str]) -> str:
    """The GPUs that ranks can use: "2 GPUs", "1 of 2 GPUs", "no GPU". devices: the number of device files."""
    # NVML would be more exact, but waking a sleeping driver may take seconds
    if not devices:
        return "no GPU"
    visible = variables.get(VISIBLE)
    by_uuid = (visible or "").startswith(("GPU-", "MIG-"))
    seen = min(devices, len((visible or "").split(","))) if by_uuid else len(gpus.seen(visible, [""] * devices))
    return count(devices, "GPU") if seen == devices else f"{seen} of {count(devices, 'GPU')}"


def describe(*, in_console: bool = False) -> dict[str, Any]:
    """The contents of a run's environment.json: this host, this Python, and the packages that affect measurements.
    in_console: whether the console's screens show the run."""
    import psutil  # imported late: ranks import this module, too, and do not need psutil

    driver = gpus.ask(with_links=True)
    has_gpus, nccl = bool(driver and driver.gpus), next(filter(None, map(installed, NCCL_PACKAGES)), None)
    return {
        "ddptui": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: installed(name) for name in PACKAGES} | ({"nccl": nccl} if has_gpus and nccl else {}),
        # no other functions of `platform`: they start a process, `uname`
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "host": platform.node(),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "openmp": " ".join(f"{name}={value}" for name, value in openmp_waits(os.environ).items()),
        "malloc": " ".join(f"{name}={value}" for name, value in heap_limits(os.environ).items()),
        "load_before": os.getloadavg()[0],  # over the last minute: other load distorts measurements
        "watched": "in the console" if in_console else "headless",  # drawing takes CPU time from the ranks
        **gpus_of(driver),
    }


def gpus_of(driver: Driver | None) -> dict[str, Any]:
    """The entries of environment.json about this host's GPUs: names and memory, driver, CUDA_VISIBLE_DEVICES, power
    limits, and what connects the GPUs."""
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
    """The version of an installed package; None if it is missing."""
    from importlib.metadata import PackageNotFoundError, version  # imported late: it takes a tenth of the startup time

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def too_old_torch(version: str | None) -> str:
    """An error if this version of torch is too old; empty if it is not, or if the version is not known."""
    release = re.match(r"(\d+)\.(\d+)", version or "")
    if release is None or tuple(map(int, release.groups())) >= OLDEST_TORCH:
        return ""
    return f"too old: ddptui needs {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or newer"


def cpu_model() -> str:
    """The processor's name from /proc/cpuinfo, or else from Python's platform module."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()  # on Arm, cpuinfo has no such line
