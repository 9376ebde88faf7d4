"""What NVIDIA's driver tells of its GPUs, without torch."""

import os
from collections.abc import Iterator

from ddptui.doctor.finding import Finding
from ddptui.host import gpus
from ddptui.host.gpus import VISIBLE, Build, Driver, Gpu
from ddptui.text.torch_remedies import OLDER
from ddptui.text.units import GB

BUSY_PERCENT, BUSY_GB = 10, 2  # more than an idle GPU shows: the driver itself takes up to one GB


def told_by_nvml() -> Iterator[Finding]:
    """Nothing where there is no GPU: torch's part says so."""
    if gpus.surely_none():
        return
    driver = gpus.ask()
    if driver is None:
        yield Finding("driver", "NVIDIA's NVML tells nothing here (another maker's GPU, or no driver)", tried=False)
        return
    visible = os.environ.get(VISIBLE)
    yield judge_driver(driver, gpus.built_for())
    seen = gpus.seen(visible, [gpu.uuid for gpu in driver.gpus])
    for index, gpu in enumerate(driver.gpus):
        yield judge_gpu(index, gpu, visible if index not in seen and not gpu.is_cut else None)


def judge_driver(driver: Driver, build: Build | None) -> Finding:
    knows = f", up to CUDA {driver.cuda[0]}.{driver.cuda[1]}" if driver.cuda else ""
    built = f"; this torch is built for CUDA {build.cuda}" if build and build.cuda else ""
    return Finding("driver", f"{driver.version}{knows}{built}", OLDER if gpus.is_too_old(driver, build) else "")


def judge_gpu(index: int, gpu: Gpu, hidden_by: str | None) -> Finding:
    """hidden_by: what the variable that hides GPUs says, where it hides this one."""
    memory = f", {gpu.total_bytes / GB:.0f} GB" if gpu.total_bytes else ""
    used = f" ({gpu.used_bytes / GB:.1f} used)" if gpu.used_bytes is not None else ""
    busy = f", {gpu.busy_percent} % busy" if gpu.busy_percent is not None else ""
    cut = ", cut into instances (MIG)" if gpu.is_cut else ""
    hidden = f"; hidden: {VISIBLE} is {hidden_by!r}" if hidden_by is not None else ""
    return Finding(f"GPU {index}", f"{gpu.name}{memory}{used}{busy}{cut}{hidden}", _others(gpu))


def _others(gpu: Gpu) -> str:
    """What to do where somebody else computes there."""
    is_used = (gpu.busy_percent or 0) > BUSY_PERCENT or (gpu.used_bytes or 0) > BUSY_GB * GB
    remedy = f"others use it, so times would suffer: `nvidia-smi` lists them; {VISIBLE} can leave it out"
    return remedy if is_used else ""
