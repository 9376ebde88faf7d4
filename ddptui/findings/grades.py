"""Grades the user's own strategies: whether each is right, what it sends, and how long it takes beside others. Pure."""

from collections.abc import Iterable, Iterator
from statistics import fmean

import msgspec

from ddptui.analysis.correctness import BUFFERS, problems
from ddptui.analysis.effect import SHOWN_BY_ONE, Effect, effects, off, spread
from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.policy import MOST_OF_DIFFERENCE
from ddptui.analysis.repeats import valid_repeats
from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial, in_short, is_own
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
    ratio, is_told = effect.ratio, effect.outcome in ("slower", "faster")
    numbers = {"ratio_times": ratio.median, "low_times": ratio.low, "high_times": ratio.high}
    numbers["repeats"] = float(effect.repeats)
    if effect.repeats > 1 and not effect.rough:
        numbers["off_times"] = off(ratio)
    kind = Kind.ROUGHLY if effect.rough else Kind.UNCLEAR if effect.outcome == "unclear" else Kind.ALIKE
    rank, phase = None, None
    if is_told:
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
