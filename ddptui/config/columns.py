"""The columns of the table that compares trials: what each shows, and when it is empty.

The keys are those that `columns` of a preset takes. ddptui/report/columns.py fills the columns.
"""

from collections.abc import Iterable

from ddptui.config.trial import TrialError
from ddptui.text.words import did_you_mean

MEDIAN = "median over repeats"

MEANINGS: dict[str, str] = {
    "trial": "The trial's name; ◆ marks the baseline.",
    "launch": "The launch mode: what starts the ranks.",
    "ranks": "The world size: the number of ranks, or of replicas under nn.DataParallel.",
    "strategy": "How the ranks average gradients or parameters; empty for launch modes without a process group.",
    "backend": "The library that carries out the collectives: gloo or nccl; empty without a process group.",
    "average": "What is averaged, and how often; empty if it is the gradients of every step.",
    "mistake": "The mistake that the trial makes on purpose; empty if it makes none.",
    "split": "The most samples that each replica of nn.DataParallel got in a step; empty in other launch modes.",
    "memory": "The peak GPU memory of each rank's tensors in the last repeat, in GB of 2^30 bytes; empty without GPUs.",
    "reserved": "The peak GPU memory that torch reserved for each rank in the last repeat; empty without GPUs.",
    "bottleneck": "The delays and slow links that the trial injects: where, how long, on which ranks; else empty.",
    "fault": "The fault that the trial injects: what, in which step, on which rank; empty without one.",
    "slept": f"The length of all delays together, and how often they fired, {MEDIAN}; or empty.",
    "train": f"Seconds from the first measured step to the slowest rank's last optimizer step, {MEDIAN} ± deviation.",
    "spread": "The shortest and the longest train time of the repeats, in seconds; empty for a single repeat.",
    "ratio": f"Train time divided by the baseline's in the same repeat; {MEDIAN}, ± as in train s.",
    "published": "The published ratio to the baseline; empty if the preset has no reference.",
    "speedup": "Samples per second divided by the baseline's; empty if either trial has no figures.",
    "startup": f"Seconds from the launch to the slowest rank's first step, {MEDIAN}; cold: with the import of torch.",
    "samples": f"Samples of all ranks per second of train time, {MEDIAN}.",
    "tflops": "10^12 floating-point operations per second of a rank in its measured steps, counted in forward and "
    f"backward: mean over ranks, {MEDIAN}; empty if they are not counted.",
    "mfu": "Model FLOPs utilization: the TFLOP/s of all ranks in percent of the peak of their GPUs in that precision, "
    f"each GPU counted once; {MEDIAN}; empty if the peak is not known.",
    "energy": f"Joules per step of all GPUs, other programs' use included; {MEDIAN}; empty if the driver reports none.",
    "step": f"Milliseconds per step: median over measured steps of all ranks, {MEDIAN}; empty without instruments.",
    "epoch": "The time of an epoch on the slowest rank, from its first step to its last: median over complete epochs "
    f"without warm-up steps, {MEDIAN}; ~ if none is complete: batch time × batches; empty if these are not known.",
    "batch_time": "The mean time of a batch: train time divided by the number of steps, so with long steps and the "
    f"time between steps, which step ms leaves out; {MEDIAN}.",
    "aggregate": "Milliseconds of a step's aggregation: median over steps, mean over ranks, then "
    f"{MEDIAN}; ² or ³ stands for a median step without aggregation.",
    "wait": "Milliseconds that a rank waits for late ranks in a step: median over steps, mean over ranks, then "
    f"{MEDIAN}; empty if one process trains or the clock error exceeds the waits.",
    "transfer": "Milliseconds in a step in which collectives run and no rank is late, including those in which the "
    "rank computes (Δ transfer counts idle time only): median over steps, mean over ranks, then "
    f"{MEDIAN}; empty like wait ms.",
    "overlap": "The share of the time in collectives during which ranks compute: mean over ranks, "
    f"{MEDIAN}; empty for strategies that send after backward.",
    "culprit": "The rank that the others wait for, and the phase in which it loses its time; empty if none stands out.",
    "loss": f"The mean loss over the last tenth of the steps, {MEDIAN}; for a watched command, the loss of a step "
    "is the sum of all losses on which it called backward(); nan if the mean is not finite.",
    "accuracy": f"Percent of test samples that the trained model gets right, {MEDIAN}; empty without test samples.",
    "sync": "Whether all ranks ended the last repeat with the same parameters and buffers; empty for one process.",
    "mean": "How far the ranks' averaged gradients were from the true mean in the last repeat; empty for one process.",
    "order": "`same` if every epoch of the last repeat had the samples in the same order; else empty.",
    "delta": "Seconds by which the trial took longer than the baseline: the sum of the columns that follow. All are of "
    "the repeat with the median train time; empty for the baseline.",
    "delta_work": "The part of Δ s in own work: mean over the ranks that wait, all but the rank under waits for.",
    "delta_delay": "The part of Δ s in delays injected into these ranks; empty if none was.",
    "delta_wait": "The part of Δ s in which these ranks waited for late ranks.",
    "delta_transfer": "The part of Δ s in which these ranks stood idle for transfers. Unlike transfer ms, it leaves "
    "out transfers during which they compute.",
    "delta_rest": "The rest of Δ s: steps that cannot be compared, standstills, and time that was not measured.",
}


def check_columns(keys: Iterable[str], path: str = "columns") -> None:
    """Check that each key is a column's. path: where the keys stand. Raises TrialError."""
    for index, key in enumerate(keys):
        if key not in MEANINGS:
            hint = did_you_mean(key, MEANINGS, "`ddptui columns` lists them")
            raise TrialError(f"{path}[{index}]", f"no column {key!r}; {hint}")
