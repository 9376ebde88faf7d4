"""Decides which trials of a run were slower or faster than others, and whether that may be chance. Pure.

A difference counts if it exceeds its own ±, as sentences show it, and if chance does not explain it. Student's t-test
is applied to the logarithms of the ratios of paired repeats, which cancels slowdowns of the whole machine. The variance
of these ratios is estimated from all trials of the run, since three repeats of two trials say little about it; if the
two trials vary more, from these alone. Holm's correction keeps the share of runs with equal trials that report a
difference below 5 %, however many trials they have (benchmarks/equal_trials.py).

Trials of two runs did not take turns. Every repeat of one is held against every repeat of the other, and Student's
two-sample test judges them; what may be chance, or is less than its ±, is no difference there either.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from math import atan, cos, fsum, inf, log, pi, sin, sqrt
from statistics import NormalDist, fmean, median, variance
from typing import Literal, NamedTuple

from ddptui.analysis.breakdown import Breakdown, difference
from ddptui.analysis.policy import WIDE
from ddptui.analysis.primitive_results import Ratio
from ddptui.analysis.repeats import Pair, all_changed, paired, valid_repeats, why_rough
from ddptui.analysis.results import Results, TrialResult

LEVEL = 0.05  # among runs whose trials are equal, at most this part reports a difference


def chance_of(t: float, freedom: int) -> float:
    """The two-sided p-value of Student's t. freedom: degrees of freedom, at least 1. From Abramowitz and Stegun,
    "Handbook of Mathematical Functions", 26.7.3 and 26.7.4."""
    angle, is_odd = atan(abs(t) / sqrt(freedom)), freedom % 2
    terms = [cos(angle) if is_odd else 1.0]
    for k in range(2 + is_odd, freedom, 2):
        terms.append(terms[-1] * cos(angle) ** 2 * (k - 1) / k)
    within = sin(angle) * fsum(terms if freedom > 1 else ())
    return 1 - ((angle + within) * 2 / pi if is_odd else within)


def chance_of_samples(a: Sequence[float], b: Sequence[float]) -> float:
    """The p-value of Student's two-sample test ("The probable error of a mean", 1908) on the logarithms of times, since
    noise grows with the time. Each sample has at least two times."""
    mine, its = (list(map(log, times)) for times in (a, b))
    freedom = len(a) + len(b) - 2
    pooled = (variance(mine) * (len(a) - 1) + variance(its) * (len(b) - 1)) / freedom
    return chance_of(over(fmean(mine) - fmean(its), sqrt(pooled * (1 / len(a) + 1 / len(b)))), freedom)


def over(difference: float, error: float) -> float:
    """Student's t: difference over error; 0 or infinite if the error is 0."""
    return difference / error if error else inf if difference else 0.0


def are_real(chances: Sequence[float]) -> list[bool]:
    """For each of several p-values, whether the difference is real. The probability that any of them is wrongly called
    real is at most LEVEL. Holm, "A simple sequentially rejective multiple test procedure", 1979."""
    smallest_first = sorted(range(len(chances)), key=lambda at: chances[at])
    is_real = [False] * len(chances)
    for rank, at in enumerate(smallest_first):
        if chances[at] * (len(chances) - rank) > LEVEL:
            break
        is_real[at] = True
    return is_real


Outcome = Literal["slower", "faster", "alike", "unclear"]  # unclear: the repeats vary too much to tell


# The ± assumed for a single repeat. Single repeats of the presets, on two cores, were off by up to a quarter.
SHOWN_BY_ONE = 0.25
FEW = 3  # trials: up to this number, the noisiest one is not left out, since too few would remain
MUCH_NOISIER = 4  # times the variance
FEWEST_DEGREES = 2  # degrees of freedom needed to test pairs: with one, the test finds almost nothing


class Effect(NamedTuple):
    """The comparison of a trial with another one, usually the baseline."""

    trial: TrialResult
    baseline: TrialResult
    outcome: Outcome
    ratio: Ratio
    repeats: int  # pairs of them; of two runs, those of the run that has fewer
    rough: str = ""  # why it is inexact: see why_rough

    @property
    def name(self) -> str:
        return self.trial.name

    @property
    def difference(self) -> Breakdown:
        """By how much the trial took longer than the baseline, in parts."""
        return difference(self.trial, self.baseline) or Breakdown()


