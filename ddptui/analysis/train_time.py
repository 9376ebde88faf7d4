"""Splits a train time into median steps, long steps, and time between steps and epochs. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from ddptui.analysis.results import LongStep, TimeParts
from ddptui.text.words import MS, S
from ddptui.wire.messages import Step

LONG = 2  # times the median: from here on a step is long
NAMED = 3  # long steps to list


def time_parts(ranks: Mapping[int, Sequence[Step]], steps: int, median_ms: float, train_time_s: float) -> TimeParts:
    """The parts of the train time, means over ranks. ranks: the measured steps that were kept; steps: number of steps
    made; median_ms: median over all ranks' steps."""
    longest: dict[int, float] = {}  # number of a long step -> its time on the slowest rank, in ms
    parts = [_of_rank(of_rank, steps / len(of_rank), median_ms, longest) for of_rank in ranks.values()]
    long_s, between_steps_s, between_epochs_s = map(fmean, zip(*parts, strict=True))
    median_s = median_ms * steps * MS / S
    return TimeParts(
        median_s=median_s,
        long_s=long_s,
        between_steps_s=between_steps_s,
        between_epochs_s=between_epochs_s,
        others_s=train_time_s - median_s - long_s - between_steps_s - between_epochs_s,
        long_steps=round(len(longest) * steps / max(map(len, ranks.values()))),
        longest=[
            LongStep(step=number, ms=longest[number])
            for number in sorted(longest, key=lambda number: -longest[number])[:NAMED]
        ],
    )


def _of_rank(
    of_rank: Sequence[Step], factor: float, median_ms: float, longest: dict[int, float]
) -> tuple[float, float, float]:
    """How much the rank's long steps exceeded the median, its time between steps, and its time between epochs, in s.
    Adds the long steps to `longest`."""
    beyond_ms, between_ns, epochs_ns = 0.0, 0, 0
    for step in of_rank:
        ms = (step.end_ns - step.begin_ns) / MS
        if ms > LONG * median_ms:
            beyond_ms += ms - median_ms
            longest[step.step] = max(ms, longest.get(step.step, 0.0))
    for before, after in pairwise(sorted(of_rank, key=lambda step: step.step)):
        if after.step > before.step + 1:  # the steps in between were not kept
            continue
        if after.epoch == before.epoch:
            between_ns += after.begin_ns - before.end_ns
        else:
            epochs_ns += after.begin_ns - before.end_ns
    return beyond_ms * MS / S * factor, between_ns / S * factor, epochs_ns / S * factor
