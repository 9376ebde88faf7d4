"""Measures a rank's process and its GPU for heartbeats. GPU figures come from NVML, the library of nvidia-smi."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import psutil

from ddptui.host.gpus import MJ_PER_J, MW_PER_W, answer, is_held_back
from ddptui.wire.messages import Gpu, LoaderWorker

LOADER_WORKER = "pt_data_worker"  # torch/utils/data/_utils/worker.py names its thread so
ENDED = psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD
MOST_CHILDREN, MOST_WORKERS = 1_000, 256
UUID_PREFIXES = ("GPU", "MIG")  # NVML's prefix of the UUID of a whole GPU, or of a part of one


class GpuMeter:
    """Reads the load of one GPU, by all processes. A reading may take milliseconds: too long for the training loop."""

    def __init__(self, uuid: Callable[[], str | None] = lambda: None) -> None:
        """uuid: returns the GPU's UUID without NVML's prefix, or None if there is no GPU or CUDA does not provide
        it."""
        self._uuid = uuid

    @cached_property
    def _handle(self) -> Any:
        uuid = self._uuid()
        return None if uuid is None or nvml() is None else find_handle(uuid)

    def read(self) -> Gpu | None:
        """The GPU's figures; None if the device is not a GPU, or NVML is missing or does not know it."""
        if self._handle is not None:
            with suppress(Exception):  # a GPU may be lost, and a missing figure must never end the rank
                return figures(nvml(), self._handle)
        return None


class ProcessMeter:
    """Measures the CPU and memory use of a process on this host."""

    def __init__(self, pid: int | None = None) -> None:
        """pid: None for this process."""
        self._process: psutil.Process | None = None
        with suppress(psutil.Error):  # it has ended
            self._process = psutil.Process(pid)
        self.cpu_percent()  # begins to count

    def cpu_percent(self) -> float:
        """The CPU use of all threads of the process since the last call, in percent of one core; 0 once it has
        ended."""
        with suppress(psutil.Error):
            return self._process.cpu_percent() if self._process is not None else 0.0
        return 0.0

    def rss_bytes(self) -> int:
        """The present resident memory of the process in bytes; 0 once it has ended."""
        with suppress(psutil.Error):
            return self._process.memory_info().rss if self._process is not None else 0
        return 0

    def is_alive(self) -> bool:
        """Whether the process runs, and is no zombie."""
        with suppress(psutil.Error):
            return self._process is not None and self._process.status() not in ENDED
        return False


class LoaderMeter:
    """Looks at the DataLoader workers of a process, from outside: they are its children with the name that torch gives
    them. On other systems than Linux, none are found."""

    def __init__(self, pid: int | None = None) -> None:
        """pid: None for this process."""
        self._pid = pid or os.getpid()
        self._meters: dict[int, ProcessMeter] = {}

    def read(self) -> tuple[LoaderWorker, ...]:
        """The workers that run now."""
        tasks = Path(f"/proc/{self._pid}/task")
        try:
            children = [pid for file in tasks.glob("*/children") for pid in map(int, file.read_text().split())]
        except OSError:
            return ()
        states = {pid: state for pid in children[:MOST_CHILDREN] if (state := worker_state(pid))}
        known = {pid: meter for pid, meter in self._meters.items() if pid in states}
        new = [pid for pid in states if pid not in known][: MOST_WORKERS - len(known)]
        self._meters = known | {pid: ProcessMeter(pid) for pid in new}  # of these, the next call knows the CPU time
        return tuple(LoaderWorker(meter.cpu_percent(), states[pid]) for pid, meter in known.items())


def worker_state(pid: int) -> Literal["running", "disk", "asleep"] | None:
    """What a DataLoader worker does; None if the process has ended, or is no worker."""
    try:
        process = psutil.Process(pid)
        name, status = process.name(), process.status()
    except psutil.Error:
        return None
    if name != LOADER_WORKER or status in ENDED:
        return None
    return "running" if status == psutil.STATUS_RUNNING else "disk" if status == psutil.STATUS_DISK_SLEEP else "asleep"


@cache
def nvml() -> Any:
    """pynvml, initialized once in this process; None if there is no driver."""
    try:
        import pynvml  # here, since it is only needed with a GPU

        pynvml.nvmlInit()
    except Exception:
        return None
    return pynvml


def find_handle(uuid: str) -> Any:
    """NVML's handle of the GPU with this UUID (without NVML's prefix); None if NVML does not know it."""
    # By UUID, since NVML numbers GPUs in a different order than CUDA, and counts those that CUDA_VISIBLE_DEVICES hides.
    handles = (answer(nvml(), "nvmlDeviceGetHandleByUUID", f"{kind}-{uuid}") for kind in UUID_PREFIXES)
    return next((handle for handle in handles if handle is not None), None)


def figures(nvml: Any, handle: Any) -> Gpu:
    """Load, memory, power, temperature, clock and energy of a GPU; each is None if NVML does not provide it."""
    rates = answer(nvml, "nvmlDeviceGetUtilizationRates", handle)
    memory = answer(nvml, "nvmlDeviceGetMemoryInfo", handle)
    milliwatts = answer(nvml, "nvmlDeviceGetPowerUsage", handle)
    millijoules = answer(nvml, "nvmlDeviceGetTotalEnergyConsumption", handle)
    return Gpu(
        busy_percent=rates and rates.gpu,
        used_bytes=memory and memory.used,
        total_bytes=memory and memory.total,
        watts=milliwatts and milliwatts / MW_PER_W,
        celsius=answer(nvml, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
        sm_mhz=answer(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
        held_back=is_held_back(nvml, handle),
        joules=millijoules and millijoules / MJ_PER_J,
    )
