"""Which GPUs ranks on this machine will see: as NVIDIA's management library (NVML) tells, without torch or CUDA, which
would take seconds, and a part of a GPU's memory."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

VISIBLE = "CUDA_VISIBLE_DEVICES"
DEVICES = ("/dev/nvidia[0-9]*", "/dev/dxg", "/dev/kfd")  # NVIDIA's, through WSL, AMD's
NUMBER = re.compile(r"[+-]?\d+")  # what an entry of VISIBLE begins with, as strtoul reads it


class Gpu(NamedTuple):
    """One GPU. None: NVML does not say.

    uuid          what VISIBLE may name it by
    total_bytes   its memory, and how much of that all processes use together
    busy_percent  of the time lately in which it computed
    is_cut        into instances (MIG), each of which is a GPU to CUDA
    """

    name: str
    uuid: str
    total_bytes: int | None = None
    used_bytes: int | None = None
    busy_percent: int | None = None
    is_cut: bool = False


class Driver(NamedTuple):
    """NVIDIA's driver: its version, the newest CUDA that it knows, and its GPUs, in the order of the bus."""

    version: str
    cuda: tuple[int, int] | None
    gpus: tuple[Gpu, ...]


class Build(NamedTuple):
    """What the installed torch is built for: the version of CUDA, or of AMD's HIP. Neither: the CPU alone."""

    cuda: str | None
    hip: str | None


def surely_none() -> bool:
    """Whether there is no device file of any GPU. Elsewhere than on Linux we cannot tell without torch."""
    return sys.platform == "linux" and not any(glob(pattern) for pattern in DEVICES)


def ask() -> Driver | None:
    """What NVML tells. None: there is none, as with AMD's GPUs, on macOS, or where no driver is. Never raises."""
    if surely_none():
        return None
    try:
        import pynvml as nvml

        nvml.nvmlInit()
    except Exception:  # whatever is wrong with it, only the driver is asked: a run may do without
        return None
    try:
        every = [_gpu(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(nvml.nvmlDeviceGetCount())]
        cuda = _told(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
        return Driver(
            version=_text(_told(nvml, nvml.nvmlSystemGetDriverVersion) or "?"),
            cuda=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
            gpus=tuple(every),
        )
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, handle: Any) -> Gpu:
    memory = _told(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    rates = _told(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    cut = _told(nvml, nvml.nvmlDeviceGetMigMode, handle)
    return Gpu(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        total_bytes=memory and memory.total,
        used_bytes=memory and memory.used,
        busy_percent=rates and rates.gpu,
        is_cut=bool(cut and cut[0]),
    )


def _told(nvml: Any, question: Any, *about: Any) -> Any:
    """The answer; None where this GPU, or this driver, has none."""
    try:
        return question(*about)
    except nvml.NVMLError:
        return None


def _text(told: str | bytes) -> str:
    """Some releases of the library give bytes."""
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else told


def count(driver: Driver | None, variables: Mapping[str, str] = os.environ) -> int | None:
    """How many GPUs a rank will see. None: only CUDA can tell."""
    visible = variables.get(VISIBLE)
    if is_empty(visible):
        return 0
    if driver is None or any(gpu.is_cut for gpu in driver.gpus) or "MIG-" in (visible or ""):
        return None
    return len(seen(visible, [gpu.uuid for gpu in driver.gpus]))


def is_empty(visible: str | None) -> bool:
    """Whether VISIBLE hides every GPU, whatever there is: its first entry names none."""
    if visible is None:
        return False
    first = visible.split(",")[0].strip()
    return not first.startswith(("GPU-", "MIG-")) and _number(first) < 0


def seen(visible: str | None, uuids: Sequence[str]) -> list[int]:
    """The GPUs that VISIBLE leaves to be seen, by their numbers, as CUDA reads it: numbers, or the beginnings of UUIDs,
    up to the first one that names no GPU; naming one twice hides all."""
    if visible is None:
        return list(range(len(uuids)))
    by_uuid = visible.startswith("GPU-")
    found: list[int] = []
    for entry in map(str.strip, visible.split(",")):
        number = _of_uuid(entry, uuids) if by_uuid else _number(entry)
        if number in found:
            return []
        if not 0 <= number < len(uuids):
            break
        found.append(number)
    return found


def _number(entry: str) -> int:
    """As strtoul has it: what follows the digits does not matter; -1 for none."""
    digits = NUMBER.match(entry)
    return int(digits[0]) if digits else -1


def _of_uuid(begin: str, uuids: Sequence[str]) -> int:
    """The one GPU whose UUID begins so; -1: none, or several."""
    matching = [index for index, uuid in enumerate(uuids) if begin.startswith("GPU-") and uuid.startswith(begin)]
    return matching[0] if len(matching) == 1 else -1


def built_for() -> Build | None:
    """What the installed torch is built for, read from its version.py: importing it would take seconds. None: it does
    not say."""
    torch = find_spec("torch")
    try:
        text = Path((torch and torch.origin) or "").with_name("version.py").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return built(text)


def built(version_py: str) -> Build | None:
    """The same, of the file's text."""
    said = dict(re.findall(r"^(cuda|hip)\b[^=\n]*=\s*(?:None|'([^']*)')", version_py, re.MULTILINE))
    return Build(said["cuda"] or None, said.get("hip") or None) if "cuda" in said else None


def is_too_old(driver: Driver, build: Build | None) -> bool:
    """Whether torch's CUDA will not run on this driver: within a major version, newer CUDA runs on older drivers."""
    if driver.cuda is None or build is None or build.cuda is None:
        return False
    return driver.cuda[0] < int(build.cuda.split(".")[0])
