"""Finds the GPUs that ranks on this machine will see, without torch and CUDA: loading these takes seconds and some of a
GPU's memory."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from glob import glob
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER, BUS_ORDER = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"  # the default is FASTEST_FIRST, which CUDA does not define further
DEVICES = ("/dev/nvidia[0-9]*", "/dev/dxg", "/dev/kfd")  # of NVIDIA GPUs, of GPUs in WSL, of AMD GPUs
MW_PER_W = MJ_PER_J = 1000
# Constants from nvml.h for a pair of GPUs: whether NVLinks connect them, and their common ancestor on PCIe, with the
# abbreviations of `nvidia-smi topo -m`.
OVER_NVLINK, P2P_OK = 2, 0
PCIE_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
NUMBER = re.compile(r"[+-]?\d+")  # the number at the beginning of an entry of VISIBLE, as strtoul parses it
# The reasons for a low clock that are faults: software and hardware thermal slowdown, and the power brake. Power caps
# and clocks set by the user are normal, and an idle GPU has no fault.
HELD_BACK = 0x20 | 0x40 | 0x80


class HostGpu(NamedTuple):
    """One GPU. None: NVIDIA's management library (NVML) does not report the value."""

    name: str
    uuid: str  # by which VISIBLE names it
    total_bytes: int | None = None
    used_bytes: int | None = None  # by all processes together
    busy_percent: int | None = None  # share of the last second (or less) in which it computed
    is_cut: bool = False  # partitioned into instances (MIG), each of which is a GPU to CUDA
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None  # factory setting
    most_sm_mhz: int | None = None  # maximum clock of its streaming multiprocessors
    is_held_back: bool | None = None  # whether heat or the power limit lowers its clocks right now


class Driver(NamedTuple):
    """NVIDIA's driver, with the GPUs that it manages."""

    version: str
    cuda: tuple[int, int] | None  # the newest CUDA version that it supports
    gpus: tuple[HostGpu, ...]  # ordered by PCI bus id
    links: tuple[str, ...] = ()  # what connects the GPUs, one line for each kind of connection


class Build(NamedTuple):
    """The CUDA or HIP version that the installed torch is built for. Both None: torch supports the CPU only."""

    cuda: str | None
    hip: str | None


def surely_none() -> bool:
    """Whether this machine certainly has no GPU, because there is no device file. False except on Linux: elsewhere only
    torch can tell."""
    return sys.platform == "linux" and not any(glob(pattern) for pattern in DEVICES)


