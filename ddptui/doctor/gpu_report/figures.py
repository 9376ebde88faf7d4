"""Whether the figures that only GPUs have are there, and are possible ones. Pure."""

from collections.abc import Sequence

from ddptui.analysis.gpu_work import rank_peak
from ddptui.analysis.results import RepeatResult, Results
from ddptui.doctor.gpu_report.check import Observed, Recorded
from ddptui.doctor.gpu_report.training import repeats
from ddptui.text.units import digits, percent, size
from ddptui.text.words import listed
from ddptui.wire.messages import Ready

BEATS_S = 3.0  # a shorter training may have less than two heartbeats, by which clocks and energy are read


def figures_told(recorded: Recorded) -> list[Observed]:
    """For each trial what its GPUs did: TFLOP/s, MFU, energy, clocks and memory; each of them must be there."""
    return [
        figures_of(name, repeat, [message for message in recorded.messages[name] if isinstance(message, Ready)])
        for name, repeat in repeats(recorded.results)
    ]


def figures_of(name: str, repeat: RepeatResult, readies: Sequence[Ready]) -> Observed:
    """The figures of one repeat. readies: what its ranks told of their GPUs."""
    problems = [*of_work(repeat, readies), *of_heartbeats(repeat), *of_memory(repeat)]
    if problems:
        return Observed(False, f"{name}: {listed(list(dict.fromkeys(problems)))}")
    clocks = " and ".join(f"{digits(rank.sm_mhz)} MHz" for rank in repeat.ranks)
    figures = [
        f"{digits(repeat.tflops)} TFLOP/s", f"MFU {percent(repeat.mfu)}", f"{digits(repeat.joules_a_step)} J a step",
        clocks,
        *(f"{size(rank.peak_gpu_bytes)} of {size(rank.peak_gpu_reserved_bytes)} reserved" for rank in repeat.ranks),
    ]  # fmt: skip
    return Observed(True, f"{name}: {', '.join(figures)}")


def of_work(repeat: RepeatResult, readies: Sequence[Ready]) -> list[str]:
    """What is missing of TFLOP/s and MFU, or cannot be. A GPU whose peak is not known has no MFU."""
    problems = [] if repeat.tflops is not None and repeat.tflops > 0 else ["no TFLOP/s"]
    if not readies or not all(ready.gpus for ready in readies):
        return [*problems, "a rank names no GPU"]
    if repeat.mfu is None:
        is_known = all(rank_peak(ready) is not None for ready in readies)
        return [*problems, "no MFU, although the peak is known"] if is_known else problems
    return problems if 0 < repeat.mfu <= 1 else [*problems, f"MFU {percent(repeat.mfu)}"]


def of_heartbeats(repeat: RepeatResult) -> list[str]:
    """What is missing of clocks and energy, if the training was long enough for it."""
    if repeat.train_time_s < BEATS_S:
        return []
    problems = [] if all(rank.sm_mhz for rank in repeat.ranks) else ["no clock of the GPU"]
    return problems if repeat.joules_a_step else [*problems, "no joules a step"]


def of_memory(repeat: RepeatResult) -> list[str]:
    """What is missing of memory, or cannot be."""
    problems = []
    for rank in repeat.ranks:
        taken, reserved = rank.peak_gpu_bytes, rank.peak_gpu_reserved_bytes
        if taken is None or reserved is None:
            problems.append("no memory taken, or none reserved")
        elif taken > reserved:
            problems.append(f"{size(taken)} taken of {size(reserved)} reserved")
    return problems


def nccl_named(results: Results, implementation: str) -> list[Observed]:
    """Whether each trial over NCCL names its version and torch's class around it, the one that was asked for; others
    name none."""
    return [_nccl_of(name, repeat, implementation) for name, repeat in repeats(results)]


def _nccl_of(name: str, repeat: RepeatResult, implementation: str) -> Observed:
    nccl = repeat.nccl
    if repeat.backend != "nccl":
        return Observed(nccl is None, f"{name}: NCCL named, over {repeat.backend}" if nccl else "")
    if nccl is None:
        return Observed(False, f"{name}: NCCL's version is not reported")
    right = bool(nccl.version) and nccl.implementation == implementation
    return Observed(right, f"{name}: NCCL {nccl.version}, {nccl.implementation}")
