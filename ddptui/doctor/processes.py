"""Checks with the help of another process: its clock and scheduling, torch, the GPUs that it sees, and ranks that
it starts.

Whatever needs torch runs in a separate process.
"""

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psutil
import zmq

from ddptui.doctor.machine import CheckResult, finest_tick_ns
from ddptui.engines import base
from ddptui.engines.checks import torch_problem
from ddptui.engines.gpu_checks import GpuInfo, lacking, look_at_gpus
from ddptui.engines.rank_server import RankServer
from ddptui.host.gpus import VISIBLE, surely_none
from ddptui.host.machine import installed
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.text.words import AGAIN, GB, OLDER, count

MODULE = "workers.doctor.host"
COARSEST_NS = 100_000  # allowed clock resolution: phases of a small model take about 1 ms
DEATH_S = 5.0  # time within which a dependent process must have ended
LOOK_S = 0.01
CLOCK_REMEDY = (
    "waits are measured across processes: run all ranks on one host, in one container; `ddptui selftest` checks them"
)
ORPHANS_REMEDY = "after a crash, look for leftover ranks: `pgrep -af workers`"


def clock() -> Iterator[CheckResult]:
    """Checks whether processes share a clock: waits and transfers are computed from the times of several processes."""
    with Child(MODULE) as child:
        try:
            child.ask("clock")  # the first answer also includes the start of the process
            before = time.monotonic_ns()
            reading: int = child.ask("clock")["ns"]
            yield clock_finding(before, reading, time.monotonic_ns(), finest_tick_ns())
        except NoAnswer as why:
            yield CheckResult("clock", str(why), CLOCK_REMEDY)


def clock_finding(before_ns: int, reading_ns: int, after_ns: int, tick_ns: int) -> CheckResult:
    """The finding about the clock: another process's reading must lie between two readings of this one. tick_ns: the
    clock's smallest step."""
    if not before_ns <= reading_ns <= after_ns:
        apart_ms = min(abs(reading_ns - before_ns), abs(reading_ns - after_ns)) / 1e6
        return CheckResult("clock", f"the clocks of two processes differ by {apart_ms:.3g} ms", CLOCK_REMEDY)
    coarse = not 0 < tick_ns <= COARSEST_NS
    remedy = "shorter phases are measured as 0: use a newer kernel or another clock source" if coarse else ""
    return CheckResult("clock", f"the same in another process, in steps of {tick_ns / 1000:.3g} µs", remedy)


def scheduler() -> Iterator[CheckResult]:
    """Checks whether ranks can run under SCHED_BATCH."""
    with Child(MODULE) as child:
        try:
            why = "" if child.ask("scheduler")["taken"] else "the kernel ignored the request"
        except NoAnswer as error:
            why = str(error)
    remedy = "`--set sched_batch=false` for presets that ask for it" if why else ""
    yield CheckResult("scheduler", f"SCHED_BATCH: {why}" if why else "SCHED_BATCH works (sched_batch = true)", remedy)


def orphans() -> Iterator[CheckResult]:
    """Checks whether ranks end when their parent or the console is killed, by trying both."""
    with Child(MODULE) as child:
        try:
            pids = child.ask("dependants")
        except NoAnswer as why:
            yield CheckResult("orphans", f"cannot be checked: {why}", ORPHANS_REMEDY)
            return
        ranks = {on: psutil.Process(pid) for on, pid in pids.items()}
        child.kill_alone()
        gone = {on: _is_gone(rank) for on, rank in ranks.items()}
        yield orphans_finding(gone)


def orphans_finding(gone: dict[str, bool]) -> CheckResult:
    """The finding about orphans. gone: for "parent" and "console", whether a rank ended in time after that process was
    killed."""
    survived = [on for on, ended in gone.items() if not ended]
    if not survived:
        return CheckResult("orphans", "ranks die with their launcher (prctl) and the console (pidfd)")
    return CheckResult("orphans", f"a rank outlives its {' and its '.join(survived)}", ORPHANS_REMEDY)


def _is_gone(process: psutil.Process) -> bool:
    """Whether a process ends within DEATH_S. A zombie counts as ended: it may have no parent to reap it."""
    until = time.monotonic() + DEATH_S
    while time.monotonic() < until:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(LOOK_S)
    return False


INTERFACE = "GLOO_SOCKET_IFNAME"
OF_TORCH = {  # part of torch's error when it sees no GPU, and the remedy
    "too old": OLDER,
    "no NVIDIA driver": "install NVIDIA's driver; `nvidia-smi` must list the GPUs",
}
NO_GPU = (
    "none found (no /dev/nvidia*): ranks run on the CPU, and dp simulates replicas with threads; in a container: "
    "`docker run --gpus all`"
)


def torch() -> Iterator[CheckResult]:
    """Checks everything that needs torch; yields a single finding if torch is not installed."""
    if problem := torch_problem():
        yield CheckResult("torch", *problem, fatal=True)
        return
    try:
        hub = RankServer(1)  # only for its temporary folder, in which torch's launchers leave files
    except (OSError, zmq.ZMQError):
        yield CheckResult("torch", "not tried: it needs a folder for sockets (see sockets)", tried=False)
        return
    with hub, Child("workers.doctor.probe", TMPDIR=str(hub.folder)) as child:
        yield from torch_findings(child)