class TimeRatio(NamedTuple):
    """A time over another one. is_real: chance does not explain how they differ; of two runs, nor does the ±."""

    ratio: Ratio
    repeats: int  # of both; of two runs, those of the run that has fewer
    is_real: bool


Names = tuple[str, str]  # of a trial, and of the one beside which it is looked at
Effects = Mapping[Names, Effect]


def effects(results: Results) -> Effects:
    """Of each trial beside each other one, where both have a repeat of the same number; of two runs, of each trial of B
    beside that of A."""
    if results.of_two_runs:
        return _of_two_runs(results)
    pairs = {
        (trial.name, other.name): (trial, other, found)
        for trial, other in combinations([trial for trial in results.trials if trial.repeats], 2)
        if (found := pairs_of(trial, other) or [(mine, its) for its, mine in pairs_of(other, trial)])
    }
    is_real = are_real(_chances({names: found for names, (*_, found) in pairs.items()}))
    return {
        (one.name, two.name): _effect(one, two, compared, TimeRatio(ratio_of(compared), len(compared), real))
        for (trial, other, _), real in zip(pairs.values(), is_real, strict=True)
        for one, two in ((trial, other), (other, trial))
        if (compared := pairs_of(one, two))
    }


def beside_baseline(results: Results, known: Effects | None = None) -> list[Effect]:
    """The comparisons of the trials with the baseline, in the order of the trials. known: all comparisons, if the
    caller has them."""
    found = effects(results) if known is None else known
    both = [(trial.name, base.name) for trial in results.trials if (base := results.base_of(trial))]
    return [found[names] for names in both if names in found]


def _of_two_runs(results: Results) -> Effects:
    both = [(trial, base) for trial in results.trials if (base := results.base_of(trial)) and base is not trial]
    compared = [(one, two, pairs) for one, two in both if (pairs := ratio_pairs(one, results))]
    ratios = unpaired([(times_of(one), times_of(two)) for one, two, _ in compared])
    # Programs that disturbed one run did not disturb the other, at another time: such repeats show no difference.
    return {
        (one.name, two.name): _effect(one, two, pairs, each._replace(is_real=each.is_real and not why_rough(pairs)))
        for (one, two, pairs), each in zip(compared, ratios, strict=True)
    }


def times_of(trial: TrialResult) -> list[float]:
    """The train times of the repeats that count, in s."""
    return [repeat.train_time_s for repeat in valid_repeats(trial.repeats)]