def ask(*, with_links: bool = False) -> Driver | None:
    """The driver and its GPUs, from NVML. None: there is no NVML, as with AMD GPUs, on macOS, or without a driver.
    Never raises. with_links: also find out what connects the GPUs, which may take some hundred calls."""
    if surely_none():
        return None
    try:
        import pynvml as nvml  # imported late: machines without a GPU do not need it

        nvml.nvmlInit()
    except Exception:  # ignore any fault of the library: a run does not need NVML
        return None
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        cuda = answer(nvml, "nvmlSystemGetCudaDriverVersion_v2")  # 13020 means 13.2
        version = text(answer(nvml, "nvmlSystemGetDriverVersion") or "?")
        newest = None if cuda is None else (cuda // 1000, cuda % 1000 // 10)
        links = connections(nvml, handles) if with_links else ()
        return Driver(version, newest, tuple(_gpu(nvml, handle) for handle in handles), links)
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def answer(nvml: Any, function: str, *arguments: Any) -> Any:
    """The result of an NVML function; None if the GPU, the driver or the library does not support it."""
    try:
        return getattr(nvml, function)(*arguments)
    except (AttributeError, nvml.NVMLError):
        return None


def is_held_back(nvml: Any, handle: Any) -> bool | None:
    """Whether heat or the power limit lowers a GPU's clock; None: NVML does not report it. Older drivers have the
    function under the second name."""
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    reasons = next((reasons for name in names if (reasons := answer(nvml, name, handle)) is not None), None)
    return None if reasons is None else bool(reasons & HELD_BACK)


def text(answered: str | bytes) -> str:
    """A name that NVML returned, as text: some releases of the library return bytes."""
    return answered.decode("utf-8", "replace") if isinstance(answered, bytes) else answered


def _gpu(nvml: Any, handle: Any) -> HostGpu:
    memory = answer(nvml, "nvmlDeviceGetMemoryInfo", handle)
    rates = answer(nvml, "nvmlDeviceGetUtilizationRates", handle)
    cut = answer(nvml, "nvmlDeviceGetMigMode", handle)  # the current mode, and the mode after the next reset
    limit = answer(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    default_limit = answer(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", handle)
    return HostGpu(
        name=text(nvml.nvmlDeviceGetName(handle)),
        uuid=text(nvml.nvmlDeviceGetUUID(handle)),
        total_bytes=memory and memory.total,
        used_bytes=memory and memory.used,
        busy_percent=rates and rates.gpu,
        is_cut=bool(cut and cut[0]),
        power_limit_w=limit and limit / MW_PER_W,
        default_power_limit_w=default_limit and default_limit / MW_PER_W,
        most_sm_mhz=answer(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
        is_held_back=is_held_back(nvml, handle),
    )


def connections(nvml: Any, handles: Sequence[Any]) -> tuple[str, ...]:
    """What connects the GPUs, one line for each kind of connection: "NVLink: 0-1, 2-3" or "NVLink between all 8".
    Empty if NVML does not report it."""
    pairs: dict[str, list[str]] = {}
    for (a, one), (b, other) in combinations(enumerate(handles), 2):
        is_nvlink = answer(nvml, "nvmlDeviceGetP2PStatus", one, other, OVER_NVLINK) == P2P_OK
        level = answer(nvml, "nvmlDeviceGetTopologyCommonAncestor", one, other)
        if kind := "NVLink" if is_nvlink else PCIE_LEVELS.get(level):
            pairs.setdefault(kind, []).append(f"{a}-{b}")
    number = len(handles)
    if number > 2 and [*map(len, pairs.values())] == [number * (number - 1) // 2]:
        return tuple(f"{kind} between all {number}" for kind in pairs)
    return tuple(f"{kind}: {', '.join(which)}" for kind, which in pairs.items())


def count(driver: Driver | None, variables: Mapping[str, str] = os.environ) -> int | None:
    """How many GPUs a rank will see. None: only CUDA can tell."""
    visible = variables.get(VISIBLE)
    if is_empty(visible):
        return 0
    if driver is None or any(gpu.is_cut for gpu in driver.gpus) or "MIG-" in (visible or ""):
        return None
    return len(seen(visible, [gpu.uuid for gpu in driver.gpus]))


def may_differ_in_order(driver: Driver) -> bool:
    """Whether CUDA and NVML may number the GPUs differently: NVML orders them by bus id, CUDA by speed."""
    is_by_bus = os.environ.get(ORDER) == BUS_ORDER or os.environ.get(VISIBLE, "").startswith("GPU-")
    return not is_by_bus and len({gpu.name for gpu in driver.gpus}) > 1


def is_empty(visible: str | None) -> bool:
    """Whether this value of VISIBLE hides every GPU of any machine, because its first entry names none."""
    first = "0" if visible is None else visible.split(",")[0].strip()
    return not first.startswith(("GPU-", "MIG-")) and _number(first) < 0


def seen(visible: str | None, uuids: Sequence[str]) -> list[int]:
    """The indices of the GPUs that VISIBLE does not hide. Like CUDA, it reads indices or prefixes of UUIDs."""
    if visible is None:
        return list(range(len(uuids)))
    by_uuid = visible.startswith("GPU-")  # the first entry decides how all entries are read
    numbers: list[int] = []
    for entry in map(str.strip, visible.split(",")):
        number = _number(entry)
        if by_uuid:
            named = [index for index, uuid in enumerate(uuids) if entry.startswith("GPU-") and uuid.startswith(entry)]
            number = named[0] if len(named) == 1 else -1  # an ambiguous prefix names none
        if number in numbers:
            return []  # if an entry repeats a GPU, CUDA hides all of them
        if not 0 <= number < len(uuids):
            break  # the first entry that names no GPU ends the list
        numbers.append(number)
    return numbers


def _number(entry: str) -> int:
    """The number at the beginning of an entry; -1 if there is none."""
    return int(digits[0]) if (digits := NUMBER.match(entry)) else -1


def built_for() -> Build | None:
    """The CUDA or HIP version that the installed torch is built for, from its version.py. None: not known."""
    torch = find_spec("torch")  # does not import torch
    try:
        text = Path((torch and torch.origin) or "").with_name("version.py").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return built(text)


def built(version_py: str) -> Build | None:
    """The same as `built_for`, from the text of version.py."""
    versions = dict(re.findall(r"^(cuda|hip)\b[^=\n]*=\s*(?:None|'([^']*)')", version_py, re.MULTILINE))
    return Build(versions["cuda"] or None, versions.get("hip") or None) if "cuda" in versions else None


def is_too_old(driver: Driver, build: Build | None) -> bool:
    """Whether the driver is too old for the CUDA version of this torch."""
    if driver.cuda is None or build is None or build.cuda is None:
        return False
    return driver.cuda[0] < int(build.cuda.split(".")[0])  # within a major version, newer CUDA runs on older drivers
