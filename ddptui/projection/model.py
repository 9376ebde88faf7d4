"""A measured trial on more ranks: work, the wait for the slowest, transfers, and how sure that is. Pure.

A step is the mean of a rank's own work, the wait until the slowest of all ranks has done its own (slowest.py), and what
nothing hides of the transfers (costs.py), which are calibrated on those that were measured (calibration.py). Ranks are
taken to be slow independently of each other. What launches differ by is taken out first (ranks.py).

Weak scaling: a rank keeps its batch. Strong scaling: the ranks share out the measured global batch, so that data,
forward and backward shrink by N0/N, and the optimizer and what is between steps stay.

With `cores` all ranks share one host. Transfers are copies there, which all ranks make at once: they take max(1,
ranks/cores) times as long. A rank that computes competes with those that compute at the same time, and those are fewer,
where delays are slept: a fixed point, as in mean-value analysis of a closed queue (Reiser and Lavenberg, "Mean-value
analysis of closed multichain queuing networks", 1980). Where nothing is slept, it is ranks/cores again.

Efficiency is how much of the ranks' time is the measured work: under weak scaling, a step's work as it was measured,
over the step; under strong scaling, where N0 ranks shared it, N0 times that over N times the step. What sharing cores
adds to the work, and what does not shrink of it, is no gain.

The band, 10 to 90 %: steps drawn anew with replacement, and everything but the calibration worked out again (Efron,
"Bootstrap methods: another look at the jackknife", 1979). It tells of chance between steps, and of nothing else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from statistics import fmean, quantiles
from typing import NamedTuple

from ddptui.projection.calibration import Calibration, backward_of
from ddptui.projection.costs import Backward, sent
from ddptui.projection.measured import Launch, MeasuredTrial
from ddptui.projection.network import CallCosts
from ddptui.projection.rank_spread import Picks, Scale, lengths, picked
from ddptui.projection.slowest_rank import expected, slowest

DRAWN = 100  # times
FEWEST_STEPS = 20  # from which a band is drawn
SEED = 0
FIXED_POINT = 50  # rounds, far more than it takes

CostsOf = Callable[[Sequence[Launch]], CallCosts]  # of the trial's launches, as they were or as they were drawn


class ProjectionRequest(NamedTuple):
    """threads: that a rank computes with."""

    ranks: Sequence[int]
    strong: bool = False
    cores: int | None = None
    threads: int = 1


class Figures(NamedTuple):
    """In s. step: work, wait and exposed together."""

    work: float
    wait: float
    transfer: float
    exposed: float

    @property
    def step(self) -> float:
        return self.work + self.wait + self.exposed


class Projected(NamedTuple):
    """One strategy on so many ranks; low and high of its step, s (None: too few steps to tell)."""

    strategy: str
    ranks: int
    figures: Figures
    efficiency: float
    low: float | None
    high: float | None


class Beyond(NamedTuple):
    """More ranks than steps were seen. longest: the wait, s, if no step were longer than the longest one seen."""

    ranks: int
    steps: int
    longest: float


Key = tuple[str, int]


class Model:
    """What a projection is worked out with."""

    def __init__(
        self,
        seen: MeasuredTrial,
        calibrations: Sequence[Calibration],
        costs_of: CostsOf,
        asked: ProjectionRequest,
        slowed_from: int = 0,
    ) -> None:
        """calibrations: of each strategy. slowed_from: the number of ranks on one host with which the network was
        measured; 0: it was stated."""
        self._seen = seen
        self._calibrations = calibrations
        self._costs_of = costs_of
        self._asked = asked
        self._slowed_from = slowed_from
        self._works = [work for launch in seen.launches for moment in launch for work in moment.work]
        self._backward = backward_of(seen.launches)
        self._measured = _mean(picked(lengths(seen, Scale()), self._all()))
        self._scales = {ranks: self._scale(ranks) for ranks in asked.ranks}
        self._lengths = {scale: lengths(seen, scale) for scale in set(self._scales.values())}

    def projected(self) -> list[Projected]:
        """Strategy by strategy."""
        as_seen = self._figures(self._all())
        draw = Random(SEED)
        drawn = [self._figures(self._picks(draw)) for _ in range(DRAWN if self._steps() >= FEWEST_STEPS else 0)]
        return [
            Projected(
                strategy,
                ranks,
                figures,
                self._efficiency(ranks, figures.step),
                *(_band(again[strategy, ranks].step for again in drawn) if drawn else (None, None)),
            )
            for (strategy, ranks), figures in as_seen.items()
        ]

    def beyond(self) -> Beyond | None:
        """What the measured strategy's wait on the most ranks rests on; None: on steps that were seen."""
        ranks = max(self._asked.ranks)
        if ranks <= self._steps():
            return None
        samples = picked(self._lengths[self._scales[ranks]], self._all())
        return Beyond(ranks, self._steps(), (max(map(max, samples)) - _mean(samples)) * self._calibrations[0].wait)

    def _steps(self) -> int:
        return sum(map(len, self._seen.launches))

    def _all(self) -> Picks:
        return [range(len(launch)) for launch in self._seen.launches]

    def _efficiency(self, ranks: int, step: float) -> float:
        share = self._seen.ranks / ranks if self._asked.strong else 1.0
        return share * self._measured / step

    def _picks(self, draw: Random) -> Picks:
        return [draw.choices(range(len(launch)), k=len(launch)) for launch in self._seen.launches]

    def _figures(self, picks: Picks) -> Mapping[Key, Figures]:
        costs = self._costs_of(
            [[launch[at] for at in chosen] for launch, chosen in zip(self._seen.launches, picks, strict=True)]
        )
        samples = {scale: picked(own, picks) for scale, own in self._lengths.items()}
        laws = {scale: slowest(ranks) for scale, ranks in samples.items()}
        means = {scale: _mean(ranks) for scale, ranks in samples.items()}
        longest = {ranks: expected(laws[scale], ranks) for ranks, scale in self._scales.items()}
        return {
            (calibration.strategy, ranks): self._of(calibration, ranks, means[scale], longest[ranks], costs)
            for calibration in self._calibrations
            for ranks, scale in self._scales.items()
        }

    def _of(self, calibration: Calibration, ranks: int, mean: float, longest: float, costs: CallCosts) -> Figures:
        scale, slowed = self._scales[ranks], calibration.costs(costs, self._crowding(ranks))
        computed = self._backward.computed * scale.batch * scale.compute
        backward = Backward(computed, self._backward.slept * scale.batch, computed * calibration.hides)
        found = sent(calibration.strategy, calibration.traffic, ranks, slowed, backward)
        wait = max(0.0, longest - mean) * calibration.wait if ranks > 1 else 0.0
        return Figures(mean, wait, found.transfer, found.exposed)

    def _crowding(self, ranks: int) -> float:
        """How many times as long as when they were measured transfers take."""
        if self._asked.cores is None:
            return 1.0
        return max(1.0, ranks / self._asked.cores) / max(1.0, self._slowed_from / self._asked.cores)

    def _scale(self, ranks: int) -> Scale:
        batch = self._seen.ranks / ranks if self._asked.strong else 1.0
        return Scale(batch, self._taking_turns(ranks, batch) if self._asked.cores else 1.0)

    def _taking_turns(self, ranks: int, batch: float) -> float:
        """How many times as long as measured computing takes."""
        computed = fmean(work.batch + work.rest for work in self._works)
        slept = fmean(work.batch_slept + work.rest_slept for work in self._works)
        measured = self._slowdown(self._seen.ranks, computed, slept)
        alone = fmean(work.batch * batch + work.rest for work in self._works) / measured
        asleep = fmean(work.batch_slept * batch + work.rest_slept for work in self._works)
        slowdown = 1.0
        for _ in range(FIXED_POINT):
            slowdown = self._slowdown(ranks, alone * slowdown, asleep)
        return slowdown / measured

    def _slowdown(self, ranks: int, computed: float, slept: float) -> float:
        """Of a rank that competes with those others that compute at the same time."""
        at_work = computed / (computed + slept) if computed else 0.0
        return max(1.0, (1 + (ranks - 1) * at_work) * self._asked.threads / (self._asked.cores or 1))


def _band(steps: Iterable[float]) -> tuple[float, float]:
    deciles = quantiles(steps, n=10, method="inclusive")
    return deciles[0], deciles[-1]


def _mean(samples: Iterable[Sequence[float]]) -> float:
    return fmean(map(fmean, samples))
