"""What a rank computes on, by its place among the ranks of its host; and what the ranks' group is made of then."""

import os
from typing import NamedTuple

import torch
import torch.distributed as dist

from ddptui.config.checks import can_share_gpu, needs_point_to_point
from ddptui.config.trial import Trial
from ddptui.host.gpus import VISIBLE, is_empty
from ddptui.text.torch_remedies import OLDER, WHO_HAS_MPI

CPU = torch.device("cpu")
NEEDED = "CUDA takes an NVIDIA GPU and its driver, which `nvidia-smi` lists"
LONGEST = 200  # of somebody else's words, in ours: a Hello must be able to carry them


class DeviceChoice(NamedTuple):
    """A rank's device, or the first of several. why: the trial left it open, and one might have expected another.
    shared: there are more ranks on this host than GPUs, and they share them."""

    device: torch.device
    why: str = ""
    shared: bool = False


def choose_device(trial: Trial, rank: int, here: range) -> DeviceChoice:
    """GPUs of its own for each rank of `here`, those of this host; or one that ranks share, if the trial says that they
    may; or else the CPU. Makes it the thread's current device. Raises RuntimeError for GPUs that are not there."""
    if trial.device == "cpu":
        return DeviceChoice(CPU)
    gpus, unusable = usable_gpus()
    several = trial.gpus_per_rank
    own_alone = trial.launch == "task" and VISIBLE in os.environ  # as platforms show each task its own GPUs
    if own_alone and gpus == several and not trial.share_gpu:
        return use_gpu(0)
    if gpus >= len(here) * several:
        return use_gpu(here.index(rank) * several)
    if gpus and trial.share_gpu:
        return use_gpu(here.index(rank) % gpus, shared=True)
    if gpus and trial.device == "cuda":
        raise RuntimeError(too_few(trial, len(here), gpus))
    if trial.device == "cuda":
        raise RuntimeError(f"device = 'cuda': {unusable or no_gpu()}, or take device = 'cpu'")
    return DeviceChoice(CPU, why_not(trial, len(here), gpus) if gpus else unusable)


def use_gpu(index: int, *, shared: bool = False) -> DeviceChoice:
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return DeviceChoice(device, shared=shared)


def usable_gpus() -> tuple[int, str]:
    """How many GPUs torch can use. And why it can use none of those that the driver counts: torch asks the driver
    alone, as long as it has not started CUDA itself."""
    if torch.cuda.device_count() == 0:
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
    """Why CUDA does not start, in torch's own words as far as they tell what is wrong; and what to do."""
    words = " ".join(str(error).split()).partition(" Please ")[0].rstrip(".")[:LONGEST]
    hiding = f" ({VISIBLE} is {os.environ[VISIBLE][:LONGEST]!r})" if VISIBLE in os.environ else ""
    return f"{words}{hiding}: {OLDER if 'too old' in words else NEEDED}"


def too_few(trial: Trial, ranks: int, gpus: int) -> str:
    each = "a GPU" if trial.gpus_per_rank == 1 else f"{trial.gpus_per_rank} GPUs"
    also = " and backend = 'auto'" if trial.backend == "nccl" else ""
    share = f"let them share with share_gpu = true{also}, over gloo, or " if can_share_gpu(trial) else ""
    fewer = "" if ranks == 1 else f"take fewer {kind(trial)}s, or "
    return (
        f"device = 'cuda' needs {each} a {kind(trial)}: {count_of(ranks, kind(trial))} here, {count_of(gpus, 'GPU')}; "
        f"{share}{fewer}device = 'cpu'"
    )


def why_not(trial: Trial, ranks: int, gpus: int) -> str:
    """Why ranks are on the CPU though there are GPUs."""
    share = f": share_gpu = true lets them share {'it' if gpus == 1 else 'them'}" if can_share_gpu(trial) else ""
    each = f" of {trial.gpus_per_rank} GPUs each" if trial.gpus_per_rank > 1 else ""
    return f"{count_of(gpus, 'GPU')} for {count_of(ranks, kind(trial))}{each}{share}"


def kind(trial: Trial) -> str:
    return "replica" if trial.launch == "dp" else "rank"


def count_of(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def choose_backend(trial: Trial, device: torch.device, shared: bool) -> tuple[str, str]:
    """The process group's backend, and why. Raises RuntimeError for one that cannot be, before ranks wait for it."""
    backend, why = wanted_backend(trial, device, shared)
    if backend == "nccl":
        check_nccl(device, shared)
    if backend == "mpi" and not dist.is_mpi_available():
        raise RuntimeError(f"backend = 'mpi': this torch has no MPI; {WHO_HAS_MPI}. gloo and nccl do without")
    if backend == "gloo" and device.type == "cuda" and (found := needs_point_to_point(trial)):
        raise RuntimeError(f"{found[0]}: {found[1]} (gloo: {why})")
    return backend, why


def wanted_backend(trial: Trial, device: torch.device, shared: bool) -> tuple[str, str]:
    if trial.backend != "auto":
        return trial.backend, "the trial says so"
    if device.type == "cpu":
        return "gloo", "the ranks are on the CPU"
    return ("gloo", "ranks share a GPU, which NCCL refuses") if shared else ("nccl", "the ranks are on GPUs")


def check_nccl(device: torch.device, shared: bool) -> None:
    if device.type == "cpu":
        raise RuntimeError("backend = 'nccl' needs GPUs, and the ranks are on the CPU: backend = 'auto' is gloo there")
    if shared:
        raise RuntimeError("backend = 'nccl' refuses two ranks on one GPU: with share_gpu = true, leave it 'auto'")


def describe(trial: Trial, device: torch.device) -> str:
    """As the table names what a rank computes on, or a replica."""
    several = trial.gpus_per_rank
    if device.type == "cpu":
        threads = "thread" if trial.launch == "dp" else f"{several} threads"
        return f"cpu ({threads}, CPU stand-in)" if trial.launch == "dp" or several > 1 else "cpu"
    return str(device) if several == 1 else f"{device}-{(device.index or 0) + several - 1}"
