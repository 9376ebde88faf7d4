"""Figures of GPUs for results that have none. All of them are made up: they show how such figures would be drawn."""

from typing import Any

from msgspec.structs import replace

from ddptui.analysis.policy import Caution
from ddptui.analysis.primitive_results import NcclUse
from ddptui.analysis.results import RankResult, RepeatResult, Results, TrialResult

GB = 2**30
NCCL = NcclUse(version="2.28.9", implementation="ProcessGroupNCCL")
OF_RANKS: tuple[dict[str, Any], ...] = (
    {
        "peak_gpu_bytes": 4 * GB,
        "peak_gpu_reserved_bytes": 21 * GB // 4,
        "samples_per_s": 1985.2,
        "tflops": 287.0,
        "mfu": 0.29,
        "gpu_busy": 0.971,
        "peak_gpu_used_bytes": 9 * GB,
        "gpu_total_bytes": 80 * GB,
        "watts": 612.4,
        "sm_mhz": 1410.0,
        "held_back_part": 0.4,
        "joules_a_step": 8.2,
    },
    {
        "peak_gpu_bytes": 5 * GB // 2,
        "peak_gpu_reserved_bytes": 3 * GB,
        "samples_per_s": 2345.6,
        "tflops": 339.0,
        "mfu": 0.343,
        "gpu_busy": 0.64,
        "peak_gpu_used_bytes": 7 * GB,
        "gpu_total_bytes": 80 * GB,
        "watts": 398.0,
        "sm_mhz": 1980.0,
        "joules_a_step": 4.3,
    },
)


def on_gpus(results: Results, **of_repeats: Any) -> Results:
    """The results with these figures in every repeat. of_repeats: figures of a repeat that are to be others."""
    return replace(results, trials=[_trial(trial, of_repeats) for trial in results.trials])


def _trial(trial: TrialResult, changes: dict[str, Any]) -> TrialResult:
    summary = trial.summary and replace(trial.summary, warnings=[*trial.summary.warnings, Caution.HELD_BACK])
    return replace(trial, repeats=[_on_gpus(repeat, changes) for repeat in trial.repeats], summary=summary)


def _on_gpus(repeat: RepeatResult, changes: dict[str, Any]) -> RepeatResult:
    figures = {"nccl": NCCL, "tflops": 313.0, "mfu": 0.3165, "joules_a_step": 12.5} | changes
    return replace(repeat, **{"ranks": [_rank(rank) for rank in repeat.ranks], **figures})


def _rank(rank: RankResult) -> RankResult:
    return replace(rank, **OF_RANKS[rank.rank % len(OF_RANKS)])
