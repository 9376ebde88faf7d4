"""What injected delays cost: how much of them came through into the train time, and from which length on they were
found."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from ddptui.analysis.breakdown import middle, slept_in_steps
from ddptui.analysis.counted import counted
from ddptui.analysis.effect import SHOWN_BY_ONE, Effect, beside_baseline, off
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck, Trial
from ddptui.report.answers.words import same_unit, times, too_noisy
from ddptui.text.units import MS_PER_S, seconds
from ddptui.text.words import count, listed

WHEN = {
    "start": "before the first step",
    "data": "with each batch",
    "forward": "after each forward",
    "backward": "after each backward",
    "aggregate": "before each aggregation",
}


def delays(results: Results, preset: Preset) -> Iterator[str]:
    """The costliest delays first; where they differ in length alone, also from which length on their rank was found."""
    trials = {trial.name: trial for trial in preset.trials}
    compared = [effect for effect in beside_baseline(results) if trials[effect.name].bottleneck]
    compared.sort(key=lambda effect: -effect.ratio.median)
    if _are_a_sweep([trials[effect.name] for effect in compared]):
        yield _found([(trials[effect.name], effect.trial) for effect in compared])
        compared = compared[:1]
    yield from (_cost(effect, trials[effect.name].bottleneck) for effect in compared)


def delays_some(trial: Trial) -> bool:
    """Whether it injects delays into some of its ranks, but not into all; a slow link is none."""
    late = {rank for delay in trial.bottleneck for rank in delay.ranks}
    return any(delay.at != "link" for delay in trial.bottleneck) and len(late) < trial.world_size


def described(bottlenecks: Sequence[Bottleneck], *, with_ranks: bool = True) -> str:
    """A delay of 10 ms on rank 1 before each aggregation; or without the rank."""
    return listed([_described(bottleneck, with_ranks) for bottleneck in bottlenecks])


def _described(bottleneck: Bottleneck, with_ranks: bool) -> str:
    numbers = [str(rank) for rank in bottleneck.ranks]
    ranks = f" on {'rank' if len(numbers) == 1 else 'ranks'} {listed(numbers)}" if with_ranks else ""
    if bottleneck.at == "link":
        return f"a link of {bottleneck.mbit:g} Mbit/s{ranks}"
    mean = "" if bottleneck.jitter == "none" else ", on average,"
    steps = f", in one of {bottleneck.every} steps" if bottleneck.every > 1 else ""
    return f"a delay of {seconds(bottleneck.sleep_ms / MS_PER_S)}{mean}{ranks} {WHEN[bottleneck.at]}{steps}"


def _cost(effect: Effect, bottlenecks: Sequence[Bottleneck]) -> str:
    delay = described(bottlenecks)
    if effect.outcome == "unclear":
        return f"cannot tell what {delay} costs: {too_noisy(effect)}"
    if effect.outcome == "alike":
        return f"{delay} made no difference that {count(effect.repeats, 'repeat')} could show"
    slept_s, longer_s = slept(effect.trial), effect.difference.total
    words = f"{delay} made training {times(effect)}"
    if not slept_s or longer_s <= 0:
        return words
    on_one = " on one rank" if len({rank for delay in bottlenecks for rank in delay.ranks}) > 1 else ""
    if longer_s > slept_s:
        base = effect.baseline.summary  # what lies within the noise is not worth a word
        uncertain = off(effect.ratio) if effect.repeats > 1 else SHOWN_BY_ONE
        noise_s = uncertain * base.train_time_s.median if base else slept_s
        more = f", and {seconds(longer_s - slept_s)} besides" if longer_s - slept_s > noise_s else ""
        return f"{words}: all of the {seconds(slept_s)} slept{on_one} came through{more}"
    part, whole = same_unit(longer_s, slept_s)
    return f"{words}: {part} of the {whole} slept{on_one} came through"


def slept(trial: TrialResult) -> float:
    """The delays in the train time of the rank that slept longest, in s."""
    totals = [max(slept_in_steps(repeat).values(), default=0.0) for repeat in middle(counted(trial.repeats))]
    return fmean(totals) if totals else 0.0


def _are_a_sweep(trials: Sequence[Trial]) -> bool:
    """Whether they have one delay each, which differs in its length alone."""
    places = {(delay.at, delay.ranks, delay.per, delay.every) for trial in trials for delay in trial.bottleneck}
    return len(trials) > 2 and len(places) == 1 and all(len(trial.bottleneck) == 1 for trial in trials)


def _found(trials: Sequence[tuple[Trial, TrialResult]]) -> str:
    """From which length on the delayed rank was identified as the culprit."""
    found: list[float] = []
    missed: list[float] = []
    for trial, result in sorted(trials, key=lambda pair: pair[0].bottleneck[0].sleep_ms):
        culprit = result.summary.culprit if result.summary else None
        right = culprit is not None and culprit.rank in trial.bottleneck[0].ranks
        (found if right else missed).append(trial.bottleneck[0].sleep_ms)
    rank = f"rank {trials[0][0].bottleneck[0].ranks[0]}"
    if not found:
        return f"{rank} was not identified as the cause at any of these delays"
    at, not_at = ([seconds(ms / MS_PER_S) for ms in lengths] for lengths in (found, missed))
    if not missed:
        return f"{rank} was identified as the cause at every delay, from {at[0]} a step on"
    where = f"from {at[0]} a step on" if max(missed) < min(found) else f"at {listed(at)} a step"
    return f"{rank} was identified as the cause {where}, and not at {listed(not_at)}"
