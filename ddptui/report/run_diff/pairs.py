"""What two runs both measured: their trials in pairs, and a time in one run against the same time in the other.

Within a run, repeats of two trials take turns, so that analysis/effect.py can compare them one by one. Two runs were
made at different times: here every repeat of one run is compared with every repeat of the other.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from ddptui.analysis.chance import are_real, chance_of_samples
from ddptui.analysis.counted import counted, is_rough, why_not
from ddptui.analysis.effect import exceeds, off
from ddptui.analysis.results import Ratio, Spread, TrialResult

Finding = Literal["slower", "faster", "no difference seen"]
ALIKE: Finding = "no difference seen"
ABOUT_TRIAL = "A trial that both runs have; or one of A | one of B, where they were matched by hand."
RANGE = "range: the least and the most that B / A can be, given the repeats of both"


class Pair(NamedTuple):
    """One trial in both runs, or one of each that the user has matched."""

    a: TrialResult
    b: TrialResult
    is_chance: bool = False  # chance explains the difference of their train times, beside those of the other pairs

    @property
    def both(self) -> tuple[TrialResult, TrialResult]:
        """A's trial and B's."""
        return self.a, self.b

    @property
    def name(self) -> str:
        """The trial's name; of two trials both: ddp | ddp-25mb."""
        return self.a.name if self.a.name == self.b.name else f"{self.a.name} | {self.b.name}"


class Times(NamedTuple):
    """A time in both runs, over the repeats of each. No time is 0."""

    a: Spread
    b: Spread
    can_be_chance: bool = False  # within its ±, or by Student's t-test of the repeats

    @property
    def ratio(self) -> Ratio:
        """B's median over A's; low and high: the least and the most that the repeats allow."""
        return _over(self.b, self.a)

    @property
    def factor(self) -> Ratio:
        """How many times as long the slower of the two took."""
        return self.ratio if self.b.median >= self.a.median else _over(self.a, self.b)

    @property
    def finding(self) -> Finding:
        """What B was, if both have several repeats: a difference is one where those of A and of B do not overlap, and
        differ by more than chance makes them."""
        if self.can_be_chance:
            return ALIKE
        if self.b.max < self.a.min:
            return "faster"
        return "slower" if self.b.min > self.a.max else ALIKE


def _over(one: Spread, other: Spread) -> Ratio:
    return Ratio(median=one.median / other.median, low=one.min / other.max, high=one.max / other.min)


def times(a: Spread | None, b: Spread | None) -> Times | None:
    """Both times; None if one is unknown or 0, so that there is no ratio."""
    return Times(a, b) if a and b and a.min > 0 and b.min > 0 else None


def train_times(pair: Pair) -> Times | None:
    """The train times; None if the trial has none in one of the runs."""
    a, b = (trial.summary.train_time_s if trial.summary else None for trial in pair.both)
    found = times(a, b)
    if found is None or min(len(counted(trial.repeats)) for trial in pair.both) < 2:
        return found
    return found._replace(can_be_chance=pair.is_chance or not exceeds(found.factor, off(found.factor)))


def judged(found: Iterable[tuple[TrialResult, TrialResult]]) -> Iterator[Pair]:
    """The pairs of trials, with which of their differences chance explains: all are judged together."""
    both = [Pair(*trials) for trials in found]
    samples = [[[repeat.train_time_s for repeat in counted(trial.repeats)] for trial in pair.both] for pair in both]
    tested = [at for at, (of_a, of_b) in enumerate(samples) if min(len(of_a), len(of_b)) > 1]
    is_real = dict(zip(tested, are_real([chance_of_samples(*samples[at]) for at in tested]), strict=True))
    return (pair._replace(is_chance=not is_real.get(at, True)) for at, pair in enumerate(both))


def doubt(pair: Pair) -> str:
    """Why the train times tell no difference, as in "one repeat in B"; empty if they do."""
    runs = [*zip("AB", pair.both, strict=True)]
    if untimed := [run for run, trial in runs if not (trial.summary and trial.summary.train_time_s.min > 0)]:
        return f"no time in {' and '.join(untimed)}"
    if spoilt := [f"{run} was {why_not(counted(trial.repeats)[-1])}" for run, trial in runs if is_rough(trial.repeats)]:
        return " and ".join(spoilt)
    single = [run for run, trial in runs if len(counted(trial.repeats)) < 2]
    return "" if not single else "one repeat each" if len(single) > 1 else f"one repeat in {single[0]}"
