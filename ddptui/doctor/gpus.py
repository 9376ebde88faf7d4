"""NVIDIA's driver, its GPUs, and what connects them, without torch."""

import os
from collections.abc import Iterator, Sequence

from ddptui.doctor.finding import Finding
from ddptui.host import gpus
from ddptui.host.gpu_links import GpuLinks, Links
from ddptui.host.gpus import VISIBLE, Build, Driver, Gpu
from ddptui.host.link_peak import connections, is_connected, numa_nodes, pcie_gb_s, peak_gb_s
from ddptui.text.units import GB, digits
from ddptui.text.words import OLDER, count, listed

UNKNOWN = GpuLinks()
UNORDERED = Finding(
    "links",
    "the GPUs differ, so CUDA may number them otherwise than here: which of them ranks use is not known",
    f"`export {gpus.ORDER}={gpus.BUS_ORDER}` makes CUDA's numbers those of the bus",
)
BUSY_PERCENT, BUSY_GB = 10, 2  # more than an idle GPU shows: the driver itself takes up to one GB


def driver_and_gpus() -> Iterator[Finding]:
    """NVIDIA's driver, its GPUs and what connects them. Nothing where there is none: `torch` reports that."""
    if gpus.surely_none():
        return
    driver = gpus.ask(with_links=True)
    if driver is None:
        yield Finding("driver", "NVIDIA's NVML does not answer (no driver, or a GPU of another maker)", tried=False)
        return
    visible = os.environ.get(VISIBLE)
    yield driver_finding(driver, gpus.built_for())
    is_in_order = not gpus.may_differ_in_order(driver)
    seen = gpus.seen(visible if is_in_order else None, [gpu.uuid for gpu in driver.gpus])
    of_gpus = driver.links.gpus or [UNKNOWN] * len(driver.gpus)
    for index, (gpu, links) in enumerate(zip(driver.gpus, of_gpus, strict=True)):
        yield gpu_finding(index, gpu, visible if index not in seen and not gpu.is_cut else None, links)
    yield from links_finding(driver.links, gpus.whole(driver)) if is_in_order else [UNORDERED]


def driver_finding(driver: Driver, build: Build | None) -> Finding:
    """NVIDIA's driver, and whether this torch needs a newer one."""
    knows = f", up to CUDA {driver.cuda[0]}.{driver.cuda[1]}" if driver.cuda else ""
    built = f"; this torch is built for CUDA {build.cuda}" if build and build.cuda else ""
    return Finding("driver", f"{driver.version}{knows}{built}", OLDER if gpus.is_too_old(driver, build) else "")


def gpu_finding(index: int, gpu: Gpu, hidden_by: str | None, links: GpuLinks = UNKNOWN) -> Finding:
    """One GPU as NVML sees it. hidden_by: the value of CUDA_VISIBLE_DEVICES, where it hides this GPU."""
    memory = f"{gpu.total_bytes / GB:.0f} GB" if gpu.total_bytes else ""
    used = f"{gpu.used_bytes / GB:.1f} GB used" if gpu.used_bytes is not None else ""
    parts = (
        gpu.name,
        memory,
        used,
        f"{gpu.busy_percent}% busy" if gpu.busy_percent is not None else "",
        _power_limit(gpu),
        f"at most {gpu.most_sm_mhz} MHz" if gpu.most_sm_mhz else "",
        f"PCIe {links.pcie}{_narrower(links)}" if links.pcie else "",
        _nvlinks(links),
        f"NUMA node {links.numa_node}" if links.numa_node is not None else "",
        "cut into instances (MIG)" if gpu.is_cut else "",
    )
    hidden = f"; hidden: {VISIBLE} is {hidden_by!r}" if hidden_by is not None else ""
    return Finding(f"GPU {index}", ", ".join(filter(None, parts)) + hidden, "; ".join(_remedies(gpu, links)))


def links_finding(links: Links, numbers: Sequence[int]) -> Iterator[Finding]:
    """What connects the GPUs of these numbers; nothing if there are fewer than two, or NVML does not say.

    A GPU with fewer NVLinks to the switches than the others has some that are down."""
    between = connections(links, numbers)
    if not between:
        return
    group = [links.gpus[number] for number in numbers]
    peak = peak_gb_s(group)
    sends = f"each can send {digits(peak)} GB/s{_over(group)}" if peak else ""
    text = "; ".join(filter(None, [*between, sends, numa_nodes(links, numbers)]))
    up = {number: links.gpus[number].nvlinks.to_switches for number in numbers}
    most = max(up.values())
    fewer = [f"GPU {number} has only {active}" for number, active in up.items() if active < most]
    remedy = f"{listed(fewer)} of {most} NVLinks up: `nvidia-smi nvlink -s` shows which are down"
    yield Finding("links", text, remedy if fewer else "")


def _power_limit(gpu: Gpu) -> str:
    """As in "at most 700 W"; with the default limit where it is another one."""
    limit, default = gpu.power_limit_w, gpu.default_power_limit_w
    if limit and default and round(limit) != round(default):
        return f"power limit {limit:.0f} W of {default:.0f} W by default"
    return f"at most {limit:.0f} W" if limit else ""


def _narrower(links: GpuLinks) -> str:
    """How many lanes are in use, if fewer than could be: (x8 now)."""
    now, most = links.pcie_now, links.pcie
    return f" (x{now.width} now)" if now and most and now.width < most.width else ""


def _nvlinks(links: GpuLinks) -> str:
    """As in "18 NVLinks (version 4.0), 25.0 GB/s each"; empty if none is active."""
    to_switches, to_gpus, gb_s, version = links.nvlinks
    active = to_switches + sum(to_gpus.values())
    speed = f", {digits(gb_s)} GB/s{' each' * (active > 1)}" if gb_s else ""
    return f"{count(active, 'NVLink')}{version and f' (version {version})'}{speed}" if active else ""


def _remedies(gpu: Gpu, links: GpuLinks) -> Iterator[str]:
    is_busy = (gpu.busy_percent or 0) > BUSY_PERCENT
    if is_busy or (gpu.used_bytes or 0) > BUSY_GB * GB:
        yield f"other programs use it, which distorts times: `nvidia-smi` lists them; {VISIBLE} can leave it out"
    # NVIDIA's manual of nvidia-smi: generation and width may be reduced while the GPU is not in use.
    if is_busy and _narrower(links):
        yield "its PCIe link has fewer lanes than it could: check that the card and its riser sit well"
    if gpu.slowdowns:
        yield (
            f"its clocks are held down ({listed(gpu.slowdowns)}), which distorts times: check its cooling and power"
            " supply; `nvidia-smi -q -d PERFORMANCE,TEMPERATURE`"
        )


def _over(group: Sequence[GpuLinks]) -> str:
    """Over which PCIe link the slowest of a group sends, where NVLink does not connect them."""
    slots = [gpu.pcie for gpu in group if gpu.pcie]
    return "" if is_connected(group) or not slots else f" over PCIe {min(slots, key=lambda pcie: pcie_gb_s(pcie) or 0)}"
