"""Checks torch, the GPUs that it sees, and ranks that it starts. Whatever needs torch runs in a separate process."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import zmq

from ddptui.doctor.finding import Finding
from ddptui.engines import base
from ddptui.engines.checks import torch_problem
from ddptui.engines.gpu_checks import GpuInfo, lacking, look_at_gpus
from ddptui.engines.rank_server import RankServer
from ddptui.host.gpus import VISIBLE, surely_none
from ddptui.host.machine import installed
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.text.words import AGAIN, GB, OLDER, count

INTERFACE = "GLOO_SOCKET_IFNAME"
OF_TORCH = {  # part of torch's error when it sees no GPU, and the remedy
    "too old": OLDER,
    "no NVIDIA driver": "install NVIDIA's driver; `nvidia-smi` must list the GPUs",
}
ON_THE_CPU = "ranks run on the CPU, and dp simulates replicas with threads"


def torch() -> Iterator[Finding]:
    """Checks everything that needs torch; yields a single finding if torch is not installed."""
    if problem := torch_problem():
        yield Finding("torch", *problem, fatal=True)
        return
    try:
        hub = RankServer(1)  # only for its temporary folder, in which torch's launchers leave files
    except (OSError, zmq.ZMQError):
        yield Finding("torch", "not tried: it needs a folder for sockets (see sockets)", tried=False)
        return
    with hub, Child("workers.doctor.probe", TMPDIR=str(hub.folder)) as child:
        yield from torch_findings(child)


def torch_findings(child: Child) -> Iterator[Finding]:
    """The findings of a process that imports torch: versions, GPUs, backends, and ranks that connect."""
    try:
        facts = child.ask("versions")
    except NoAnswer as why:
        yield Finding("torch", f"{installed('torch')}, cannot be imported: {why}", f"`{AGAIN}`", fatal=True)
        return
    yield Finding("torch", f"{facts['torch']}, torchvision {facts['torchvision']}")
    yield Finding("launch", base.torch_launcher())
    how = "through the process group's hooks" if facts["group_hooks"] else "by wrapping torch's functions"
    yield Finding("collectives", f"observed {how}")
    try:
        seen = child.ask("gpus")
    except NoAnswer as why:
        seen = {"gpus": [], "why_none": str(why)}
    has_gpu = bool(seen["gpus"])
    yield gpus_finding(seen, look_at_gpus(), no_gpu(sys.platform))
    yield backends_finding(facts["backends"], has_gpu)
    yield from _meetings(child, facts["backends"], has_gpu)


def no_gpu(platform: str) -> str:
    """Why this machine certainly has no GPU that CUDA could use; empty: it may have one. platform: sys.platform."""
    if surely_none():
        return f"none found (no /dev/nvidia*): {ON_THE_CPU}; in a container: `docker run --gpus all`"
    return "" if platform.startswith("linux") else f"none: torch has no CUDA on this system: {ON_THE_CPU}"


def gpus_finding(seen: dict[str, Any], machine: GpuInfo, none: str) -> Finding:
    """The finding about the GPUs that torch can use. seen: the GPUs that torch sees, or why it sees none. none: the
    result of `no_gpu`."""
    names: Sequence[tuple[str, int]] = seen["gpus"]  # names with bytes of memory
    if names:
        listed = ", ".join(f"{name} ({memory / GB:.0f} GB)" for name, memory in names)
        return Finding("GPUs", f"{listed}: for {count(len(names), 'rank')}, or more that share GPUs (share_gpu = true)")
    if none:
        return Finding("GPUs", none)
    if problem := lacking(machine):
        return Finding("GPUs", *problem)
    why: str = seen["why_none"]
    visible = "not set" if machine.visible is None else repr(machine.visible)
    usual = f"`nvidia-smi` must list the GPUs; {VISIBLE} is {visible}"
    remedy = next((remedy for part, remedy in OF_TORCH.items() if part in why), usual)
    return Finding("GPUs", f"present, but torch sees none: {why}", remedy)


def backends_finding(backends: Sequence[str], gpu: bool) -> Finding:
    """The finding about the backends of this torch; without gloo nothing runs."""
    unused = " (nccl needs a GPU)" if "nccl" in backends and not gpu else ""
    unused += "" if "mpi" in backends else "; mpi: only in a torch built from source with an MPI library"
    has_gloo = "gloo" in backends
    remedy = "" if has_gloo else f"no gloo: `{AGAIN}`"
    return Finding("backends", (", ".join(backends) or "none") + unused, remedy, fatal=not has_gloo)


def _meetings(child: Child, backends: Sequence[str], gpu: bool) -> Iterator[Finding]:
    """Checks whether ranks, started as in a run, connect and all-reduce."""
    if "gloo" in backends:
        spawn = _meeting(child, "spawn", gloo_remedy(os.environ.get(INTERFACE)), fatal=True)
        yield spawn
        if spawn.fatal:
            yield Finding("forkserver", "not tried: see spawn", tried=False)
        else:
            yield _meeting(child, "forkserver", "keep start_method = 'spawn' in presets")
    if not gpu:
        yield Finding("nccl", "not tried: needs a GPU", tried=False)
    elif "nccl" not in backends:
        yield Finding("nccl", "missing in this torch", f"`{AGAIN}` (on Linux: with NCCL)")
    else:
        try:
            answer = child.ask("nccl")
        except NoAnswer as why:
            remedy = "set `NCCL_DEBUG=INFO` in a run for details; until it works, use `--set device=cpu`"
            yield Finding("nccl", f"a sum on the first GPU failed: {why}", remedy)
        else:
            summed = f"summed on the first GPU in {answer['sum_s'] * 1000:.1f} ms"
            yield Finding("nccl", f"{answer['nccl']}, {summed}")


def gloo_remedy(interface: str | None) -> str:
    """The remedy if ranks cannot connect. interface: the value of GLOO_SOCKET_IFNAME."""
    if interface:
        return f"`unset {INTERFACE}` (it is {interface!r}), or name an interface that `ip addr` lists"
    return f"allow 127.0.0.1 in the firewall; or try `{INTERFACE}=lo ddptui doctor`"


def _meeting(child: Child, how: str, remedy: str, *, fatal: bool = False) -> Finding:
    try:
        ms = child.ask(how)["sum_s"] * 1000
    except NoAnswer as why:
        return Finding(how, f"two ranks cannot connect: {why}", remedy, fatal)
    return Finding(how, f"two ranks connected over gloo and summed, in {ms:.1f} ms")
