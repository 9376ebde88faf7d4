"""Computes the results of a run: summarizes each trial over its repeats, and compares it with the baseline. Pure."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from statistics import median
from typing import Any

import msgspec
from msgspec.structs import replace

from ddptui.analysis.correctness import lights, with_verdict
from ddptui.analysis.culprit import culprit_of_repeats, verdict_for
from ddptui.analysis.effect import beside_baseline, ratio_of
from ddptui.analysis.finding import Kind
from ddptui.analysis.launch_data import LaunchData
from ddptui.analysis.policy import FEWEST_STEPS, Caution, Facts, cautions_for
from ddptui.analysis.primitive_results import Ratio
from ddptui.analysis.repeats import all_changed, paired, valid_repeats
from ddptui.analysis.results import Culprit, RepeatResult, Results, Spread, Summary, TrialResult, Verdict, WhatIf
from ddptui.config.catalog import COMMAND
from ddptui.config.fields import meaningless
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial, threads_per_rank
from ddptui.findings.primitive_answers import with_ratios
from ddptui.findings.questions import answer_of
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes, RepeatOutcome, outcome_of_log
from ddptui.findings.trial import median_over, of_trial
from ddptui.wire.records import Ended, Message


class RunningResults:
    """The results of a run so far, updated with each message. `results` may be read at any time."""

    def __init__(self, preset: Preset, run: str, environment: dict[str, Any], done: Outcomes = NO_OUTCOMES) -> None:
        """`done`: the repeats that a resumed run already has."""
        self._preset = preset
        self._run = run
        self._environment = environment
        self._outcomes = dict(done)
        self._log = LaunchData()
        self.results: Results = compare(preset, run, environment, self._outcomes)

    @property
    def outcomes(self) -> Outcomes:
        """The outcome of the last launch of each repeat, by trial and repeat."""
        return self._outcomes

    def add(self, message: Message) -> bool:
        """Take a message. Returns whether it ended a repeat, which renews `results`."""
        self._log.add(message)
        if not isinstance(message, Ended):
            return False
        if outcome := outcome_of_log(self._log):
            self._outcomes[outcome.trial, outcome.repeat] = outcome
        self._log = LaunchData()
        self.results = compare(self._preset, self._run, self._environment, self._outcomes)
        return True


def compare(preset: Preset, run: str, environment: dict[str, Any], outcomes: Outcomes) -> Results:
    """The results of a run. Outcomes may be missing if the run is going on, or was interrupted."""
    numbers = range(1, preset.repeats + 1)
    of_trial = {
        trial.name: [outcome for number in numbers if (outcome := outcomes.get((trial.name, number)))]
        for trial in preset.trials
    }
    base = of_trial[preset.baseline]
    has_failed = preset.kind == "command" and any(outcome.status == "failed" for outcome in base)
    baseline = {} if has_failed else _results(base)  # figures of a command that failed are of another length
    cores = environment.get("cores") if preset.engine.name == "local" else None  # other hosts' cores are unknown
    trials = [_trial_result(trial, of_trial[trial.name], baseline, cores) for trial in preset.trials]
    statuses = {trial.status for trial in trials}
    # After a failed or skipped repeat, a run does not launch the trial's remaining repeats.
    complete = all(
        len(repeats) == preset.repeats or any(outcome.status in ("failed", "skipped") for outcome in repeats)
        for repeats in of_trial.values()
    )
    # If a run was stopped before its first launch, all trials are skipped.
    interrupted = any(outcome.status == "interrupted" for outcome in outcomes.values()) or statuses == {"skipped"}
    results = Results(
        run=run,
        preset=preset.name,
        baseline=preset.baseline,
        environment=environment,
        status="interrupted" if interrupted or not complete else "failed" if "failed" in statuses else "ok",
        repeats=preset.repeats,
        trials=trials,
    )
    return replace(results, findings=answer_of(results, preset))


def compare_runs(
    a: Results, b: Results, presets: tuple[Preset, Preset], partners: Mapping[str, str]
) -> tuple[Results, Preset]:
    """Two runs as one: the trials of both, called A:name and B:name, each of B below that of A which it is compared
    with. partners: the trial of B by that of A."""
    runs = {"A": (a, presets[0]), "B": (b, presets[1])}
    trials = {f"{run}:{trial.name}": trial for run, (results, _) in runs.items() for trial in results.trials}
    configured = {f"{run}:{trial.name}": trial for run, (_, preset) in runs.items() for trial in preset.trials}
    beside = {f"A:{mine}": f"B:{its}" for mine, its in partners.items()}
    names = [name for own in trials if own not in beside.values() for name in (own, beside.get(own)) if name]
    statuses = {a.status, b.status}
    results = Results(
        run=f"{a.run}-and-{b.run}",
        preset=" and ".join(dict.fromkeys((a.preset, b.preset))),
        baseline=names[0],
        environment={"A": a.environment, "B": b.environment},
        status="interrupted" if "interrupted" in statuses else "failed" if "failed" in statuses else "ok",
        repeats=a.repeats if a.repeats == b.repeats else None,
        trials=[replace(trials[name], name=name) for name in names],
        unread=[f"{run}: {line}" for run, (each, _) in runs.items() for line in each.unread or ()] or msgspec.UNSET,
        baselines={name: mine for mine, its in beside.items() for name in (mine, its)},
    )
    preset = replace(
        presets[0],
        name=results.preset,
        title=f"A: {a.run}, B: {b.run}",
        about="",
        baseline=names[0],
        repeats=max(preset.repeats for preset in presets),
        trials=tuple(replace(configured[name], name=name) for name in names),
        questions=(),  # each run has answers of its own
        references=(),
        columns=tuple(dict.fromkeys(key for preset in presets for key in preset.columns)),
    )
    ratios = {effect.name: effect.ratio for effect in beside_baseline(results)}
    results = replace(results, trials=[_beside(trial, results, ratios) for trial in with_ratios(results)])
    return replace(results, findings=answer_of(results, preset)), preset


def _beside(trial: TrialResult, results: Results, ratios: Mapping[str, Ratio]) -> TrialResult:
    """The trial with its ratio and its speed-up to that of run A, instead of those within its own run."""
    base = results.base_of(trial)
    if trial.summary is None:
        return trial
    if base and base.name == trial.name and not all_changed(base.repeats):
        return replace(trial, summary=replace(trial.summary, ratio=Ratio(median=1, low=1, high=1), speedup=1.0))
    ratio, rate = ratios.get(trial.name), base and base.summary and base.summary.samples_per_s
    speedup = trial.summary.samples_per_s / rate if ratio and rate and trial.summary.samples_per_s else None
    return replace(trial, summary=replace(trial.summary, ratio=ratio, speedup=speedup))


def _results(outcomes: Sequence[RepeatOutcome]) -> dict[int, RepeatResult]:
    """The results of the successful repeats, by number."""
    return {outcome.repeat: outcome.result for outcome in outcomes if outcome.result}


def _trial_result(
    trial: Trial, outcomes: Sequence[RepeatOutcome], baseline: Mapping[int, RepeatResult], cores: int | None
) -> TrialResult:
    repeats = _results(outcomes)
    failed = next((outcome for outcome in outcomes if outcome.status == "failed"), None)
    is_cut_short = failed is not None and trial.kind == "command"
    summary = _summary(trial, repeats, {} if is_cut_short else baseline, cores) if repeats else None
    found = of_trial([*repeats.values()], summary) if summary else []
    if failed:  # never advice on speed beside a failure
        found = [replace(finding, action=None) for finding in found if finding.kind is Kind.RESTART]
    if summary and is_cut_short:
        summary = replace(summary, warnings=[each for each in summary.warnings if each is not Caution.TOO_FEW_STEPS])
    succeeded = any(outcome.status == "ok" for outcome in outcomes)
    return TrialResult(
        name=trial.name,
        kind=trial.kind,
        status="failed" if failed else "ok" if succeeded else "skipped",
        error=failed.error if failed else None,
        failure=failed.failure if failed else None,
        config=_config(trial),
        command=list(outcomes[0].command) if outcomes else [],
        # Whether the averaging is right depends on what the trial's strategy promises.
        repeats=[
            repeat if repeat.checks else replace(repeat, checks=lights(repeat))
            for each in repeats.values()
            for repeat in [replace(each, averaging=each.averaging and with_verdict(each.averaging, trial))]
        ],
        summary=summary,
        findings=found,
        primitives=[outcome.primitives for outcome in outcomes if outcome.primitives],
    )


def _config(trial: Trial) -> dict[str, Any]:
    """The trial's fields; for a command, only the fields that apply to it."""
    fields: dict[str, Any] = msgspec.to_builtins(trial)
    useless = meaningless(trial.launch, trial.strategy, trial.primitives) if trial.launch == COMMAND else {}
    return {name: value for name, value in fields.items() if name not in useless}


