"""Predicts a measured trial on other numbers of ranks: work, the wait for the slowest, transfers, and a band. Pure.

A step is the mean of a rank's own work, the wait until the slowest rank has done its own (slowest_rank.py), and the
exposed communication (costs.py), calibrated on the measured transfers (calibration.py). Ranks are taken to be slow
independently of each other.

Weak scaling: a rank keeps its batch. Strong scaling: the ranks share the measured global batch. Data, forward and
backward then shrink by N0/N, while the optimizer and the time between steps stay.

With `cores` all ranks share one host. Transfers are copies there, which all ranks make at once: they take max(1,
ranks/cores) times as long. A rank that computes competes with those that compute at the same time, and delays make
these fewer: a fixed point, as in mean-value analysis of a closed queue (Reiser and Lavenberg, "Mean-value analysis of
closed multichain queuing networks", 1980). Without delays it is ranks/cores again.

Efficiency is the part of the ranks' time that is measured work. Weak scaling: a step's measured work over the step.
Strong scaling, where N0 ranks did that work: N0 times it, over N times the step. What sharing cores adds to the work,
and what of it does not shrink, is no gain.

The band, 10 to 90 %: steps drawn anew with replacement, and everything but the calibration computed again (Efron,
"Bootstrap methods: another look at the jackknife", 1979). It covers chance between steps and nothing else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from statistics import fmean, quantiles
from typing import NamedTuple

from ddptui.projection.calibration import Calibration, backward_of
from ddptui.projection.costs import Backward, transfer_times
from ddptui.projection.measured import LaunchSteps, MeasuredTrial
from ddptui.projection.network import CallCosts
from ddptui.projection.slowest_rank import Scale, StepChoice, expected_slowest, pooled, slowest, work_times

RESAMPLES = 100  # enough for the deciles that the band shows
FEWEST_STEPS = 20  # with fewer, a band says nothing
SEED = 0  # the same run always gives the same band
ROUNDS = 50  # of the fixed point, far more than it takes to converge

CostsOf = Callable[[Sequence[LaunchSteps]], CallCosts]  # the network by the launches as measured, or as resampled
StrategyRanks = tuple[str, int]


class ProjectionRequest(NamedTuple):
    """The numbers of ranks to predict. cores: of the host that all share, if they do; threads: of a rank."""

    ranks: Sequence[int]
    strong: bool = False
    cores: int | None = None
    threads: int = 1


class StepTimes(NamedTuple):
    """The parts of a step, s, mean over ranks and steps."""

    work: float
    wait: float
    transfer: float
    exposed: float

    @property
    def step(self) -> float:
        return self.work + self.wait + self.exposed


class Projected(NamedTuple):
    """One strategy on so many ranks. low, high: the band of its step, s (None: too few steps)."""

    strategy: str
    ranks: int
    times: StepTimes
    efficiency: float
    low: float | None
    high: float | None


class Extrapolation(NamedTuple):
    """More ranks than measured steps. longest_seen_wait: the wait, s, if no step were longer than the longest one
    measured."""

    ranks: int
    steps: int
    longest_seen_wait: float


class Model:
    """Predicts every strategy on every number of ranks of a request."""

    def __init__(
        self,
        measured: MeasuredTrial,
        calibrations: Sequence[Calibration],
        costs_of: CostsOf,
        request: ProjectionRequest,
        ranks_of_network: int = 0,
    ) -> None:
        """calibrations: one a strategy, the measured one first. ranks_of_network: the number of ranks on one host with
        which the network was measured; 0: it was stated."""
        self._trial = measured
        self._calibrations = calibrations
        self._costs_of = costs_of
        self._request = request
        self._ranks_of_network = ranks_of_network
        self._works = [work for launch in measured.launches for step in launch for work in step.work]
        self._backward = backward_of(measured.launches)
        self._measured_work = _mean(pooled(work_times(measured, Scale()), self._all_steps()))
        self._scales = {ranks: self._scale(ranks) for ranks in request.ranks}
        self._work_times = {scale: work_times(measured, scale) for scale in set(self._scales.values())}

    def projected(self) -> list[Projected]:
        """The predictions, strategy by strategy, by ranks."""
        as_measured = self._predict(self._all_steps())
        draw = Random(SEED)
        count = RESAMPLES if self._steps() >= FEWEST_STEPS else 0
        resampled = [self._predict(self._resample(draw)) for _ in range(count)]
        return [
            Projected(
                strategy,
                ranks,
                times,
                self._efficiency(ranks, times.step),
                *(_band(sample[strategy, ranks].step for sample in resampled) if resampled else (None, None)),
            )
            for (strategy, ranks), times in as_measured.items()
        ]

    def extrapolation(self) -> Extrapolation | None:
        """How far the measured strategy's wait on the most ranks goes beyond measured steps; None: not at all."""
        ranks = max(self._request.ranks)
        if ranks <= self._steps():
            return None
        samples = pooled(self._work_times[self._scales[ranks]], self._all_steps())
        longest = (max(map(max, samples)) - _mean(samples)) * self._calibrations[0].wait_factor
        return Extrapolation(ranks, self._steps(), longest)

    def _steps(self) -> int:
        return sum(map(len, self._trial.launches))

    def _all_steps(self) -> StepChoice:
        return [range(len(launch)) for launch in self._trial.launches]

    def _resample(self, draw: Random) -> StepChoice:
        return [draw.choices(range(len(launch)), k=len(launch)) for launch in self._trial.launches]

    def _efficiency(self, ranks: int, step: float) -> float:
        share = self._trial.ranks / ranks if self._request.strong else 1.0
        return share * self._measured_work / step

    def _predict(self, choice: StepChoice) -> Mapping[StrategyRanks, StepTimes]:
        costs = self._costs_of(
            [[launch[at] for at in chosen] for launch, chosen in zip(self._trial.launches, choice, strict=True)]
        )
        samples = {scale: pooled(times, choice) for scale, times in self._work_times.items()}
        laws = {scale: slowest(ranks) for scale, ranks in samples.items()}
        means = {scale: _mean(ranks) for scale, ranks in samples.items()}
        longest = {ranks: expected_slowest(laws[scale], ranks) for ranks, scale in self._scales.items()}
        return {
            (calibration.strategy, ranks): self._step_times(calibration, ranks, means[scale], longest[ranks], costs)
            for calibration in self._calibrations
            for ranks, scale in self._scales.items()
        }

    def _step_times(
        self, calibration: Calibration, ranks: int, mean: float, longest: float, costs: CallCosts
    ) -> StepTimes:
        scale, slowed = self._scales[ranks], calibration.costs(costs, self._crowding(ranks))
        computed = self._backward.computed * scale.batch * scale.compute
        backward = Backward(computed, self._backward.slept * scale.batch, computed * calibration.hides)
        transfers = transfer_times(calibration.strategy, calibration.traffic, ranks, slowed, backward)
        wait = max(0.0, longest - mean) * calibration.wait_factor if ranks > 1 else 0.0
        return StepTimes(mean, wait, transfers.transfer, transfers.exposed)

    def _crowding(self, ranks: int) -> float:
        """How many times as long as measured transfers take, since all ranks share the host's cores."""
        if self._request.cores is None:
            return 1.0
        return max(1.0, ranks / self._request.cores) / max(1.0, self._ranks_of_network / self._request.cores)

    def _scale(self, ranks: int) -> Scale:
        batch = self._trial.ranks / ranks if self._request.strong else 1.0
        return Scale(batch, self._compute_scale(ranks, batch) if self._request.cores else 1.0)

    def _compute_scale(self, ranks: int, batch: float) -> float:
        """How many times as long as measured computing takes on the shared cores."""
        computed = fmean(work.batch + work.rest for work in self._works)
        slept = fmean(work.batch_slept + work.rest_slept for work in self._works)
        measured = self._slowdown(self._trial.ranks, computed, slept)
        alone = fmean(work.batch * batch + work.rest for work in self._works) / measured
        asleep = fmean(work.batch_slept * batch + work.rest_slept for work in self._works)
        slowdown = 1.0
        for _ in range(ROUNDS):
            slowdown = self._slowdown(ranks, alone * slowdown, asleep)
        return slowdown / measured

    def _slowdown(self, ranks: int, computed: float, slept: float) -> float:
        """Of a rank that competes with those ranks that compute at the same time."""
        at_work = computed / (computed + slept) if computed else 0.0
        return max(1.0, (1 + (ranks - 1) * at_work) * self._request.threads / (self._request.cores or 1))


def _band(steps: Iterable[float]) -> tuple[float, float]:
    deciles = quantiles(steps, n=10, method="inclusive")
    return deciles[0], deciles[-1]


def _mean(samples: Iterable[Sequence[float]]) -> float:
    return fmean(map(fmean, samples))
