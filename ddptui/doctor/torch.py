"""torch, its GPUs, and ranks that it starts and brings together, each tried in a process of their own."""

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import zmq

from ddptui.doctor.finding import Finding
from ddptui.engines import command
from ddptui.engines.hub import Hub
from ddptui.host.gpus import VISIBLE, is_empty, surely_none
from ddptui.host.machine import installed
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.text.torch_remedies import AGAIN, OLDER, WITH_CUDA
from ddptui.text.units import GB

INTERFACE = "GLOO_SOCKET_IFNAME"
NO_GPU = "none: ranks run on the CPU, and dp is a stand-in with threads"


def torch() -> Iterator[Finding]:
    """All that torch is needed for. Without it, one finding."""
    missing = [name for name in ("torch", "torchvision") if find_spec(name) is None]
    if missing:
        yield Finding(missing[0], "not installed", f"`pip install {' '.join(missing)}`", fatal=True)
        return
    try:
        hub = Hub(1)  # for its folder: a run's launchers leave things behind in one like it
    except (OSError, zmq.ZMQError):
        yield Finding("torch", "not tried: needs a folder for sockets, see there", tried=False)
        return
    with hub, Child("workers.doctor.probe", TMPDIR=str(hub.folder)) as child:
        yield from ask_all(child)


def ask_all(child: Child) -> Iterator[Finding]:
    try:
        facts = child.ask("versions")
    except NoAnswer as why:
        yield Finding("torch", f"{installed('torch')}, cannot be imported: {why}", f"`{AGAIN}`", fatal=True)
        return
    yield Finding("torch", f"{facts['torch']}, torchvision {facts['torchvision']}")
    yield Finding("launch", command.torch_launcher())
    hooks = "seen through the process group's hooks" if facts["group_hooks"] else "seen by wrapping torch's functions"
    yield Finding("collectives", hooks)
    gpus = _gpus(child)
    yield judge_gpus(gpus, facts["gpu_build"], os.environ.get(VISIBLE), _no_gpu_here())
    yield judge_backends(facts["backends"], bool(gpus["gpus"]))
    yield from _meetings(child, facts["backends"], bool(gpus["gpus"]))


def _gpus(child: Child) -> dict[str, Any]:
    try:
        return child.ask("gpus")
    except NoAnswer as why:
        return {"gpus": [], "why_none": str(why)}


def _no_gpu_here() -> bool:
    """Elsewhere than on Linux torch has no CUDA, and there is nothing to mend."""
    return surely_none() or not sys.platform.startswith("linux")


def judge_gpus(told: dict[str, Any], build: str | None, visible: str | None, surely_none: bool) -> Finding:
    """told: what torch sees, and why it sees none; build: the CUDA it was made for; visible: the variable that hides
    GPUs; surely_none: this machine has none that CUDA could use."""
    gpus: Sequence[tuple[str, int]] = told["gpus"]
    why: str = told["why_none"]
    if gpus:
        names = ", ".join(f"{name} ({memory / GB:.0f} GB)" for name, memory in gpus)
        ranks = "one rank, or more that share it" if len(gpus) == 1 else f"{len(gpus)} ranks, or more that share them"
        return Finding("GPUs", f"{names}: for {ranks} (share_gpu = true)")
    if is_empty(visible):
        return Finding("GPUs", f"hidden: {VISIBLE} is {visible!r}", "" if surely_none else f"`unset {VISIBLE}`")
    if surely_none:
        return Finding("GPUs", NO_GPU)
    if build is None:
        return Finding("GPUs", "there, but this torch is built without CUDA", WITH_CUDA)
    if "too old" in why:
        return Finding("GPUs", f"there, but the driver is too old for this torch's CUDA {build}", OLDER)
    if "no NVIDIA driver" in why:
        return Finding("GPUs", "there, but no driver is", "install NVIDIA's driver; `nvidia-smi` must list the GPUs")
    remedy = f"`nvidia-smi` must list the GPUs; {VISIBLE} is {'not set' if visible is None else repr(visible)}"
    return Finding("GPUs", f"there, but torch sees none: {why}", remedy)


def judge_backends(there: Sequence[str], gpu: bool) -> Finding:
    unused = " (nccl needs a GPU)" if "nccl" in there and not gpu else ""
    unused += "" if "mpi" in there else "; mpi: only in a torch that was built from source where an MPI library is"
    if "gloo" not in there:
        return Finding("backends", (", ".join(there) or "none") + unused, f"no gloo: `{AGAIN}`", fatal=True)
    return Finding("backends", ", ".join(there) + unused)


def _meetings(child: Child, backends: Sequence[str], gpu: bool) -> Iterator[Finding]:
    """Ranks that meet and sum, as runs start them."""
    if "gloo" in backends:
        spawn = _meeting(child, "spawn", gloo_remedy(os.environ.get(INTERFACE)), fatal=True)
        yield spawn
        yield _forkserver(child) if not spawn.fatal else Finding("forkserver", "not tried: see spawn", tried=False)
    if not gpu:
        yield Finding("nccl", "not tried: needs a GPU", tried=False)
    elif "nccl" in backends:
        yield _nccl(child)
    else:
        yield Finding("nccl", "this torch has none", f"`{AGAIN}` (on Linux: with NCCL)")


def _forkserver(child: Child) -> Finding:
    return _meeting(child, "forkserver", "leave start_method = 'spawn' in presets")


def gloo_remedy(interface: str | None) -> str:
    """What to do where ranks do not meet; `interface`: the one they are told to meet on."""
    if interface:
        return f"`unset {INTERFACE}` (it is {interface!r}), or name an interface that `ip addr` lists"
    return f"let the firewall pass 127.0.0.1; or try `{INTERFACE}=lo ddptui doctor`"


def _meeting(child: Child, how: str, remedy: str, *, fatal: bool = False) -> Finding:
    try:
        ms = child.ask(how)["sum_s"] * 1000
    except NoAnswer as why:
        return Finding(how, f"two ranks do not meet: {why}", remedy, fatal)
    return Finding(how, f"two ranks met over gloo and summed, in {ms:.1f} ms")


def _nccl(child: Child) -> Finding:
    try:
        told = child.ask("nccl")
    except NoAnswer as why:
        remedy = "`NCCL_DEBUG=INFO` before a run says more; until then `--set device=cpu`"
        return Finding("nccl", f"the first GPU cannot sum: {why}", remedy)
    return Finding("nccl", f"{told['version']}, summed on the first GPU in {told['sum_s'] * 1000:.1f} ms")