def _summary(
    trial: Trial, by_number: Mapping[int, RepeatResult], baseline: Mapping[int, RepeatResult], cores: int | None
) -> Summary:
    repeats = valid_repeats(list(by_number.values()))
    times = [repeat.train_time_s for repeat in repeats]
    rate = median_over(repeats, attrgetter("samples_per_s"))
    pairs = paired(by_number, baseline)
    # If the user changed the delays in every repeat of the baseline, there is neither a ratio nor a speedup.
    of_base = valid_repeats(list(baseline.values()))
    base_rate = None if all_changed(of_base) else median_over(of_base, attrgetter("samples_per_s"))
    train_time_s = Spread(median=median(times), min=min(times), max=max(times))
    culprit = culprit_of_repeats(repeats)
    return Summary(
        train_time_s=train_time_s,
        samples_per_s=rate,
        speedup=rate / base_rate if rate and base_rate else None,
        ratio=ratio_of(pairs) if pairs else None,
        verdict=verdict_of_repeats(repeats),
        culprit=culprit,
        what_if_s=what_if_of_repeats(repeats, culprit),
        warnings=cautions_of_trial(trial, repeats, train_time_s, cores),
    )


def cautions_of_trial(
    trial: Trial, repeats: Sequence[RepeatResult], train_time_s: Spread, cores: int | None
) -> list[Caution]:
    """The cautions of any repeat, and of all repeats together. cores: number on this host; None for other engines."""
    on_cpu = any(rank.device.startswith("cpu") for repeat in repeats for rank in repeat.ranks)
    lab_on_cpu = on_cpu and trial.launch != COMMAND  # a command chooses its own number of threads
    threads = trial.world_size * threads_per_rank(trial, cores) if cores and lab_on_cpu else 0
    evidence = Facts(
        held_back=max((rank.held_back_part or 0.0 for repeat in repeats for rank in repeat.ranks), default=0.0),
        spread=(train_time_s.max - train_time_s.min) / train_time_s.median,
        threads_a_core=threads / (cores or 1),
    )
    raised = {*cautions_for(evidence), *(caution for repeat in repeats for caution in repeat.warnings)}
    return [caution for caution in Caution if caution in raised]