def torch_findings(child: Child) -> Iterator[CheckResult]:
    """The findings of a process that imports torch: versions, GPUs, backends, and ranks that connect."""
    try:
        facts = child.ask("versions")
    except NoAnswer as why:
        yield CheckResult("torch", f"{installed('torch')}, cannot be imported: {why}", f"`{AGAIN}`", fatal=True)
        return
    yield CheckResult("torch", f"{facts['torch']}, torchvision {facts['torchvision']}")
    yield CheckResult("launch", base.torch_launcher())
    how = "through the process group's hooks" if facts["group_hooks"] else "by wrapping torch's functions"
    yield CheckResult("collectives", f"observed {how}")
    try:
        seen = child.ask("gpus")
    except NoAnswer as why:
        seen = {"gpus": [], "why_none": str(why)}
    has_gpu = bool(seen["gpus"])
    yield gpus_finding(seen, look_at_gpus(), NO_GPU if surely_none() else "")
    yield backends_finding(facts["backends"], has_gpu)
    yield from _meetings(child, facts["backends"], has_gpu)


def gpus_finding(seen: dict[str, Any], machine: GpuInfo, none: str) -> CheckResult:
    """The finding about the GPUs that torch can use. seen: the GPUs that torch sees, or why it sees none. none: why
    this machine certainly has no GPU; empty: it may have one."""
    names: Sequence[tuple[str, int]] = seen["gpus"]  # names with bytes of memory
    if names:
        listed = ", ".join(f"{name} ({memory / GB:.0f} GB)" for name, memory in names)
        return CheckResult(
            "GPUs", f"{listed}: for {count(len(names), 'rank')}, or more that share GPUs (share_gpu = true)"
        )
    if none:
        return CheckResult("GPUs", none)
    if problem := lacking(machine):
        return CheckResult("GPUs", *problem)
    why: str = seen["why_none"]
    visible = "not set" if machine.visible is None else repr(machine.visible)
    default = f"`nvidia-smi` must list the GPUs; {VISIBLE} is {visible}"
    remedy = next((remedy for part, remedy in OF_TORCH.items() if part in why), default)
    return CheckResult("GPUs", f"present, but torch sees none: {why}", remedy)


def backends_finding(backends: Sequence[str], gpu: bool) -> CheckResult:
    """The finding about the backends of this torch; without gloo nothing runs."""
    unused = " (nccl needs a GPU)" if "nccl" in backends and not gpu else ""
    unused += "" if "mpi" in backends else "; mpi: only in a torch built from source with an MPI library"
    has_gloo = "gloo" in backends
    remedy = "" if has_gloo else f"no gloo: `{AGAIN}`"
    return CheckResult("backends", (", ".join(backends) or "none") + unused, remedy, fatal=not has_gloo)


def _meetings(child: Child, backends: Sequence[str], gpu: bool) -> Iterator[CheckResult]:
    """Checks whether ranks, started as in a run, connect and all-reduce."""
    if "gloo" in backends:
        spawn = _meeting(child, "spawn", gloo_remedy(os.environ.get(INTERFACE)), fatal=True)
        yield spawn
        if spawn.fatal:
            yield CheckResult("forkserver", "not tried: see spawn", tried=False)
        else:
            yield _meeting(child, "forkserver", "keep start_method = 'spawn' in presets")
    if not gpu:
        yield CheckResult("nccl", "not tried: needs a GPU", tried=False)
    elif "nccl" not in backends:
        yield CheckResult("nccl", "missing in this torch", f"`{AGAIN}` (on Linux: with NCCL)")
    else:
        try:
            answer = child.ask("nccl")
        except NoAnswer as why:
            remedy = "set `NCCL_DEBUG=INFO` in a run for details; until it works, use `--set device=cpu`"
            yield CheckResult("nccl", f"a sum on the first GPU failed: {why}", remedy)
        else:
            summed = f"summed on the first GPU in {answer['sum_s'] * 1000:.1f} ms"
            yield CheckResult("nccl", f"{answer['nccl']}, {summed}")


def gloo_remedy(interface: str | None) -> str:
    """The remedy if ranks cannot connect. interface: the value of GLOO_SOCKET_IFNAME."""
    if interface:
        return f"`unset {INTERFACE}` (it is {interface!r}), or name an interface that `ip addr` lists"
    return f"allow 127.0.0.1 in the firewall; or try `{INTERFACE}=lo ddptui doctor`"


def _meeting(child: Child, how: str, remedy: str, *, fatal: bool = False) -> CheckResult:
    try:
        ms = child.ask(how)["sum_s"] * 1000
    except NoAnswer as why:
        return CheckResult(how, f"two ranks cannot connect: {why}", remedy, fatal)
    return CheckResult(how, f"two ranks connected over gloo and summed, in {ms:.1f} ms")
