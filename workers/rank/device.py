"""What a rank computes on, by its place among the ranks of its host; and the backend of the ranks' group."""

import os
from typing import NamedTuple

import torch
import torch.distributed as dist

from ddptui.config.checks import can_share_gpu, needs_point_to_point
from ddptui.config.trial import Trial
from ddptui.host.gpus import VISIBLE, is_empty
from ddptui.text.words import OLDER, WHO_HAS_MPI, count
from ddptui.wire.messages import Nccl, OwnGpu
from workers.instruments.gpu import nccl_in_use, own_gpus

CPU = torch.device("cpu")
NEEDED = "CUDA takes an NVIDIA GPU and its driver, which `nvidia-smi` lists"
LONGEST = 200  # characters of torch's error: a Hello must be able to carry it


class DeviceChoice(NamedTuple):
    """A rank's device, or the first of several."""

    device: torch.device
    why: str = ""  # the trial left it open, and a GPU might have been expected
    shared: bool = False  # this host has more ranks than GPUs, and they share them


def choose_device(trial: Trial, rank: int, local_ranks: range) -> DeviceChoice:
    """Choose GPUs for the rank alone, or one to share, or the CPU. Raises RuntimeError if wanted GPUs are not there."""
    if trial.device == "cpu":
        return DeviceChoice(CPU)
    gpus, unusable = usable_gpus()
    per_rank = trial.gpus_per_rank
    sees_only_its_own = trial.launch == "task" and VISIBLE in os.environ  # as platforms show each task its own GPUs
    if sees_only_its_own and gpus == per_rank and not trial.share_gpu:
        return use_gpu(0)
    if gpus >= len(local_ranks) * per_rank:
        return use_gpu(local_ranks.index(rank) * per_rank)
    if gpus and trial.share_gpu:
        return use_gpu(local_ranks.index(rank) % gpus, shared=True)
    if gpus and trial.device == "cuda":
        raise RuntimeError(too_few(trial, len(local_ranks), gpus))
    if trial.device == "cuda":
        raise RuntimeError(f"device = 'cuda': {unusable or no_gpu()}, or take device = 'cpu'")
    return DeviceChoice(CPU, why_not(trial, len(local_ranks), gpus) if gpus else unusable)


def use_gpu(index: int, *, shared: bool = False) -> DeviceChoice:
    """Make this GPU the thread's current device: torch and NCCL take that one unless told otherwise."""
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return DeviceChoice(device, shared=shared)


def usable_gpus() -> tuple[int, str]:
    """How many GPUs torch can use, and the reason if it can use none of those that the driver counts."""
    if torch.cuda.device_count() == 0:  # the driver's count, until torch has started CUDA
        return 0, ""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return 0, in_one_line(error)
    return torch.cuda.device_count(), ""


def no_gpu() -> str:
    """Why torch sees no GPU, and what to do."""
    if torch.version.cuda is None and torch.version.hip is None:
        return "this torch is built without CUDA: install one that has it"
    visible = os.environ.get(VISIBLE)
    if is_empty(visible):
        return f"{VISIBLE} is {visible!r}, which hides every GPU: unset it"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return in_one_line(error)
    return f"torch sees no GPU: {NEEDED}"


def in_one_line(error: Exception) -> str:
    """Why CUDA does not start, as far as torch's error says it, and what to do."""
    reason = " ".join(str(error).split()).partition(" Please ")[0].rstrip(".")[:LONGEST]
    hiding = f" ({VISIBLE} is {os.environ[VISIBLE][:LONGEST]!r})" if VISIBLE in os.environ else ""
    return f"{reason}{hiding}: {OLDER if 'too old' in reason else NEEDED}"


def too_few(trial: Trial, ranks: int, gpus: int) -> str:
    """The error for a trial that wants more GPUs than this host has, with what to do."""
    gpus_wanted = "a GPU" if trial.gpus_per_rank == 1 else f"{trial.gpus_per_rank} GPUs"
    also = " and backend = 'auto'" if trial.backend == "nccl" else ""
    share = f"let them share with share_gpu = true{also}, over gloo, or " if can_share_gpu(trial) else ""
    fewer = "" if ranks == 1 else f"take fewer {kind(trial)}s, or "
    return (
        f"device = 'cuda' needs {gpus_wanted} a {kind(trial)}: {count(ranks, kind(trial))} here, {count(gpus, 'GPU')}; "
        f"{share}{fewer}device = 'cpu'"
    )


def why_not(trial: Trial, ranks: int, gpus: int) -> str:
    """Why ranks are on the CPU though there are GPUs."""
    share = f": share_gpu = true lets them share {'it' if gpus == 1 else 'them'}" if can_share_gpu(trial) else ""
    per_rank = f" of {trial.gpus_per_rank} GPUs each" if trial.gpus_per_rank > 1 else ""
    return f"{count(gpus, 'GPU')} for {count(ranks, kind(trial))}{per_rank}{share}"


def kind(trial: Trial) -> str:
    """What this trial's members are called."""
    return "replica" if trial.launch == "dp" else "rank"


def choose_backend(trial: Trial, device: torch.device, shared: bool) -> tuple[str, str]:
    """The process group's backend, and why. Raises RuntimeError if it cannot work, before ranks wait for each other."""
    backend, why = wanted_backend(trial, device, shared)
    if backend == "nccl" and device.type == "cpu":
        raise RuntimeError("backend = 'nccl' needs GPUs, and the ranks are on the CPU: backend = 'auto' is gloo there")
    if backend == "nccl" and shared:
        raise RuntimeError("backend = 'nccl' refuses two ranks on one GPU: with share_gpu = true, leave it 'auto'")
    if backend == "mpi" and not dist.is_mpi_available():
        raise RuntimeError(f"backend = 'mpi': this torch has no MPI; {WHO_HAS_MPI}. gloo and nccl do without")
    if backend == "gloo" and device.type == "cuda" and (problem := needs_point_to_point(trial)):
        raise RuntimeError(f"{problem[0]}: {problem[1]} (gloo: {why})")
    return backend, why


def wanted_backend(trial: Trial, device: torch.device, shared: bool) -> tuple[str, str]:
    """The trial's backend, or the usual one of the device; and why."""
    if trial.backend != "auto":
        return trial.backend, "the trial says so"
    if device.type == "cpu":
        return "gloo", "the ranks are on the CPU"
    return ("gloo", "ranks share a GPU, which NCCL refuses") if shared else ("nccl", "the ranks are on GPUs")


def describe(trial: Trial, device: torch.device) -> str:
    """The table's name for what a rank, or a replica, computes on."""
    several = trial.gpus_per_rank
    if device.type == "cpu":
        threads = "thread" if trial.launch == "dp" else f"{several} threads"
        return f"cpu ({threads}, CPU stand-in)" if trial.launch == "dp" or several > 1 else "cpu"
    return str(device) if several == 1 else f"{device}-{(device.index or 0) + several - 1}"


def gpus_of(device: torch.device, several: int = 1) -> tuple[OwnGpu, ...]:
    """The GPUs of a rank, its device the first of several; none on the CPU."""
    return tuple(OwnGpu(*gpu) for gpu in own_gpus(device, several))


def nccl_of(device: torch.device) -> Nccl | None:
    """The NCCL of this process's group. None: another backend, or no group."""
    nccl = nccl_in_use(device)
    return Nccl(*nccl) if nccl else None
