"""Estimates how long a preset will take, from earlier runs. Pure.

A launch consists of start-up, training including the warm-up, and end. Start-up and training are taken from the newest
run of this preset with a similar trial; training is scaled by the number of steps. Primitives take as long as before. A
trial that was never run like this counts with the start-up of others with its launch mode and number of ranks: then the
estimate is a lower bound.
"""

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from ddptui.analysis.results import Results, TrialResult
from ddptui.config.fields import FIELDS
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial

END_S = 1.7  # evaluation, comparison of the ranks, exit: the median of 90 launches of two ranks on two cores


class Estimate(NamedTuple):
    """A duration in s."""

    s: float
    at_least: bool = False  # it is a lower bound, since of some trial only the start-up is known

    def __str__(self) -> str:
        return f"at least {_rounded(self.s, math.floor)}" if self.at_least else f"~{_rounded(self.s, round)}"


def estimate(preset: Preset, past: Sequence[Results]) -> Estimate | None:
    """The estimate for a whole run of a preset. past: earlier results, newest first. None: nothing similar was run."""
    launches = [_launch(trial, preset.name, past) for trial in preset.trials]
    known = [launch for launch in launches if launch is not None]
    if not known:
        return None
    at_least = len(known) < len(launches) or any(launch.at_least for launch in known)
    return Estimate(preset.repeats * sum(launch.s for launch in known), at_least)


def _launch(trial: Trial, preset: str, past: Sequence[Results]) -> Estimate | None:
    of_preset = (result for results in past if results.preset == preset for result in results.trials)
    for result in of_preset:
        if result.name == trial.name and (s := _launch_s(trial, result)) is not None:
            return Estimate(s)
    startups = [
        repeat.startup_s
        for results in past
        for result in results.trials
        if (result.config.get("launch"), result.config.get("world_size")) == (trial.launch, trial.world_size)
        for repeat in result.repeats
    ]
    return Estimate(median(startups) + END_S, at_least=True) if startups else None


def _launch_s(trial: Trial, result: TrialResult) -> float | None:
    """What a launch will take, in s, from an earlier result. None: steps differ, or their number is not known."""
    try:
        then = msgspec.convert(result.config, Trial)
    except msgspec.ValidationError:  # this version does not know all fields of that trial
        return None
    took_s = [launch.took_s for launch in result.primitives if launch.took_s is not None]
    if took_s and then == trial:
        return median(took_s)
    alike = all(getattr(trial, name) == getattr(then, name) for name, field in FIELDS.items() if field.affects_time)
    if not result.repeats or not alike:
        return None
    measured = median(repeat.steps for repeat in result.repeats)
    steps = _steps(trial, then, measured + then.warmup_steps)
    if steps is None or not measured:
        return None
    step_s: float = median(repeat.train_time_s for repeat in result.repeats) / measured
    return median(repeat.startup_s for repeat in result.repeats) + step_s * steps + END_S


def _steps(trial: Trial, then: Trial, steps_then: float) -> float | None:
    """How many steps the trial will make. None: not known."""
    if trial.steps is not None:
        return trial.steps
    if then.steps is not None:
        return None  # that run was cut short: how many steps an epoch has is not known
    return steps_then * then.batch_size / then.epochs * trial.epochs / trial.batch_size


def _rounded(s: float, whole: Callable[[float], int]) -> str:
    if s < 10:
        return f"{max(1, whole(s))} s"
    if s < 57.5:  # above, it would be rounded to 60 s
        return f"{5 * whole(s / 5)} s"
    # 3570 s would be rounded to 60 min.
    return f"{max(1, whole(s / 60))} min" if s < 3570 else f"{whole(s / 360) / 10:.1f} h"