def verdict_of_repeats(repeats: Sequence[RepeatResult]) -> Verdict:
    """The verdict for the medians of the repeats' shares."""
    shares = [
        (repeat.wait_share, repeat.transfer_share)
        for repeat in repeats
        if repeat.wait_share is not None and repeat.transfer_share is not None and repeat.compared >= FEWEST_STEPS
    ]
    if not shares:
        return "inconclusive"
    waits, transfers = zip(*shares, strict=True)  # medians are robust against a single disturbed repeat
    return verdict_for(median(waits), median(transfers))


def what_if_of_repeats(repeats: Sequence[RepeatResult], culprit: Culprit | None) -> WhatIf | None:
    """The medians of the repeats' estimates. Estimates without the culprit use only repeats with the same culprit.
    None: no repeat has an estimate."""
    estimates = [repeat.what_if_s for repeat in repeats if repeat.what_if_s]
    if not estimates:
        return None
    same = [
        repeat.what_if_s
        for repeat in repeats
        if repeat.what_if_s and culprit and repeat.culprit and repeat.culprit.rank == culprit.rank
    ]
    figures = {
        name: median_over(same if name.startswith("without_culprit") else estimates, attrgetter(name))
        for name in WhatIf.__struct_fields__
    }
    return msgspec.convert(figures, WhatIf)
