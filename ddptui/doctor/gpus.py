"""Checks NVIDIA's driver, its GPUs, and what connects them, without torch."""

import os
from collections.abc import Iterator

from ddptui.doctor.finding import Finding
from ddptui.host import gpus
from ddptui.host.gpus import VISIBLE, Build, Driver, HostGpu
from ddptui.text.words import GB, OLDER

BUSY_PERCENT, BUSY_GB = 10, 2  # above what an idle GPU shows: the driver itself uses up to 1 GB


def driver_and_gpus() -> Iterator[Finding]:
    """Checks NVIDIA's driver, its GPUs and what connects them. Yields nothing if there is no GPU: torch.py reports
    that."""
    if gpus.surely_none():
        return
    driver = gpus.ask(with_links=True)
    if driver is None:
        yield Finding("driver", "NVIDIA's NVML does not answer (no driver, or another vendor's GPU)", tried=False)
        return
    visible = os.environ.get(VISIBLE)
    yield driver_finding(driver, gpus.built_for())
    seen = gpus.seen(None if gpus.may_differ_in_order(driver) else visible, [gpu.uuid for gpu in driver.gpus])
    for index, gpu in enumerate(driver.gpus):
        yield gpu_finding(index, gpu, visible if index not in seen and not gpu.is_cut else None)
    if driver.links:
        yield Finding("links", "; ".join(driver.links))


def driver_finding(driver: Driver, build: Build | None) -> Finding:
    """The finding about NVIDIA's driver: its version, and whether this torch needs a newer one."""
    knows = f", up to CUDA {driver.cuda[0]}.{driver.cuda[1]}" if driver.cuda else ""
    built = f"; this torch is built for CUDA {build.cuda}" if build and build.cuda else ""
    return Finding("driver", f"{driver.version}{knows}{built}", OLDER if gpus.is_too_old(driver, build) else "")


def gpu_finding(index: int, gpu: HostGpu, hidden_by: str | None) -> Finding:
    """The finding about one GPU. hidden_by: the value of CUDA_VISIBLE_DEVICES if it hides this GPU, else None."""
    memory = f"{gpu.total_bytes / GB:.0f} GB" if gpu.total_bytes else ""
    used = f"{gpu.used_bytes / GB:.1f} GB used" if gpu.used_bytes is not None else ""
    parts = (
        gpu.name,
        memory,
        used,
        f"{gpu.busy_percent}% busy" if gpu.busy_percent is not None else "",
        _power_limit(gpu),
        f"at most {gpu.most_sm_mhz} MHz" if gpu.most_sm_mhz else "",
        "partitioned into instances (MIG)" if gpu.is_cut else "",
    )
    hidden = f"; hidden: {VISIBLE} is {hidden_by!r}" if hidden_by is not None else ""
    return Finding(f"GPU {index}", ", ".join(filter(None, parts)) + hidden, "; ".join(_remedies(gpu)))


def _power_limit(gpu: HostGpu) -> str:
    """The power limit in words: "at most 700 W"; with the default limit if they differ. Empty: not known."""
    limit, default = gpu.power_limit_w, gpu.default_power_limit_w
    if limit and default and round(limit) != round(default):
        return f"power limit {limit:.0f} W of {default:.0f} W by default"
    return f"at most {limit:.0f} W" if limit else ""


def _remedies(gpu: HostGpu) -> Iterator[str]:
    if (gpu.busy_percent or 0) > BUSY_PERCENT or (gpu.used_bytes or 0) > BUSY_GB * GB:
        yield f"other programs use it, which distorts times: `nvidia-smi` lists them; {VISIBLE} can exclude the GPU"
    if gpu.is_held_back:
        yield (
            "heat or the power limit lowers its clocks, which distorts times: check both;"
            " `nvidia-smi -q -d PERFORMANCE,TEMPERATURE`"
        )
