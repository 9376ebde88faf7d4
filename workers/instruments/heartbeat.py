"""How a rank's process and its GPU are doing: heartbeats, and the figures of NVML, the library of nvidia-smi."""

import os
import resource
import time
from collections.abc import Callable
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ddptui.host.gpus import MJ_PER_J, MW_PER_W, answer, is_held_back
from ddptui.wire.messages import Gpu, Heartbeat, Position

T = TypeVar("T")
UUID_PREFIXES = ("GPU", "MIG")  # NVML puts one before a UUID: a whole GPU, or a part of one


class GpuMemory(NamedTuple):
    """The GPU memory in bytes that torch has for a process; None on the CPU."""

    used: int | None = None  # by tensors
    reserved: int | None = None  # used or not


class GpuMeter:
    """Reads what one GPU is doing, whichever process uses it. A reading may take ms, too long for the training loop."""

    def __init__(
        self, uuid: Callable[[], str | None] = lambda: None, memory: Callable[[], GpuMemory] = GpuMemory
    ) -> None:
        """uuid: without NVML's prefix; None: there is no GPU, or CUDA does not tell. memory: of the rank's process."""
        self._uuid, self.memory = uuid, memory

    @cached_property
    def _handle(self) -> Any:
        uuid = self._uuid()
        return None if uuid is None or nvml() is None else find_handle(uuid)

    def read(self) -> Gpu | None:
        """The GPU's figures. None: the device is no GPU, or there is no NVML that knows it."""
        return value_or_none(partial(figures, nvml(), self._handle)) if self._handle is not None else None


class ProcessMeter:
    """Reads how busy a process of this host is, with the standard library alone: psutil may be missing where ranks
    run."""

    def __init__(self, pid: int | None = None) -> None:
        """pid: None: this process."""
        self._pid = pid
        self._before_s = time.monotonic(), self._used_s()

    def cpu_percent(self) -> float:
        """The share of one core, in per cent, that all its threads have used since the last call."""
        before_s, used_s = self._before_s
        self._before_s = now_s, now_used_s = time.monotonic(), self._used_s()
        return 100 * max(0.0, now_used_s - used_s) / max(now_s - before_s, 1e-9)

    def _used_s(self) -> float:
        """The CPU time of all its threads so far, in s; 0 once it has ended."""
        if self._pid is None:
            return time.process_time()
        try:  # proc(5): after the name, which may have spaces; utime and stime are the fields 14 and 15
            fields = Path(f"/proc/{self._pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return 0.0

    def rss_bytes(self) -> int:
        """The memory that it takes right now, in bytes; elsewhere than on Linux, the most that it has taken."""
        try:
            return int(Path(f"/proc/{self._pid or 'self'}/statm").read_text().split()[1]) * resource.getpagesize()
        except OSError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if self._pid is None else 0  # in bytes on macOS


def heartbeat(rank: int, process: ProcessMeter, meter: GpuMeter, dropped: int, position: Position) -> Heartbeat:
    """A rank's heartbeat. dropped: messages that its queue had no room for."""
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
    )


@cache
def nvml() -> Any:
    """pynvml, started once in this process; None where there is no driver."""
    try:
        import pynvml  # only where there is a GPU

        pynvml.nvmlInit()
    except Exception:
        return None
    return pynvml


def find_handle(uuid: str) -> Any:
    """NVML's handle of a GPU, by its UUID without NVML's prefix; None where it knows no such GPU."""
    # NVML numbers GPUs in another order than CUDA, and counts those that CUDA_VISIBLE_DEVICES hides.
    handles = (answer(nvml(), "nvmlDeviceGetHandleByUUID", f"{kind}-{uuid}") for kind in UUID_PREFIXES)
    return next((handle for handle in handles if handle is not None), None)


def figures(nvml: Any, handle: Any) -> Gpu:
    """Load, memory, power, temperature, clock and energy of a GPU; each is None where NVML does not give it."""
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
    """What `read` returns; None where it fails."""
    try:
        return read()
    except Exception:  # a GPU may be lost, and a missing figure must never end the rank
        return None
