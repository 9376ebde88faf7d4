"""Figures of the ranks' GPUs: operations per second, share of the peak (MFU), clocks, energy, and NCCL version. Pure.

Model FLOPs utilization (MFU) is the observed rate of the model's own operations over the peak of the system: Chowdhery
et al., "PaLM: Scaling Language Modeling with Pathways", 2022, appendix B. A rank's MFU is its rate over the peak of its
GPUs. If ranks share a GPU, the MFU of that GPU is their sum; the MFU of a repeat counts each GPU once.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from ddptui.analysis.gpu_peaks import peak_tflops
from ddptui.analysis.gpu_readings import GpuReading, of_known, part_held_back, watts
from ddptui.analysis.launch_log import LaunchData
from ddptui.analysis.primitives.results import NcclUse
from ddptui.analysis.results import RankResult
from ddptui.text.words import S
from ddptui.wire.messages import Ready, Trained

TERA = 1e12


def rank_gpu_figures(log: LaunchData, rank: int) -> dict[str, Any]:
    """The fields of a RankResult about its GPUs; empty for a rank on the CPU."""
    ready, span = log.ready.get(rank), log.span(rank)
    if ready is None or span is None or not ready.gpus:
        return {}
    readings = log.gpu_readings.within(span)
    gpus = [reading.gpu for reading in readings]
    rate, peak = rank_tflops(ready, span), rank_peak(ready)
    busy_percent = of_known(fmean, (gpu.busy_percent for gpu in gpus))
    return {
        "samples_per_s": samples_per_s(span) or None,
        "tflops": rate,
        "mfu": rate / peak if rate is not None and peak else None,
        "gpu_busy": None if busy_percent is None else busy_percent / 100,
        "peak_gpu_used_bytes": of_known(max, (gpu.used_bytes for gpu in gpus)),
        "gpu_total_bytes": of_known(max, (gpu.total_bytes for gpu in gpus)),
        "watts": watts(readings),
        "sm_mhz": of_known(median, (gpu.sm_mhz for gpu in gpus)),
        "held_back_part": part_held_back(readings),
        "joules_a_step": joules_a_step(ready, span, span.steps, readings),
    }


def rank_tflops(ready: Ready, span: Trained) -> float | None:
    """A rank's rate over its measured steps, in 10^12 operations per second. None: operations were not counted."""
    return tflops(ready.flops, samples_per_s(span))


def samples_per_s(span: Trained) -> float | None:
    """A rank's samples per second over its measured steps. None: the measured time is 0."""
    ns = span.end_ns - span.begin_ns
    return span.samples / (ns / S) if ns > 0 else None


def tflops(flops: float | None, samples_per_s: float | None) -> float | None:
    """10^12 operations per second; None if either is unknown. flops: operations per sample, as in Ready."""
    return flops * samples_per_s / TERA if flops is not None and samples_per_s is not None else None


def rank_peak(ready: Ready) -> float | None:
    """The combined peak of all GPUs of a rank, in TFLOPS. None: one of them is unknown."""
    peaks = [peak_tflops(gpu.name, ready.precision) for gpu in ready.gpus]
    known = [peak for peak in peaks if peak is not None]
    return sum(known) if known and len(known) == len(peaks) else None


def joules_a_step(ready: Ready, span: Trained, made: int, readings: Sequence[GpuReading]) -> float | None:
    """The mean energy per step of a rank's GPU, in J, other programs included. made: number of steps. None: unknown, or
    the rank has several GPUs (heartbeats report only the first)."""
    power = watts(readings)
    if power is None or len(ready.gpus) != 1 or made == 0:
        return None
    return power * (span.end_ns - span.begin_ns) / S / made


def repeat_gpu_figures(log: LaunchData, ranks: Sequence[RankResult]) -> dict[str, Any]:
    """The fields of a RepeatResult about GPUs; a field is None if any rank lacks it."""
    all_tflops = [rank.tflops for rank in ranks if rank.tflops is not None]
    is_whole = 0 < len(all_tflops) == len(ranks)
    peak = peak_of_all(log, ranks)
    return {
        "nccl": nccl_use(log),
        "tflops": fmean(all_tflops) if is_whole else None,
        "mfu": sum(all_tflops) / peak if is_whole and peak else None,
        "joules_a_step": joules_of_all(log, ranks),
    }


def peak_of_all(log: LaunchData, ranks: Sequence[RankResult]) -> float | None:
    """The combined peak of all GPUs, each counted once, in TFLOPS. None: a peak is unknown, or which ranks share a
    GPU."""
    readies = [log.ready[rank.rank] for rank in ranks if rank.rank in log.ready]
    peaks = {gpu.uuid: peak_tflops(gpu.name, ready.precision) for ready in readies for gpu in ready.gpus}
    known = [peak for uuid, peak in peaks.items() if uuid and peak is not None]
    return sum(known) if known and len(known) == len(peaks) else None


def joules_of_all(log: LaunchData, ranks: Sequence[RankResult]) -> float | None:
    """The energy per step of all GPUs, in J. Each GPU counts once, since ranks that share one read the same counter."""
    by_gpu: dict[str, float] = {}
    for rank in ranks:
        ready = log.ready.get(rank.rank)
        if ready is None or len(ready.gpus) != 1 or not ready.gpus[0].uuid or rank.joules_a_step is None:
            return None
        by_gpu.setdefault(ready.gpus[0].uuid, rank.joules_a_step)
    return sum(by_gpu.values()) if by_gpu else None


def nccl_use(log: LaunchData) -> NcclUse | None:
    """The NCCL that the ranks use, from the first rank that reports one."""
    reported = (ready.nccl for _, ready in sorted(log.ready.items()) if ready.nccl)
    uses = (NcclUse(version=nccl.version, implementation=nccl.implementation) for nccl in reported)
    return next(uses, None)
