"""The columns that compare trials, by the key that a preset's `columns` takes: what each shows, and when it is empty.

ddptui/report/columns.py fills them.
"""

from collections.abc import Iterable

from ddptui.config.trial import TrialError
from ddptui.text.words import did_you_mean

MEDIAN = "median over repeats"

MEANINGS: dict[str, str] = {
    "trial": "The trial's name; ◆ marks the baseline.",
    "launch": "What starts the ranks.",
    "ranks": "The world size: the number of ranks, or of replicas under nn.DataParallel.",
    "strategy": "How the ranks average; empty for a launch mode that has its own way.",
    "backend": "What carries the collectives: gloo or nccl; empty without a process group.",
    "average": "What is averaged, and how often; empty where it is the gradients of every step.",
    "mistake": "The mistake that the trial makes on purpose; empty if it makes none.",
    "split": "The most samples that each replica of nn.DataParallel got in a step; empty in other launch modes.",
    "memory": "The most GPU memory of each rank's tensors in the last repeat, in GB of 2^30 bytes; empty without GPUs.",
    "reserved": "The most GPU memory torch held for each rank in the last repeat, used or not; empty without GPUs.",
    "bottleneck": "The delays that the trial asks for: where, how long, on which ranks; empty without any.",
    "fault": "The fault that the trial asks for: what, in which step, on which rank; empty without one.",
    "slept": f"How often delays fired, and how long they took, summed over ranks; {MEDIAN}; empty without delays.",
    "train": f"Seconds from the first measured step to the slowest rank's last optimizer step, {MEDIAN} ± deviation.",
    "spread": "The shortest and the longest train time of the repeats, in seconds; empty for a single repeat.",
    "ratio": f"Train time over the baseline's of the same repeat; {MEDIAN}, ± as in train s.",
    "published": "The published ratio to the baseline; empty where the preset names no reference.",
    "speedup": "Samples per second over the baseline's; empty where one of the two has no figures.",
    "startup": f"Seconds from the launch to the slowest rank's first step, {MEDIAN}; cold: torch is imported.",
    "samples": f"Samples of all ranks per second of train time, {MEDIAN}.",
    "tflops": "10^12 floating-point operations per second that a rank made in its measured steps, as counted for "
    f"forward and backward: mean over ranks, {MEDIAN}; empty where they are not counted.",
    "mfu": "The TFLOP/s of all ranks in percent of what their GPUs can do in that precision (model FLOPs "
    f"utilization), each GPU counted once; {MEDIAN}; empty where this peak is not known.",
    "energy": f"Joules per step of all GPUs, other programs' use included; {MEDIAN}; empty if the driver reports none.",
    "step": f"Milliseconds per step: median over measured steps of all ranks, {MEDIAN}; empty without instruments.",
    "aggregate": "Milliseconds of a step's aggregation: median over steps, mean over ranks, then "
    f"{MEDIAN}; ² and ³ stand where the median step has none.",
    "wait": "Milliseconds that a rank waits for late ranks in a step: median over steps, mean over ranks, then "
    f"{MEDIAN}; empty where one process trains or the clock error exceeds the waits.",
    "transfer": "Milliseconds in a step during which collectives are under way and no rank is missing, even if the "
    "rank computes meanwhile (Δ transfer counts idle time only): median over steps, mean over ranks, then "
    f"{MEDIAN}; empty like wait ms.",
    "overlap": "The part of the time with collectives under way in which ranks compute: mean over ranks, "
    f"{MEDIAN}; empty for strategies that send after backward.",
    "culprit": "The rank that the others wait for, and the phase in which it loses its time; empty if none stands out.",
    "loss": f"The mean loss over the last tenth of the steps, {MEDIAN}; of a watched step, the sum of those on "
    "which it called backward; nan if it is not finite.",
    "accuracy": f"Percent of test samples that the trained model gets right, {MEDIAN}; empty without test samples.",
    "sync": "Whether all ranks ended the last repeat with the same parameters and buffers; empty for one copy.",
    "mean": "What the ranks made of the gradients in the last repeat, against their true mean; empty without a group.",
    "order": "`same` if every epoch of the last repeat had the order of the one before; else empty.",
    "delta": "Seconds by which the trial took longer than the baseline: the sum of the columns that follow. All are of "
    "the repeat with the median train time; empty for the baseline.",
    "delta_work": "The part of Δ s in the ranks' own work: mean over those that wait, all but the one under waits for.",
    "delta_delay": "The part of Δ s in delays that were injected into these ranks; empty if none was.",
    "delta_wait": "The part of Δ s in which these ranks waited for late ones.",
    "delta_transfer": "The part of Δ s in which these ranks stood idle for transfers, while transfer ms also counts "
    "those during which they compute.",
    "delta_rest": "The part of Δ s in none of the others: incomparable steps, standstills, what is not seen.",
}


def check_columns(keys: Iterable[str]) -> None:
    """Refuse a key that no column has. Raises TrialError."""
    for index, key in enumerate(keys):
        if key not in MEANINGS:
            hint = did_you_mean(key, MEANINGS, "`ddptui columns` lists them")
            raise TrialError(f"columns[{index}]", f"no column {key!r}; {hint}")
