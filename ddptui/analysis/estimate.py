"""Estimates from earlier runs how long a preset will take. Pure.

A launch consists of startup, training with its warm-up, and end. Startup and training come from the newest trial that
trained this way, under any name; training is scaled by the number of steps. Primitives take as long as before. If that
trial did not start this way (warm or cold), the startup of others with the same launch mode and number of ranks counts.
If none trained this way, there is no estimate: one that is far too short misleads.
"""

import math
from collections.abc import Sequence
from statistics import median

import msgspec

from ddptui.analysis.counted import counted
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.fields import FIELDS
from ddptui.config.preset import Preset, start_of
from ddptui.config.trial import StartKind, Trial

# Evaluation, comparison of the ranks, and exit: medians of launches with two ranks on two cores.
END_S: dict[StartKind, float] = {"warm": 0.3, "cold": 1.7}


def estimate(preset: Preset, past: Sequence[Results]) -> float | None:
    """How long a whole run of a preset will take, in s; infinite if it lasts until the user stops it. None if something
    like one of its trials was never run. past: results, newest first."""
    if preset.has_no_end:
        return math.inf
    launches = [s for trial in preset.trials if (s := _launch_s(trial, preset, past)) is not None]
    s = preset.repeats * sum(launches)
    is_known = len(launches) == len(preset.trials) and math.isfinite(s)  # a file may say that a start took 1e308 s
    return s if is_known else None


def spell(s: float) -> str:
    """An estimate in words: ~20 s."""
    return "until you stop it" if s == math.inf else f"~{_rounded(s)}"


def _launch_s(trial: Trial, preset: Preset, past: Sequence[Results]) -> float | None:
    kind = start_of(trial, preset.engine.nodes)[0]
    like = _like(trial, past)
    for result in like:
        if (primitives_s := _primitives_s(trial, result)) is not None:
            return primitives_s
        if (training_s := _training_s(trial, result)) is not None:
            start_s = _start_s([result], kind) or _start_s(like, kind)
            return None if start_s is None else start_s + training_s + END_S[kind]
    return None


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


def _rounded(s: float) -> str:
    if s < 10:
        return f"{max(1, round(s))} s"
    if s < 57.5:  # from here on, rounding would give 60 s
        return f"{5 * round(s / 5)} s"
    # From 3570 s on, rounding would give 60 min.
    return f"{max(1, round(s / 60))} min" if s < 3570 else f"{round(s / 360) / 10:.1f} h"
