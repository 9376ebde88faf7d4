"""Estimates from earlier runs how long a preset will take. Pure.

A launch consists of startup, training with its warm-up, and end. Startup and training come from the newest run of this
preset with a similar trial; training is scaled by the number of steps. Primitives take as long as before. If the trial
never started this way (warm or cold), the startup of other trials with the same launch mode and number of ranks is
used. If it never trained this way, only its startup counts, and the estimate is a lower bound.
"""

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from ddptui.analysis.counted import counted
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.fields import FIELDS
from ddptui.config.preset import Preset, start_of
from ddptui.config.trial import StartKind, Trial

# Evaluation, comparison of the ranks, and exit: medians of launches with two ranks on two cores.
END_S: dict[StartKind, float] = {"warm": 0.3, "cold": 1.7}


class Estimate(NamedTuple):
    """An estimated duration in s; infinite if the run lasts until the user stops it."""

    s: float
    at_least: bool = False  # a lower bound: for some trial only the startup is known

    def __str__(self) -> str:
        if self.s == math.inf:
            return "until you stop it"
        return f"at least {_rounded(self.s, math.floor)}" if self.at_least else f"~{_rounded(self.s, round)}"


def estimate(preset: Preset, past: Sequence[Results]) -> Estimate | None:
    """The estimate for a whole run of a preset; None if nothing similar was run. past: results, newest first."""
    if preset.has_no_end:
        return Estimate(math.inf)
    launches = [_launch(trial, preset, past) for trial in preset.trials]
    known = [launch for launch in launches if launch is not None]
    if not known:
        return None
    at_least = len(known) < len(launches) or any(launch.at_least for launch in known)
    s = preset.repeats * sum(launch.s for launch in known)
    return Estimate(s, at_least) if math.isfinite(s) else None  # a file may say that a start took 1e308 s


def _launch(trial: Trial, preset: Preset, past: Sequence[Results]) -> Estimate | None:
    kind = start_of(trial, preset.engine.nodes)[0]
    of_preset = (result for results in past if results.preset == preset.name for result in results.trials)
    for result in of_preset:
        if result.name != trial.name:
            continue
        if (primitives_s := _primitives_s(trial, result)) is not None:
            return Estimate(primitives_s)
        start_s = _start_s([result], kind) or _start_s(_like(trial, past), kind)
        if (training_s := _training_s(trial, result)) is not None:
            return Estimate((start_s or 0) + training_s + END_S[kind], at_least=start_s is None)
    start_s = _start_s(_like(trial, past), kind)
    return None if start_s is None else Estimate(start_s + END_S[kind], at_least=True)


def _like(trial: Trial, past: Sequence[Results]) -> list[TrialResult]:
    """Results of trials with the same launch mode and number of ranks."""
    shape = (trial.launch, trial.world_size)
    of_all = (result for results in past for result in results.trials)
    return [result for result in of_all if (result.config.get("launch"), result.config.get("world_size")) == shape]


def _start_s(results: Sequence[TrialResult], kind: StartKind) -> float | None:
    """The median startup of launches that started this way, in s; None if there are none."""
    starts = [repeat.startup_s for result in results for repeat in result.repeats if repeat.start == kind]
    return median(starts) if starts else None


def _primitives_s(trial: Trial, result: TrialResult) -> float | None:
    """The median time of a launch of primitives, in s. None: the trial differs, or measured no primitives."""
    took_s = [launch.took_s for launch in result.primitives if launch.took_s is not None]
    return median(took_s) if took_s and _config(result) == trial else None


def _training_s(trial: Trial, result: TrialResult) -> float | None:
    """The predicted time of a launch's steps, in s, from an earlier result. None: the trials differ in what affects the
    time, or the number of steps is unknown."""
    then = _config(result)
    if then is None or not result.repeats:
        return None
    alike = all(getattr(trial, name) == getattr(then, name) for name, field in FIELDS.items() if field.timed)
    repeats = counted(result.repeats)
    measured = median(repeat.steps for repeat in repeats)
    steps = _steps(trial, then, measured + then.warmup_steps)
    if not alike or steps is None or not measured:
        return None
    step_s: float = median(repeat.train_time_s for repeat in repeats) / measured
    return step_s * steps


def _config(result: TrialResult) -> Trial | None:
    """The trial of a result; None if this version does not know all of its fields."""
    try:
        return msgspec.convert(result.config, Trial)
    except msgspec.ValidationError:
        return None


def _steps(trial: Trial, then: Trial, steps_then: float) -> float | None:
    """The number of steps that the trial will make; None: unknown."""
    if trial.steps is not None:
        return trial.steps
    if then.steps is not None or not then.epochs:
        return None  # the earlier run had a limit of steps, so the length of its epochs is unknown
    return steps_then * then.batch_size / then.epochs * trial.epochs / trial.batch_size


def _rounded(s: float, whole: Callable[[float], int]) -> str:
    if s < 10:
        return f"{max(1, whole(s))} s"
    if s < 57.5:  # from here on, rounding would give 60 s
        return f"{5 * whole(s / 5)} s"
    # From 3570 s on, rounding would give 60 min.
    return f"{max(1, whole(s / 60))} min" if s < 3570 else f"{whole(s / 360) / 10:.1f} h"
