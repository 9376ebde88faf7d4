"""Measures a rank's process and its GPU for heartbeats. GPU figures come from NVML, the library of nvidia-smi."""

import os
import resource
import time
from collections.abc import Callable
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from ddptui.host.gpus import MJ_PER_J, MW_PER_W, answer, is_held_back
from ddptui.wire.messages import Gpu, Heartbeat, LoaderWorker, Position, Stack

T = TypeVar("T")
LOADER_WORKER = "pt_data_worker"  # torch/utils/data/_utils/worker.py names its thread so
MOST_CHILDREN, MOST_WORKERS = 1_000, 256
UUID_PREFIXES = ("GPU", "MIG")  # NVML's prefix of the UUID of a whole GPU, or of a part of one


class GpuMemory(NamedTuple):
    """The GPU memory in bytes that torch holds in a process; None on the CPU."""

    used: int | None = None  # in use by tensors
    reserved: int | None = None  # reserved by torch, used or not


class GpuMeter:
    """Reads the load of one GPU, by all processes. A reading may take milliseconds: too long for the training loop."""

    def __init__(
        self, uuid: Callable[[], str | None] = lambda: None, memory: Callable[[], GpuMemory] = GpuMemory
    ) -> None:
        """uuid: returns the GPU's UUID without NVML's prefix, or None if there is no GPU or CUDA does not provide it.
        memory: returns the memory of the rank's process."""
        self._uuid, self.memory = uuid, memory

    @cached_property
    def _handle(self) -> Any:
        uuid = self._uuid()
        return None if uuid is None or nvml() is None else find_handle(uuid)

    def read(self) -> Gpu | None:
        """The GPU's figures; None if the device is not a GPU, or NVML is missing or does not know it."""
        return value_or_none(partial(figures, nvml(), self._handle)) if self._handle is not None else None


class ProcessMeter:
    """Measures the CPU and memory use of a process on this host, with the standard library alone: psutil may be missing
    in the training's environment."""

    def __init__(self, pid: int | None = None) -> None:
        """pid: None for this process."""
        self._pid = pid
        self._before_s = time.monotonic(), self._used_s()

    def cpu_percent(self) -> float:
        """The CPU use of all threads of the process since the last call, in percent of one core."""
        before_s, used_s = self._before_s
        self._before_s = now_s, now_used_s = time.monotonic(), self._used_s()
        return 100 * max(0.0, now_used_s - used_s) / max(now_s - before_s, 1e-9)

    def _used_s(self) -> float:
        """The CPU time of all threads of the process so far, in s; 0 once the process has ended."""
        if self._pid is None:
            return time.process_time()
        try:  # proc(5): utime and stime are fields 14 and 15; field 2, the name, may contain spaces
            fields = Path(f"/proc/{self._pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return 0.0

    def rss_bytes(self) -> int:
        """The present resident memory of the process in bytes; on other systems than Linux, its peak."""
        try:
            return int(Path(f"/proc/{self._pid or 'self'}/statm").read_text().split()[1]) * resource.getpagesize()
        except OSError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if self._pid is None else 0  # in bytes on macOS


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
        states = {pid: state for pid in children[:MOST_CHILDREN] if (state := self._state(pid))}
        known = {pid: meter for pid, meter in self._meters.items() if pid in states}
        new = [pid for pid in states if pid not in known][: MOST_WORKERS - len(known)]
        self._meters = known | {pid: ProcessMeter(pid) for pid in new}  # of these, the next call knows the CPU time
        return tuple(LoaderWorker(meter.cpu_percent(), states[pid]) for pid, meter in known.items())

    def _state(self, pid: int) -> Literal["running", "disk", "asleep"] | None:
        try:
            name, _, fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").partition("(")[2].rpartition(")")
        except OSError:
            return None
        state = fields.split()[0] if fields.split() else "Z"
        if name != LOADER_WORKER or state in "ZX":
            return None
        return "running" if state == "R" else "disk" if state == "D" else "asleep"


def heartbeat(
    rank: int,
    process: ProcessMeter,
    loaders: LoaderMeter,
    meter: GpuMeter,
    dropped: int,
    position: Position,
    stack: Stack = (),
) -> Heartbeat:
    """A rank's heartbeat. dropped: the number of messages for which its queue had no room."""
    memory = meter.memory()
    return Heartbeat(
        rank=rank,
        at_ns=time.monotonic_ns(),
        cpu_percent=process.cpu_percent(),
        rss_bytes=process.rss_bytes(),
        gpu_bytes=memory.used,
        gpu_reserved_bytes=memory.reserved,
        gpu=meter.read(),
        dropped=dropped,
        position=position,
        stack=stack,
        loaders=loaders.read(),
    )


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


def value_or_none(read: Callable[[], T]) -> T | None:
    """The result of `read`, or None if it fails."""
    try:
        return read()
    except Exception:  # a GPU may be lost, and a missing figure must never end the rank
        return None
