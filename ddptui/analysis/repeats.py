"""Which repeats of a trial count, how many are finished, whether other programs disturbed them, and how long a
preset will take. Pure.

A repeat whose delays the user changed counts only if every repeat was changed. Among the others, repeats disturbed by
other programs are left out unless they are the majority: a busy machine gives figures too, but these are marked.

A launch consists of startup, training with its warm-up, and end. Startup and training come from the newest trial that
trained this way, under any name; training is scaled by the number of steps. Primitives take as long as before. If that
trial did not start this way (warm or cold), the startup of others with the same launch mode and number of ranks counts.
If none trained this way, there is no estimate: one that is far too short misleads.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec

from ddptui.analysis.policy import Caution, Facts
from ddptui.analysis.primitive_results import PrimitivesResult
from ddptui.analysis.results import OtherLoad, RepeatResult, Results, Spread, TrialResult
from ddptui.config.fields import FIELDS
from ddptui.config.preset import Preset, start_of
from ddptui.config.trial import StartKind, Trial
from ddptui.text.words import count
from ddptui.wire.records import Load


def takes_cores(load: OtherLoad | None) -> bool:
    """Whether other programs took cores that the ranks needed."""
    return load is not None and Caution.OTHER_LOAD.applies(Facts(other_load=load.cores, idle=load.idle))


def of_reading(load: Load) -> OtherLoad:
    """Converts a single reading of this host's load."""
    return OtherLoad(cores=load.busy - load.own, idle=load.idle, stolen=load.stolen, by=load.by)


def busy_now(load: Load) -> str:
    """Says which other programs would disturb a run that starts now; empty if none would."""
    other = of_reading(load)
    return f"{describe(other)}; figures will be disturbed" if takes_cores(other) else ""


def is_disturbed(repeat: RepeatResult) -> bool:
    """Whether other programs kept enough cores busy to distort the repeat's figures."""
    return Caution.OTHER_LOAD in repeat.warnings


def disturbance_of(repeat: RepeatResult) -> str:
    """Says what disturbed a repeat, e.g. "other programs kept 0.8 cores busy, most of all python (process 4711)";
    empty if nothing did."""
    return describe(repeat.other_load) if is_disturbed(repeat) and repeat.other_load else ""


def describe(load: OtherLoad) -> str:
    """Says in a clause how busy other programs were."""
    if load.stolen > load.cores / 2:
        return f"other virtual machines of this host took {load.stolen:.1f} cores (steal time)"
    return f"other programs kept {load.cores:.1f} cores busy" + (f", most of all {load.by}" if load.by else "")


Pair = tuple[RepeatResult, RepeatResult]  # repeats of two trials with the same number


def is_changed(repeat: RepeatResult) -> bool:
    """Whether the user injected or removed delays. A change after the last measured step does not count."""
    return any(change.steps != 0 for change in repeat.changes)  # without instruments, `steps` is None


def exclusion_reason(repeat: RepeatResult) -> str | None:
    """Why a repeat does not count fully: the end of a sentence such as "Repeat 2 was …". None: it counts."""
    if is_changed(repeat):
        return "changed by hand"
    return "disturbed by other programs" if is_disturbed(repeat) else None


def valid_repeats(repeats: Sequence[RepeatResult]) -> list[RepeatResult]:
    """Returns the repeats that count."""
    own = [repeat for repeat in repeats if not is_changed(repeat)] or [*repeats]
    calm = [repeat for repeat in own if not is_disturbed(repeat)]
    return calm if 2 * len(calm) >= len(own) else own


def paired(mine: Mapping[int, RepeatResult], its: Mapping[int, RepeatResult]) -> list[Pair]:
    """The pairs of repeats that count in the ratio of two trials: those with the same number. Trials take turns
    (A B A B), so a machine that slows down slows both. Repeats of the other trial that the user changed are left
    out."""
    mine = {number: repeat for number, repeat in mine.items() if not is_changed(repeat)} or mine
    own = [(repeat, its[number]) for number, repeat in mine.items() if number in its and not is_changed(its[number])]
    calm = [pair for pair in own if not any(map(is_disturbed, pair))]
    return calm if 2 * len(calm) >= len(own) else own


def is_rough(repeats: Sequence[RepeatResult]) -> bool:
    """Whether any repeat that counts was disturbed or changed by the user; such figures are marked."""
    return any(map(exclusion_reason, valid_repeats(repeats)))


def why_rough(pairs: Iterable[Pair]) -> str:
    """Why the ratio of these pairs is inexact, and is marked: the end of a sentence such as "Repeats were …". Empty: it
    is exact."""
    reasons = dict.fromkeys(exclusion_reason(repeat) for pair in pairs for repeat in pair)
    return " or ".join(filter(None, reasons))


def all_changed(repeats: Sequence[RepeatResult]) -> bool:
    """Whether there are repeats, and the user changed the delays of all of them."""
    return bool(repeats) and all(map(is_changed, repeats))


def why_left_out(repeat: RepeatResult, repeats: Sequence[RepeatResult]) -> str | None:
    """Why the medians and ratios of a trial leave this repeat out. None: they include it."""
    return None if repeat in valid_repeats(repeats) else exclusion_reason(repeat)


class TrainTime(msgspec.Struct, frozen=True):
    """A trial's summary, of which only the train time is read, in s."""

    train_time_s: Spread


class TrialOutline(msgspec.Struct, frozen=True):
    """The part of a trial's result that lists of runs and projections read."""

    name: str
    status: str
    summary: TrainTime | None = None
    repeats: list[msgspec.Raw] = []  # only their number is read
    primitives: list[PrimitivesResult] = []


class ResultsOutline(msgspec.Struct, frozen=True):
    """The part of results.json that lists of runs and projections read. All versions of ddptui write it, old ones
    without `repeats`."""

    status: str
    trials: list[TrialOutline]
    repeats: int | None = None


def finished(trial: TrialResult | TrialOutline) -> int:
    """The number of a trial's repeats that succeeded."""
    return len(trial.repeats) or sum(launch.took_s is not None for launch in trial.primitives)


def trials_done(results: Results | ResultsOutline) -> str:
    """The number of trials that succeeded: "4", or "3 of 4 done"."""
    total, fine = len(results.trials), len(_fine(results))
    return str(fine) if fine == total else f"{fine} of {total} done"


def repeats_done(results: Results | ResultsOutline) -> str:
    """The finished repeats of the trials that did not fail, e.g. "11 of 12 repeats"; empty if none is missing."""
    each = results.repeats or 0  # unknown in older files
    fine = _fine(results)
    done, wanted = sum(min(each, finished(trial)) for trial in fine), each * len(fine)
    return f"{done} of {wanted} repeats" if done < wanted else ""


def _fine(results: Results | ResultsOutline) -> list[TrialResult | TrialOutline]:
    return [trial for trial in results.trials if trial.status == "ok"]


def extent(results: Results | ResultsOutline) -> str:
    """The extent of a run: "4 trials"; if some are missing, "3 of 4 trials finished, 8 of 9 repeats"."""
    return shortfall(results) or count(len(results.trials), "trial")


def shortfall(results: Results | ResultsOutline) -> str:
    """What a run lacks, in the words of `extent`; empty if nothing is missing."""
    total, fine, repeats = len(results.trials), len(_fine(results)), repeats_done(results)
    if fine == total:
        return f"{repeats} finished" if repeats else ""
    return ", ".join(filter(None, [f"{fine} of {count(total, 'trial')} finished", repeats]))


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
    repeats = valid_repeats(result.repeats)
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
