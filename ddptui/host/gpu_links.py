"""What connects this machine's GPUs to each other, as NVIDIA's management library (NVML) and the kernel say: NVLink,
PCIe, and NUMA nodes."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from ddptui.host.nvml import answer, is_unsupported, text

PCI_DEVICES = Path("/sys/bus/pci/devices")
BUS_ID = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")  # domain:bus:device.function
MOST_NVLINKS = 36  # of one GPU: NVML_NVLINK_MAX_LINKS
MOST_GPUS = 32  # whose pairs are looked at: each pair is a call
SWITCH = "switch"  # the other end of an NVLink that leads to an NVSwitch

# Numbers of nvml.h, which do not change: older releases of the library lack some of the names.
COMMON_SPEED, LINK_SPEED = 90, 164  # fields: the speed of all active NVLinks, and of one, in MB/s (1e6), one direction
TO_GPU, TO_NPU, TO_SWITCH = 0, 1, 2  # what an NVLink leads to; 255: NVML does not know
VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}  # NVML_NVLINK_VERSION_…
LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}  # as `nvidia-smi topo -m` names them

# An NVLink's bandwidth in one direction, in GB/s, as NVIDIA's data sheets give it. NVML gives the rate on the wire,
# coding included: 25.781 for a V100, 26.562 for an H100. Other speeds stay as they are: 14.062 of an RTX 3090.
NOMINAL_GB_S = (20.0, 25.0, 50.0)
CODING = 1.07


class Pcie(NamedTuple):
    """A PCIe link."""

    generation: int
    width: int  # lanes

    def __str__(self) -> str:
        return f"{self.generation}.0 x{self.width}"


class NvLinks(NamedTuple):
    """The active NVLinks of one GPU; without an argument none."""

    to_switches: int = 0
    to_gpus: Mapping[str, int] = {}  # by bus id
    gb_s: float | None = None  # of each, in one direction; None: NVML does not say
    version: str = ""


class GpuLinks(NamedTuple):
    """What connects one GPU. None: NVML or the kernel do not say."""

    bus_id: str | None = None
    numa_node: int | None = None
    pcie: Pcie | None = None  # the most that it and its slot can do
    pcie_now: Pcie | None = None  # less while it is idle, by NVIDIA's manual of nvidia-smi
    nvlinks: NvLinks = NvLinks()


class Links(NamedTuple):
    """What connects the GPUs, in NVML's order."""

    gpus: tuple[GpuLinks, ...] = ()
    levels: Mapping[tuple[int, int], str] = {}  # of pairs, the lower number first: what is between them on PCIe


def read(nvml: Any, handles: Sequence[Any], devices: Path = PCI_DEVICES) -> Links:
    """What NVML says of these GPUs; what it refuses is missing. devices: the kernel's folder of PCI devices."""
    gpus = tuple(_of_gpu(nvml, handle, devices) for handle in handles)
    levels: dict[tuple[int, int], str] = {}
    for a, b in combinations(range(min(len(handles), MOST_GPUS)), 2):
        level = answer(nvml, "nvmlDeviceGetTopologyCommonAncestor", handles[a], handles[b])
        if level in LEVELS:
            levels[a, b] = LEVELS[level]
    return Links(gpus, levels)


def bus_id(named: str | bytes) -> str | None:
    """A PCI address as the kernel writes it, 0000:18:00.0: NVML has eight digits of domain. None: it is none."""
    found = BUS_ID.fullmatch(text(named).lower())
    return f"{int(found[1], 16):04x}:{found[2]}" if found else None


def nominal_gb_s(wire_gb_s: float) -> float:
    """The bandwidth of an NVLink as data sheets give it, from the rate on its wire."""
    return next((nominal for nominal in NOMINAL_GB_S if nominal <= wire_gb_s <= nominal * CODING), wire_gb_s)


def _of_gpu(nvml: Any, handle: Any, devices: Path) -> GpuLinks:
    pci = answer(nvml, "nvmlDeviceGetPciInfo", handle)
    address = bus_id(pci.busId) if pci else None
    return GpuLinks(
        bus_id=address,
        numa_node=_numa_node(devices / address) if address else None,
        pcie=_pcie(nvml, handle, "Max"),
        pcie_now=_pcie(nvml, handle, "Curr"),
        nvlinks=_nvlinks(nvml, handle, devices),
    )


def _numa_node(device: Path) -> int | None:
    """The node of the CPU that a PCI device hangs on; nvmlDeviceGetNumaNodeId is of the GPU's own memory instead."""
    try:
        node = int((device / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None  # -1: there is one node, or the firmware does not say


def _pcie(nvml: Any, handle: Any, which: str) -> Pcie | None:
    generation = answer(nvml, f"nvmlDeviceGet{which}PcieLinkGeneration", handle)
    width = answer(nvml, f"nvmlDeviceGet{which}PcieLinkWidth", handle)
    return Pcie(generation, width) if generation and width else None


def _nvlinks(nvml: Any, handle: Any, devices: Path) -> NvLinks:
    active = _active_nvlinks(nvml, handle)
    if not active:
        return NvLinks()
    ends = Counter(filter(None, (_other_end(nvml, handle, link, devices) for link in active)))
    switches = ends.pop(SWITCH, 0)
    version = answer(nvml, "nvmlDeviceGetNvLinkVersion", handle, active[0])
    return NvLinks(switches, dict(ends), _nvlink_gb_s(nvml, handle, active[0]), VERSIONS.get(version, ""))


def _active_nvlinks(nvml: Any, handle: Any) -> list[int]:
    """The numbers of the NVLinks that are up. A link that does not answer may be followed by others that do."""
    state = "nvmlDeviceGetNvLinkState"
    if is_unsupported(nvml, state, handle, 0):  # a GPU without NVLink; numbers that it lacks are invalid arguments
        return []
    return [link for link in range(MOST_NVLINKS) if answer(nvml, state, handle, link)]


def _other_end(nvml: Any, handle: Any, link: int, devices: Path) -> str | None:
    """SWITCH, or the bus id of a GPU. None: another device."""
    kind = answer(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
    pci = answer(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
    address = bus_id(pci.busId) if pci else None
    if kind in (TO_GPU, TO_NPU, TO_SWITCH):
        return {TO_GPU: address, TO_NPU: None, TO_SWITCH: SWITCH}[kind]
    # NCCL (src/graph/xml.cc) takes for an NVSwitch what a virtual machine hides.
    return address if address and (devices / address).exists() else SWITCH


def _nvlink_gb_s(nvml: Any, handle: Any, link: int) -> float | None:
    for field in (COMMON_SPEED, (LINK_SPEED, link)):
        [value] = answer(nvml, "nvmlDeviceGetFieldValues", handle, [field]) or [None]
        if value is not None and value.nvmlReturn == 0 and value.value.uiVal > 0:
            return nominal_gb_s(value.value.uiVal / 1000)
    return None
