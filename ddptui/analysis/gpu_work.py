"""The peak rates of GPUs by name and precision, in 10^12 floating-point operations per second (TFLOPS). Pure.

Rates are dense: figures that datasheets print with 2:4 sparsity are halved. float64 rates use tensor cores if the GPU
has them for float64. fp16 and bf16 rates accumulate in float32, as torch does; GeForce cards accumulate in float16
twice as fast.

Sources: NVIDIA's datasheets of V100, T4, A100, A10, A40, RTX A6000, L4, L40S, H100, H200, GH200 and HGX B200, and its
whitepapers on GA102, Ada and Hopper, in vendors' copies, and the tables of Lightning (fabric/utilities/throughput.py),
torchtitan (tools/utils.py) and Stas Bekman's "Machine Learning Engineering". A figure is left out if these disagree or
none has it: most figures of H100 NVL and RTX 6000 Ada, and float32 on B200 (75 or 80).
"""

import re
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from ddptui.analysis.heartbeats import GpuReading, of_known, part_held_back, watts
from ddptui.analysis.launch_data import LaunchData
from ddptui.analysis.primitive_results import NcclUse
from ddptui.analysis.results import RankResult
from ddptui.text.words import S
from ddptui.wire.messages import Ready, Trained

VOLTA_SXM2 = {"float64": 7.8, "float32": 15.7, "fp16": 125.0}
VOLTA_PCIE = {"float64": 7.0, "float32": 14.0, "fp16": 112.0}
A100 = {"float64": 19.5, "float32": 19.5, "tf32": 156.0, "fp16": 312.0, "bf16": 312.0}
HOPPER_SXM = {"float64": 66.9, "float32": 66.9, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4}

# Patterns match the whole name without the maker's: longer names are other cards (A10G, RTX 3090 Ti, H200 NVL) or parts
# of a GPU with a lower peak (… MIG 1g.10gb).
PEAKS: dict[str, dict[str, float]] = {
    r"V100-SXM2-(16|32)GB": VOLTA_SXM2,
    r"V100-PCIE-(16|32)GB": VOLTA_PCIE,
    r"T4": {"float32": 8.1, "fp16": 65.0},
    r"A100-SXM4-(40|80)GB|A100-PCIE-40GB|A100 80GB PCIe": A100,
    r"A10": {"float32": 31.2, "tf32": 62.5, "fp16": 125.0, "bf16": 125.0},
    r"A40": {"float32": 37.4, "tf32": 74.8, "fp16": 149.7, "bf16": 149.7},
    r"RTX A6000": {"float32": 38.7, "tf32": 77.4, "fp16": 154.8, "bf16": 154.8},
    r"GeForce RTX 3090": {"float32": 35.6, "tf32": 35.6, "fp16": 71.0, "bf16": 71.0},
    r"GeForce RTX 4090": {"float32": 82.6, "tf32": 82.6, "fp16": 165.2, "bf16": 165.2},
    r"RTX 6000 Ada Generation": {"float32": 91.1},
    r"L4": {"float32": 30.3, "tf32": 60.0, "fp16": 121.0, "bf16": 121.0},
    r"L40S": {"float32": 91.6, "tf32": 183.0, "fp16": 362.0, "bf16": 362.0},
    r"H100 80GB HBM3|H200|GH200 (120|480)GB|GH200 144G HBM3e": HOPPER_SXM,
    r"H100 PCIe": {"float64": 51.0, "float32": 51.0, "tf32": 378.0, "fp16": 756.0, "bf16": 756.0},
    r"H100 NVL": {"fp16": 835.0, "bf16": 835.0},
    r"B200": {"tf32": 1125.0, "fp16": 2250.0, "bf16": 2250.0},
}
MAKERS = re.compile(r"^(NVIDIA |Tesla )+")  # older drivers omit NVIDIA, or add Tesla


def peak_tflops(name: str, precision: str) -> float | None:
    """The peak rate of a GPU in TFLOPS; None: unknown. name: as CUDA reports it; precision: as in wire.Ready."""
    model = MAKERS.sub("", name)
    return next((peaks.get(precision) for pattern, peaks in PEAKS.items() if re.fullmatch(pattern, model)), None)


TERA = 1e12


def rank_gpu_figures(log: LaunchData, rank: int) -> dict[str, Any]:
    """The fields of a RankResult about its GPUs; empty for a rank on the CPU."""
    ready, span = log.ready.get(rank), log.span(rank)
    if ready is None or span is None or not ready.gpus:
        return {}
    readings = log.gpu_readings_within(span)
    gpus = [reading.gpu for reading in readings]
    rate, peak = tflops(ready.flops, samples_per_s(span)), rank_peak(ready)
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
