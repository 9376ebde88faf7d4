"""Whether trials are right: their checks, faults, losses and averages; and grades for own strategies. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

import msgspec

from ddptui.analysis.correctness import BUFFERS, diverged, problems
from ddptui.analysis.effect import SHOWN_BY_ONE, Effect, effects, off, spread
from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.policy import EXACT_AVERAGE, MOST_OF_DIFFERENCE, NEARLY
from ddptui.analysis.repeats import valid_repeats
from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial, in_short, is_own
from ddptui.findings.trial import median_over
from ddptui.text.words import count


def has_own_strategy(preset: Preset) -> bool:
    """Whether a trial averages by the user's own code."""
    return any(is_own(trial.strategy) for trial in preset.trials)


def grades(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds whether each strategy of the user's own is right, and if not, what is wrong; then its bytes and its time
    beside those of all other trials with the same number of ranks."""
    trials = {trial.name: trial for trial in preset.trials}
    own = [result for result in results.trials if is_own(trials[result.name].strategy)]
    found = [finding for result in own for finding in _correctness(result, trials[result.name])]
    yield from _merged(found)
    is_right = {finding.trials[0]: finding.kind is Kind.OWN_RIGHT for finding in found}
    known, right = effects(results), [result for result in own if is_right.get(result.name)]
    yield from _merged(finding for result in right for finding in _bytes(result, trials[result.name]))
    for result in right:
        others = [other.name for other in results.trials if other not in own]
        yield from (effect_of(known[result.name, other]) for other in others if (result.name, other) in known)


def _merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, with those about the same code in several trials as one."""
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        numbers = {name: number for name, number in finding.numbers.items() if name != "error"}
        groups.setdefault((finding.kind, finding.place, finding.doubt, *numbers.items()), []).append(finding)
    for [first, *others] in groups.values():
        yield msgspec.structs.replace(first, trials=(*first.trials, *(other.trials[0] for other in others)))


def _correctness(result: TrialResult, trial: Trial) -> Iterator[Finding]:
    code, name = in_short(trial.strategy or ""), (result.name,)
    if result.failure or not result.repeats:
        failure = result.failure  # one without a rank or a line of code is not the strategy's
        why = [failure.summary] if failure and (failure.rank is not None or failure.place) else []
    else:
        why = next(filter(None, (_why_wrong(repeat, trial) for repeat in result.repeats)), [])
    if any(why):
        yield Finding(kind=Kind.OWN_WRONG, severity="critical", trials=name, place=code, doubt="; ".join(why))
    elif result.repeats and (averaging := result.repeats[-1].averaging):
        yield Finding(kind=Kind.OWN_RIGHT, trials=name, place=code, numbers={"error": averaging.error or 0.0})


def _why_wrong(repeat: RepeatResult, trial: Trial) -> list[str]:
    """What is wrong in a repeat; empty if nothing is."""
    if repeat.averaging and repeat.averaging.error is None:
        return [f"the {repeat.averaging.of} that it leaves are not finite"]
    is_wrong = any(light.state == "wrong" and light.name != BUFFERS for light in repeat.checks)
    return [*problems(trial, repeat)] if is_wrong else []


def _bytes(result: TrialResult, trial: Trial) -> Iterator[Finding]:
    """Finds what a rank hands to collectives for an average, and the least that it must send for it: 2 (n - 1) / n
    times the size of the tensors, for n ranks (Patarasuk and Yuan 2009)."""
    for repeat in result.repeats[-1:]:
        ranks = [rank for rank in repeat.ranks if rank.bytes is not None and rank.collectives is not None]
        averaged = repeat.averaging.bytes if repeat.averaging else 0
        if ranks and averaged and repeat.steps:
            numbers = {
                "handed_bytes": fmean(rank.bytes or 0 for rank in ranks) * trial.every / repeat.steps,
                "calls": fmean(rank.collectives or 0 for rank in ranks) * trial.every / repeat.steps,
                "averaged_bytes": float(averaged),
                "least_bytes": 2 * (trial.world_size - 1) / trial.world_size * averaged,
                "ranks": float(trial.world_size),
            }
            yield Finding(kind=Kind.OWN_BYTES, trials=(result.name,), numbers=numbers)


def effect_of(effect: Effect) -> Finding:
    """The finding of a comparison: how many times as long the trial took, and the main part of the difference."""
    ratio, is_decided = effect.ratio, effect.outcome in ("slower", "faster")
    numbers = {"ratio_times": ratio.median, "low_times": ratio.low, "high_times": ratio.high}
    numbers["repeats"] = float(effect.repeats)
    if effect.repeats > 1 and not effect.rough:
        numbers["off_times"] = off(ratio)
    kind = Kind.ROUGHLY if effect.rough else Kind.UNCLEAR if effect.outcome == "unclear" else Kind.ALIKE
    rank, phase = None, None
    if is_decided:
        kind = Kind.SLOWER if effect.outcome == "slower" else Kind.FASTER
        whole, culprit = effect.difference.total, effect.trial.summary and effect.trial.summary.culprit
        for name, part in effect.difference._asdict().items():
            if name != "unexplained" and MOST_OF_DIFFERENCE <= part / (whole or 1) <= 1.05:
                numbers |= {f"{name}_s": part, "whole_s": whole}
                rank, phase = (culprit.rank, culprit.phase) if culprit and name == "culprit_wait" else (None, None)
    doubt = too_noisy(effect) if kind is Kind.UNCLEAR else None
    names, place = (effect.name,), effect.baseline.name
    return Finding(kind=kind, trials=names, rank=rank, phase=phase, place=place, numbers=numbers, doubt=doubt)


def too_noisy(effect: Effect) -> str:
    """Why it is unclear whether a trial took longer, as a clause."""
    if effect.repeats < 2:
        return f"one repeat shows no difference below {SHOWN_BY_ONE:.0%}"
    noisy = max((effect.trial, effect.baseline), key=spread)
    return f"{count(len(valid_repeats(noisy.repeats)), 'repeat')} of {noisy.name} differ by {spread(noisy):.0%}"


CHECKS = ("in sync", "average", "order", BUFFERS)


def losses(trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """Finds whether the trials ended with nearly the same loss."""
    known = {trial.name: loss for trial in trials if (loss := _loss(trial)) is not None}
    if len(known) > 1:
        least, most = (choose(known, key=lambda name: known[name]) for choose in (min, max))
        numbers = {"low_loss": known[least], "high_loss": known[most], "of_trials": float(len(known))}
        kind = Kind.SAME_LOSS if known[most] <= known[least] * (1 + NEARLY) else Kind.OTHER_LOSS
        all_of_them = "all trials" if len(known) == len(trials) else None
        yield Finding(kind=kind, trials=(least, most), place=all_of_them, numbers=numbers)


def _loss(trial: TrialResult) -> float | None:
    """A trial's median last loss; None without instruments, or if the trial diverged or failed (findings of their
    own)."""
    if diverged(trial) or trial.is_cut_short:
        return None
    return median_over(valid_repeats(trial.repeats), lambda repeat: repeat.loss.last if repeat.step_ms else None)


def lossy_averages(results: Results) -> Iterator[Finding]:
    """Finds the errors of averages by lossy strategies."""
    audits = {trial.name: repeat.averaging for trial in results.trials for repeat in trial.repeats[-1:]}
    errors = {name: audit.error for name, audit in audits.items() if audit and (audit.error or 0.0) > EXACT_AVERAGE}
    if errors:
        least, most = (choose(errors, key=lambda name: errors[name] or 0.0) for choose in (min, max))
        numbers = {"low_share": errors[least] or 0.0, "high_share": errors[most] or 0.0}
        yield Finding(kind=Kind.LOSSY, trials=(least, most), numbers=numbers)


def are_in_doubt(results: Results, preset: Preset) -> bool:
    """Whether any trial makes a deliberate mistake, or fails a check other than that of the buffers."""
    is_wrong = any(finding.place != BUFFERS for finding in checks(results, preset))
    return is_wrong or any(trial.mistake for trial in preset.trials)


def checks(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds which checks fail in which trials, and how many deliberate mistakes the checks found."""
    last = {trial.name: trial.repeats[-1] for trial in results.trials if trial.repeats}
    wrong = {name: {light.name for light in repeat.checks if light.state == "wrong"} for name, repeat in last.items()}
    failing = {check: [name for name in last if check in wrong[name]] for check in CHECKS}
    found = {name for names in failing.values() for name in names}
    mistaken = [trial.name for trial in preset.trials if trial.mistake and trial.name in last]
    if mistaken:
        unseen = tuple(name for name in mistaken if name not in found)
        numbers = {"found": float(len(mistaken) - len(unseen)), "mistakes": float(len(mistaken))}
        yield Finding(kind=Kind.MISTAKES, trials=unseen, numbers=numbers)
    for check, names in failing.items():
        if names:
            yield Finding(kind=Kind.CHECK_FAILS, severity="critical", trials=tuple(names), place=check)


def faults(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds how many injected faults ended their trial with an error that names the right rank, and which did not."""
    planned = {trial.name: trial.fault[0].rank for trial in preset.trials if trial.fault}
    failed = {trial.name: _culprit(trial) for trial in results.trials if trial.error}
    reached = [trial.name for trial in results.trials if trial.name in planned and trial.status != "skipped"]
    if not reached:
        return
    right = [name for name in reached if failed.get(name) == planned[name]]
    ranks = {planned[name] for name in right}
    numbers = {"found": float(len(right)), "faults": float(len(reached))}
    yield Finding(kind=Kind.FAULTS_NAMED, rank=ranks.pop() if len(ranks) == 1 else None, numbers=numbers)
    if survived := tuple(name for name in reached if name not in failed):
        yield Finding(kind=Kind.FAULT_SURVIVED, trials=survived)
    if wrong := tuple(name for name in reached if name in failed and name not in right):
        yield Finding(kind=Kind.FAULT_UNNAMED, trials=wrong)


def _culprit(trial: TrialResult) -> int | None:
    """The rank that a failed trial's error names. Journals of older versions say it only in words."""
    if trial.failure:
        return trial.failure.rank
    first = re.search(r"\brank (\d+)\b", (trial.error or "").splitlines()[0])
    return int(first[1]) if first else None
