"""Chooses a rank's device, by its position among the ranks of its host, and the backend of the process group."""

import os
from typing import NamedTuple

import torch
import torch.distributed as dist

from ddptui.config.checks import can_share_gpu, needs_point_to_point
from ddptui.config.trial import Trial
from ddptui.host.gpus import VISIBLE
from ddptui.text.words import OLDER, WHO_HAS_MPI, count
from ddptui.wire.messages import Nccl, OwnGpu
from workers.instruments.gpu import nccl_in_use, own_gpus

CPU = torch.device("cpu")
NEEDED = "CUDA takes an NVIDIA GPU and its driver, which `nvidia-smi` lists"
LONGEST = 200  # characters of torch's error that are kept, so that it fits into a Hello


class DeviceChoice(NamedTuple):
    """A rank's device, or the first of several."""

    device: torch.device
    why: str = ""  # why it is not a GPU, if the trial does not say so and this host has GPUs
    shared: bool = False  # whether ranks share the GPU, since this host has more ranks than GPUs


def choose_device(trial: Trial, rank: int, local_ranks: range) -> DeviceChoice:
    """Choose GPUs for the rank alone, or a GPU to share, or the CPU. Raises RuntimeError if required GPUs are
    missing."""
    if trial.device == "cpu":
        return DeviceChoice(CPU)
    gpus, unusable = usable_gpus()
    per_rank = trial.gpus_per_rank
    sees_only_its_own = trial.launch == "task" and VISIBLE in os.environ  # some platforms hide the GPUs of other tasks
    if sees_only_its_own and gpus == per_rank and not trial.share_gpu:
        return use_gpu(0)
    if gpus >= len(local_ranks) * per_rank:
        return use_gpu(local_ranks.index(rank) * per_rank)
    if gpus and trial.share_gpu:
        return use_gpu(local_ranks.index(rank) % gpus, shared=True)
    why = too_few(trial, len(local_ranks), gpus) if gpus else unusable
    if trial.device == "cuda":
        raise RuntimeError(f"device = 'cuda': {why or no_gpu()}, or take device = 'cpu'")
    return DeviceChoice(CPU, why)


def use_gpu(index: int, *, shared: bool = False) -> DeviceChoice:
    """Make this GPU the thread's current device, which torch and NCCL use by default."""
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return DeviceChoice(device, shared=shared)


def usable_gpus() -> tuple[int, str]:
    """The number of GPUs that torch can use; and, if torch can use none of the driver's GPUs, the reason."""
    if torch.cuda.device_count() == 0:  # the driver's count, until torch has started CUDA
        return 0, ""
    problem = start_cuda()
    return 0 if problem else torch.cuda.device_count(), problem


def no_gpu() -> str:
    """The reason why torch sees no GPU, and the remedy."""
    if torch.version.cuda is None and torch.version.hip is None:
        return "this torch is built without CUDA: install one that has it"
    return start_cuda() or f"torch sees no GPU: {NEEDED}"


def start_cuda() -> str:
    """Start CUDA. Returns the reason if that fails, according to torch's error, and the remedy, in one line; else an
    empty text."""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split()).partition(" Please ")[0].rstrip(".")[:LONGEST]
        hiding = f" ({VISIBLE} is {os.environ[VISIBLE][:LONGEST]!r})" if VISIBLE in os.environ else ""
        return f"{reason}{hiding}: {OLDER if 'too old' in reason else NEEDED}"
    return ""


def too_few(trial: Trial, ranks: int, gpus: int) -> str:
    """The reason why the ranks get no GPUs although this host has some, and the remedy."""
    share = f": share_gpu = true lets them share {'it' if gpus == 1 else 'them'}" if can_share_gpu(trial) else ""
    per_rank = f" of {trial.gpus_per_rank} GPUs each" if trial.gpus_per_rank > 1 else ""
    kind = "replica" if trial.launch == "dp" else "rank"
    return f"{count(gpus, 'GPU')} for {count(ranks, kind)}{per_rank}{share}"


def choose_backend(trial: Trial, device: torch.device, shared: bool) -> tuple[str, str]:
    """The process group's backend, and the reason for it. Raises RuntimeError if it cannot work, before ranks wait for
    each other."""
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
    """The trial's backend, or the default for the device; and the reason."""
    if trial.backend != "auto":
        return trial.backend, "the trial says so"
    if device.type == "cpu":
        return "gloo", "the ranks are on the CPU"
    return ("gloo", "ranks share a GPU, which NCCL refuses") if shared else ("nccl", "the ranks are on GPUs")


def describe(trial: Trial, device: torch.device) -> str:
    """The name of the device of a rank or replica, as tables show it."""
    several = trial.gpus_per_rank
    if device.type == "cpu":
        threads = "thread" if trial.launch == "dp" else f"{several} threads"
        return f"cpu ({threads}, CPU stand-in)" if trial.launch == "dp" or several > 1 else "cpu"
    return str(device) if several == 1 else f"{device}-{(device.index or 0) + several - 1}"


def gpus_of(device: torch.device, several: int = 1) -> tuple[OwnGpu, ...]:
    """The GPUs of a rank; empty on the CPU. device: the first of `several` GPUs."""
    return tuple(OwnGpu(*gpu) for gpu in own_gpus(device, several))


def nccl_of(device: torch.device) -> Nccl | None:
    """The NCCL of the process group; None without a group or with another backend."""
    nccl = nccl_in_use(device)
    return Nccl(*nccl) if nccl else None
