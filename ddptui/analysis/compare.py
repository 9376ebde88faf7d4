"""Results of a run: how the trials of a preset compare, and what their repeats show together. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from ddptui.analysis import cautions, correctness
from ddptui.analysis import compare as across_repeats
from ddptui.analysis.culprit import culprit_of_repeats
from ddptui.analysis.launch_log import LaunchLog
from ddptui.analysis.repeat import NO_OUTCOMES, Outcomes, RepeatOutcome, outcome_of_log
from ddptui.analysis.results import (
    Culprit,
    Ratio,
    RepeatResult,
    Results,
    Spread,
    Summary,
    TrialResult,
    Verdict,
    WhatIf,
)
from ddptui.analysis.verdict import FEWEST_STEPS, verdict_for
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.wire.records import Ended, Message


def compare(
    preset: Preset, run: str, environment: dict[str, Any], outcomes: Mapping[tuple[str, int], RepeatOutcome]
) -> Results:
    """All trials of a preset, side by side. Outcomes may be missing: the run goes on, or was interrupted."""
    of_trial = {
        trial.name: [found for number in range(1, preset.repeats + 1) if (found := outcomes.get((trial.name, number)))]
        for trial in preset.trials
    }
    baseline = {found.repeat: found.result for found in of_trial[preset.baseline] if found.result}
    cores = environment.get("cores") if preset.engine.name == "local" else None  # of other hosts nobody has asked
    trials = [_trial(trial, of_trial[trial.name], baseline, cores) for trial in preset.trials]
    statuses = {trial.status for trial in trials}
    complete = all(_spares_repeats(found) or len(found) == preset.repeats for found in of_trial.values())
    interrupted = any(found.status == "interrupted" for found in outcomes.values()) or statuses == {"skipped"}
    return Results(
        run=run,
        preset=preset.name,
        baseline=preset.baseline,
        environment=environment,
        status="interrupted" if interrupted or not complete else "failed" if "failed" in statuses else "ok",
        trials=trials,
    )


def _trial(
    trial: Trial, outcomes: Sequence[RepeatOutcome], baseline: Mapping[int, RepeatResult], cores: int | None
) -> TrialResult:
    repeats = {found.repeat: found.result for found in outcomes if found.result}
    primitives = [found.primitives for found in outcomes if found.primitives]
    failed = _failed(outcomes)
    judged = [_with_verdict(repeat, trial) for repeat in repeats.values()]
    return TrialResult(
        name=trial.name,
        status="failed" if failed else "ok" if any(found.status == "ok" for found in outcomes) else "skipped",
        error=failed.error if failed else None,
        config=msgspec.to_builtins(trial),
        command=list(outcomes[0].command) if outcomes else [],
        repeats=judged,
        summary=_summary(trial, repeats, baseline, cores) if repeats else None,
        primitives=primitives,
    )


def _with_verdict(repeat: RepeatResult, trial: Trial) -> RepeatResult:
    """With a verdict on the strategy's work, which depends on what the trial may expect of it."""
    if repeat.averaging is None:
        return repeat
    return msgspec.structs.replace(repeat, averaging=correctness.with_verdict(repeat.averaging, trial))


def _failed(outcomes: Iterable[RepeatOutcome]) -> RepeatOutcome | None:
    return next((found for found in outcomes if found.status == "failed"), None)


def _spares_repeats(outcomes: Iterable[RepeatOutcome]) -> bool:
    """Whether the trial's other repeats are spared."""
    return any(found.status in ("failed", "skipped") for found in outcomes)


def _summary(
    trial: Trial, repeats: Mapping[int, RepeatResult], baseline: Mapping[int, RepeatResult], cores: int | None
) -> Summary:
    times = [repeat.train_time_s for repeat in repeats.values()]
    rate = median(repeat.samples_per_s for repeat in repeats.values())
    pairs = [(repeat, baseline[number]) for number, repeat in repeats.items() if number in baseline]
    ratios = [repeat.train_time_s / base.train_time_s for repeat, base in pairs]
    base_rate = median(repeat.samples_per_s for repeat in baseline.values()) if baseline else None
    train_time_s = Spread(median=median(times), min=min(times), max=max(times))
    culprit = culprit_of_repeats(list(repeats.values()))
    return Summary(
        train_time_s=train_time_s,
        samples_per_s=rate,
        speedup=rate / base_rate if base_rate else None,
        ratio=Ratio(median=median(ratios), low=min(ratios), high=max(ratios)) if ratios else None,
        verdict=across_repeats.verdict_of_repeats(list(repeats.values())),
        culprit=culprit,
        what_if_s=across_repeats.what_if_of_repeats(list(repeats.values()), culprit),
        warnings=cautions.of_trial(trial, list(repeats.values()), train_time_s, cores),
    )


def verdict_of_repeats(repeats: Sequence[RepeatResult]) -> Verdict:
    """Of the shares in the median repeat."""
    shares = [
        (repeat.wait_share, repeat.transfer_share)
        for repeat in repeats
        if repeat.wait_share is not None and repeat.transfer_share is not None and repeat.steps >= FEWEST_STEPS
    ]
    if not shares:
        return "inconclusive"
    waits, transfers = zip(*shares, strict=True)
    return verdict_for(median(waits), median(transfers))


def what_if_of_repeats(repeats: Sequence[RepeatResult], culprit: Culprit | None) -> WhatIf | None:
    """Medians over the repeats; without the culprit, over those that name it."""
    told = [(repeat.culprit, repeat.what_if_s) for repeat in repeats if repeat.what_if_s]
    if not told:
        return None
    without = [
        found.without_culprit
        for named, found in told
        if culprit and named and named.rank == culprit.rank and found.without_culprit is not None
    ]
    return WhatIf(
        without_culprit=median(without) if without else None,
        without_skew=median(found.without_skew for _, found in told),
    )


class RunningResults:
    """`results` is what is finished, at any time."""

    def __init__(self, preset: Preset, run: str, environment: dict[str, Any], there: Outcomes = NO_OUTCOMES) -> None:
        """`there`: what the run has already."""
        self._preset = preset
        self._run = run
        self._environment = environment
        self._outcomes = dict(there)
        self._heard = LaunchLog()
        self.results: Results = compare(preset, run, environment, self._outcomes)

    def add(self, message: Message) -> bool:
        """Whether a repeat was over with it, and so the results are new."""
        self._heard.add(message)
        if not isinstance(message, Ended):
            return False
        if found := outcome_of_log(self._heard):
            self._outcomes[found.trial, found.repeat] = found
        self._heard = LaunchLog()
        self.results = compare(self._preset, self._run, self._environment, self._outcomes)
        return True
