"""How a rank's process and its GPU are doing: heartbeats, and the figures of NVML, the library of nvidia-smi."""

import resource
import time
from collections.abc import Callable
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from ddptui.host.nvml import MJ_PER_J, MW_PER_W, answer, clock_reasons, reasons_in_words
from ddptui.wire.messages import Gpu, Heartbeat, Position

T = TypeVar("T")
UUID_PREFIXES = ("GPU", "MIG")  # NVML puts one before a UUID: a whole GPU, or a part of one


class GpuMeter:
    """Reads what one GPU is doing, whichever process uses it. A reading may take ms, too long for the training loop."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @cached_property
    def _handle(self) -> Any:
        return find_handle(self.device)

    def read(self) -> Gpu | None:
        """The GPU's figures. None: the device is no GPU, or there is no NVML that knows it."""
        return value_or_none(partial(figures, nvml(), self._handle)) if self._handle is not None else None


class ProcessMeter:
    """Reads how busy this process is, with the standard library alone: psutil may be missing where ranks run."""

    def __init__(self) -> None:
        self._before_s = time.monotonic(), time.process_time()

    def cpu_percent(self) -> float:
        """The share of one core, in per cent, that all its threads have used since the last call."""
        before_s, used_s = self._before_s
        self._before_s = now_s, now_used_s = time.monotonic(), time.process_time()
        return 100 * (now_used_s - used_s) / max(now_s - before_s, 1e-9)

    @staticmethod
    def rss_bytes() -> int:
        """The memory that it takes right now, in bytes; elsewhere than on Linux, the most that it has taken."""
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()  # proc(5)
        except OSError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS has it in bytes


def heartbeat(rank: int, process: ProcessMeter, meter: GpuMeter, dropped: int, position: Position) -> Heartbeat:
    """A rank's heartbeat. dropped: messages that its queue had no room for."""
    return Heartbeat(
        rank=rank,
        at_ns=time.monotonic_ns(),
        cpu_percent=process.cpu_percent(),
        rss_bytes=process.rss_bytes(),
        gpu_bytes=used_bytes(meter.device),
        gpu_reserved_bytes=reserved_bytes(meter.device),
        gpu=meter.read(),
        dropped=dropped,
        position=position,
    )


def used_bytes(device: torch.device) -> int | None:
    """The GPU memory in bytes that this process's tensors take; None on the CPU."""
    # The device by name: each thread has a current one of its own, and the reporter's could be the first GPU.
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else None


def reserved_bytes(device: torch.device) -> int | None:
    """The GPU memory in bytes that torch holds for them, used or not; None on the CPU."""
    return torch.cuda.memory_reserved(device) if device.type == "cuda" else None


def peak_bytes(device: torch.device) -> int | None:
    """The most GPU memory in bytes that this process's tensors have taken so far; None on the CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def peak_reserved_bytes(device: torch.device) -> int | None:
    """The most GPU memory in bytes that torch has held for them so far; None on the CPU."""
    return torch.cuda.max_memory_reserved(device) if device.type == "cuda" else None


@cache
def nvml() -> Any:
    """pynvml, started once in this process; None where there is no driver."""
    try:
        import pynvml  # only where there is a GPU

        pynvml.nvmlInit()
    except Exception:
        return None
    return pynvml


def find_handle(device: torch.device) -> Any:
    """NVML's handle of a device, None where it knows no such GPU."""
    if device.type != "cuda" or nvml() is None:
        return None
    # By its UUID: NVML numbers GPUs in another order than CUDA, and counts those that CUDA_VISIBLE_DEVICES hides.
    uuid = uuid_of(device)
    handles = (answer(nvml(), "nvmlDeviceGetHandleByUUID", f"{kind}-{uuid}") for kind in UUID_PREFIXES)
    return next((handle for handle in handles if handle is not None), None)


def uuid_of(device: torch.device) -> str | None:
    """The UUID of a GPU, or of a part of one, without NVML's prefix; None if CUDA does not tell."""
    return value_or_none(lambda: str(torch.cuda.get_device_properties(device).uuid))


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
        held_back=reasons_in_words(clock_reasons(nvml, handle)),
        joules=millijoules and millijoules / MJ_PER_J,
    )


def value_or_none(read: Callable[[], T]) -> T | None:
    """What `read` returns; None where it fails."""
    try:
        return read()
    except Exception:  # a GPU may be lost, and a missing figure must never end the rank
        return None