def unpaired(samples: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[TimeRatio]:
    """Of times in run B and in run A, none of them 0. All are judged together; a single time is not judged."""
    repeats = [min(map(len, both)) for both in samples]
    tested = [at for at, number in enumerate(repeats) if number > 1]
    is_real = dict(zip(tested, are_real([chance_of_samples(*samples[at]) for at in tested]), strict=True))
    ratios = [Ratio(median=median(b) / median(a), low=min(b) / max(a), high=max(b) / min(a)) for b, a in samples]
    return [
        TimeRatio(ratio, number, is_real.get(at, False) and stands_out(ratio, number))
        for at, (ratio, number) in enumerate(zip(ratios, repeats, strict=True))
    ]


def ratio_pairs(trial: TrialResult, results: Results) -> list[Pair]:
    """The pairs of repeats that the ratio of a trial is of; none without a baseline that counts."""
    base = results.base_of(trial)
    if base is None or all_changed(base.repeats) or trial.is_cut_short or base.is_cut_short:
        return []
    if results.of_two_runs and base is not trial:
        return [*product(valid_repeats(trial.repeats), valid_repeats(base.repeats))]
    return pairs_of(trial, base)


def pairs_of(trial: TrialResult, other: TrialResult) -> list[Pair]:
    """The pairs of repeats that count in the ratio of two trials. A trial has no repeats after a failed or skipped
    one, so positions are repeat numbers."""
    if trial.is_cut_short or other.is_cut_short:
        return []
    mine, its = (dict(enumerate(each.repeats)) for each in (trial, other))
    return paired(mine, its)


def ratio_of(pairs: Iterable[Pair]) -> Ratio:
    """The ratio of the train times over these pairs, at least one."""
    ratios = [mine.train_time_s / its.train_time_s for mine, its in pairs]
    return Ratio(median=median(ratios), low=min(ratios), high=max(ratios))


def inverted(ratio: Ratio) -> Ratio:
    """The inverse ratio: the other trial to this one."""
    return Ratio(median=1 / ratio.median, low=1 / ratio.high, high=1 / ratio.low)


def off(ratio: Ratio) -> float:
    """Largest deviation of any repeat's ratio from the median."""
    return max(ratio.high - ratio.median, ratio.median - ratio.low)


def spread(trial: TrialResult) -> float:
    """The range of the repeats' train times, as a part of their median."""
    time = trial.summary.train_time_s if trial.summary else None
    return (time.max - time.min) / time.median if time else 0.0


def stands_out(ratio: Ratio, repeats: int) -> bool:
    """Whether a ratio differs from 1 by more than its ±, as sentences show both: 1.04 ± 0.04 does not."""
    factor = ratio if ratio.median >= 1 else inverted(ratio)
    return round(factor.median - 1, 2) > round(off(factor) if repeats > 1 else SHOWN_BY_ONE, 2)


def _chances(compared: Mapping[Names, list[Pair]]) -> list[float]:
    """The p-value of each comparison. compared: its pairs of repeats."""
    names = {name for pair in compared for name in pair}
    known = [found for found in (_common(compared, names), _common(compared, _calmer(compared, names))) if found]
    if len(known) > 1 and known[0].variance < MUCH_NOISIER * known[1].variance:
        known.pop()  # the noisiest trial is hardly noisier than the others: use the variance of all
    if not known:
        single = NormalDist(0, log(1 + SHOWN_BY_ONE) / NormalDist().inv_cdf(1 - LEVEL / 2))
        return [2 * single.cdf(-abs(_mean(pairs))) for pairs in compared.values()]
    return [
        min(
            chance_of(over(_mean(pairs), sqrt(max(common.variance, _noise(pairs)) / len(pairs))), common.freedom)
            for common in known
            if common.names.issuperset(names)
        )
        for names, pairs in compared.items()
    ]


class _Common(NamedTuple):
    """The variance of the logarithm of a ratio, pooled over trials, with its degrees of freedom."""

    names: set[str]
    variance: float
    freedom: int


def _common(compared: Mapping[Names, list[Pair]], names: set[str]) -> _Common | None:
    """Pools the variance over the trials of these names; None if each has a single repeat."""
    among = [pairs for pair, pairs in compared.items() if names.issuperset(pair)]
    weights = [len(pairs) - 1 for pairs in among]
    if not sum(weights):
        return None
    freedom = (len(names) - 1) * fmean(weights)
    in_pairs = freedom >= FEWEST_DEGREES
    noise = sum(weight * _noise(pairs, in_pairs=in_pairs) for weight, pairs in zip(weights, among, strict=True))
    return _Common(names, noise / sum(weights), max(1, round(freedom if in_pairs else len(names) * fmean(weights))))


def _calmer(compared: Mapping[Names, list[Pair]], names: set[str]) -> set[str]:
    """All trials but the noisiest, which must not hide differences between the others; empty if there are few
    trials."""
    noise = {name: sum(_noise(pairs) for pair, pairs in compared.items() if name in pair) for name in names}
    return names - {max(noise, key=lambda name: noise[name])} if len(names) > FEW else set()


def _mean(pairs: list[Pair]) -> float:
    return fmean(log(mine.train_time_s / its.train_time_s) for mine, its in pairs)


def _noise(pairs: list[Pair], *, in_pairs: bool = True) -> float:
    """The variance of log(train time / the other trial's train time) over pairs of repeats; 0 for a single pair.
    in_pairs: compare within each pair, so that what slowed down both of its repeats cancels out."""
    if len(pairs) < 2:
        return 0.0
    if in_pairs:
        return variance(log(mine.train_time_s / its.train_time_s) for mine, its in pairs)
    return sum(variance(log(repeat.train_time_s) for repeat in repeats) for repeats in zip(*pairs, strict=True))


def _effect(trial: TrialResult, other: TrialResult, pairs: list[Pair], time_ratio: TimeRatio) -> Effect:
    ratio, repeats, is_real = time_ratio
    rough = why_rough(pairs)
    outcome: Outcome = "unclear" if repeats < 2 or max(map(spread, (trial, other))) > WIDE else "alike"
    if is_real and stands_out(ratio, repeats) and not (rough and repeats < 2):
        outcome = "slower" if ratio.median > 1 else "faster"
    return Effect(trial, other, outcome, ratio, repeats, rough)
