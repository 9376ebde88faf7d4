"""Whether the figures that only GPUs have are there, and are possible ones. Pure."""

from ddptui.analysis.results import RankResult, RepeatResult, Results
from ddptui.doctor.gpu_report.check import Observed
from ddptui.doctor.gpu_report.training import repeats
from ddptui.text.units import digits, percent, size
from ddptui.text.words import listed


def figures_told(results: Results) -> list[Observed]:
    """For each trial what its GPUs did: TFLOP/s, MFU, energy, clocks and memory; each of them must be there."""
    return [figures_of(name, repeat) for name, repeat in repeats(results)]


def figures_of(name: str, repeat: RepeatResult) -> Observed:
    """The figures of one repeat."""
    problems = [*impossible(repeat), *(problem for rank in repeat.ranks for problem in lacking(rank))]
    if problems:
        return Observed(False, f"{name}: {listed(list(dict.fromkeys(problems)))}")
    clocks = " and ".join(f"{digits(rank.sm_mhz)} MHz" for rank in repeat.ranks)
    figures = [
        f"{digits(repeat.tflops)} TFLOP/s", f"MFU {percent(repeat.mfu)}", f"{digits(repeat.joules_a_step)} J a step",
        clocks,
        *(f"{size(rank.peak_gpu_bytes)} of {size(rank.peak_gpu_reserved_bytes)} reserved" for rank in repeat.ranks),
    ]  # fmt: skip
    return Observed(True, f"{name}: {', '.join(figures)}")


def impossible(repeat: RepeatResult) -> list[str]:
    """What is missing in a repeat, or cannot be."""
    problems = [] if repeat.tflops is not None and repeat.tflops > 0 else ["no TFLOP/s"]
    if repeat.mfu is None:
        problems.append("no MFU (does ddptui know this GPU's peak?)")
    elif not 0 < repeat.mfu <= 1:
        problems.append(f"MFU {percent(repeat.mfu)}")
    return problems + ([] if repeat.joules_a_step else ["no joules a step"])


def lacking(rank: RankResult) -> list[str]:
    """What is missing of a rank, or cannot be."""
    problems = [] if rank.sm_mhz else ["no clock of the GPU"]
    taken, reserved = rank.peak_gpu_bytes, rank.peak_gpu_reserved_bytes
    if taken is None or reserved is None:
        return [*problems, "no memory taken, or none reserved"]
    return problems + ([f"{size(taken)} taken of {size(reserved)} reserved"] if taken > reserved else [])


def nccl_named(results: Results, implementation: str = "") -> list[Observed]:
    """Whether each trial over NCCL names its version and torch's class around it, the one that was asked for; others
    name none."""
    return [_nccl_of(name, repeat, implementation) for name, repeat in repeats(results)]


def _nccl_of(name: str, repeat: RepeatResult, implementation: str) -> Observed:
    nccl = repeat.nccl
    if repeat.backend != "nccl":
        return Observed(nccl is None, f"{name}: NCCL named, over {repeat.backend}" if nccl else "")
    if nccl is None:
        return Observed(False, f"{name}: NCCL's version is not reported")
    right = implementation in ("", nccl.implementation)
    return Observed(right and bool(nccl.version), f"{name}: NCCL {nccl.version}, {nccl.implementation}")
