"""What a GPU is at, whoever uses it, as NVML tells: the library behind nvidia-smi."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import torch

from ddptui.wire.messages import Gpu

T = TypeVar("T")
KINDS = ("GPU", "MIG")  # what NVML puts before a UUID: of a whole one, or of a part
MW = 1000  # in a W


class Meter:
    """Of one device. Reading it may take some ms, so it is for a thread that nobody waits for."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._handle: Any = None
        self._sought = False

    def read(self) -> Gpu | None:
        """None: the device is no GPU, or there is no NVML that knows it."""
        if not self._sought:
            self._sought = True
            self._handle = find(self.device)
        return figures(nvml(), self._handle) if self._handle is not None else None


@cache
def nvml() -> Any:
    """pynvml, once started in this process; None where there is no driver."""
    return told(_start)


def _start() -> Any:
    import pynvml  # only where there is a GPU

    pynvml.nvmlInit()
    return pynvml


def find(device: torch.device) -> Any:
    """NVML's handle of a device, by its UUID: NVML counts GPUs in another order than CUDA, and those, too, that
    CUDA_VISIBLE_DEVICES hides. None where it knows no such GPU."""
    if device.type != "cuda" or nvml() is None:
        return None
    uuid = told(lambda: torch.cuda.get_device_properties(device).uuid)
    handles = (told(partial(nvml().nvmlDeviceGetHandleByUUID, f"{kind}-{uuid}")) for kind in KINDS)
    return next((handle for handle in handles if handle is not None), None)


def figures(nvml: Any, handle: Any) -> Gpu:
    memory = told(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    return Gpu(
        busy_percent=told(lambda: float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        used_bytes=memory and memory.used,
        total_bytes=memory and memory.total,
        watts=told(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / MW),
        celsius=told(lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
    )


def told(ask: Callable[[], T]) -> T | None:
    """None where NVML does not say, for whatever reason (a part of a GPU has no power of its own, a virtual one has no
    temperature, a GPU may be lost): that is never one for the rank to end."""
    try:
        return ask()
    except Exception:
        return None
