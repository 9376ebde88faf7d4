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

The band, 10 to 90 %: steps drawn anew with replacement, and everything but the calibration computed again (Efron,
"Bootstrap methods: another look at the jackknife", 1979). It covers chance between steps and nothing else.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from statistics import fmean, quantiles
from typing import NamedTuple

from ddptui.projection import Point
from ddptui.projection.calibration import Calibration, backward_of
from ddptui.projection.costs import Backward, CallCosts, transfer_times
from ddptui.projection.measured import LaunchSteps, MeasuredTrial, StepChoice
from ddptui.projection.slowest_rank import Scale, expected_slowest, pooled, slowest, work_by_rank, work_times
from ddptui.text.units import MS_PER_S

RESAMPLES = 100  # enough for the deciles that the band shows
FEWEST_STEPS = 20  # with fewer, a band says nothing
SEED = 0  # the same run always gives the same band
ROUNDS = 50  # of the fixed point, far more than it takes to converge

StrategyRanks = tuple[str, int]


class Network(NamedTuple):
    """The network of a projection."""

    costs_of: Callable[[Sequence[LaunchSteps]], CallCosts]  # by the trial's launches, as measured or as resampled
    is_measured: bool  # it is the one on which the trial was measured
    ranks: int  # on one host, with which it was measured; 0: it was stated
    notes: Sequence[str] = ()  # on what it lacks


class ProjectionRequest(NamedTuple):
    """What to predict."""

    ranks: Sequence[int]
    strong: bool = False
    cores: int | None = None  # of the host that all ranks share, if they do
    threads: int = 1  # of a rank


class Measurements(NamedTuple):
    """What predictions are set beside."""

    step_s: Mapping[StrategyRanks, float]  # of the measured trials
    calibrated: Collection[str]  # strategies whose own transfers were measured on the network projected
    far_off: bool  # the fit is too poor to rest a figure on it alone


class StepTimes(NamedTuple):
    """The parts of a step, s, mean over ranks and steps."""

    work: float
    wait: float
    transfer: float
    exposed: float

    @property
    def step(self) -> float:
        return self.work + self.wait + self.exposed


class Extrapolation(NamedTuple):
    """More ranks than measured steps."""

    ranks: int
    steps: int
    longest_seen_wait: float  # s, if no step were longer than the longest one measured


class Model:
    """Predicts every strategy on every number of ranks of a request."""

    def __init__(
        self, measured: MeasuredTrial, calibrations: Sequence[Calibration], network: Network, request: ProjectionRequest
    ) -> None:
        """calibrations: one a strategy, the measured one first."""
        self._trial = measured
        self._calibrations = calibrations
        self._network = network
        self._request = request
        self._works = [work for step in measured.steps for work in step.work]
        self._backward = backward_of(measured)
        self._measured_work = fmean(map(fmean, work_by_rank(measured)))
        self._scales = {ranks: self._scale(ranks) for ranks in request.ranks}
        self._work_times = {scale: work_times(measured, scale) for scale in set(self._scales.values())}

    def points(self, measurements: Measurements) -> list[Point]:
        """The predictions, strategy by strategy, by ranks."""
        as_measured = self._predict(self._trial.every_step)
        draw = Random(SEED)
        resampled = []
        for _ in range(RESAMPLES if len(self._trial.steps) >= FEWEST_STEPS else 0):
            resampled.append(self._predict([draw.choices(steps, k=len(steps)) for steps in self._trial.every_step]))
        points = []
        for (strategy, ranks), times in as_measured.items():
            steps_s = [sample[strategy, ranks].step for sample in resampled]
            deciles = quantiles(steps_s, n=10, method="inclusive") if steps_s else None
            measured_s = measurements.step_s.get((strategy, ranks))
            calibrated = strategy in measurements.calibrated
            # With strong scaling the measured ranks did all the work. What sharing cores adds to it is no gain.
            share = self._trial.ranks / ranks if self._request.strong else 1.0
            point = Point(
                strategy=strategy,
                ranks=ranks,
                step_ms=times.step * MS_PER_S,
                low_ms=deciles[0] * MS_PER_S if deciles else None,
                high_ms=deciles[-1] * MS_PER_S if deciles else None,
                work_ms=times.work * MS_PER_S,
                wait_ms=times.wait * MS_PER_S,
                transfer_ms=times.transfer * MS_PER_S,
                exposed_ms=times.exposed * MS_PER_S,
                efficiency=share * self._measured_work / times.step,
                calibrated=calibrated,
                rough=measurements.far_off and not calibrated and ranks > 1,  # one rank alone sends nothing
                measured_ms=measured_s * MS_PER_S if measured_s else None,
                error=times.step / measured_s - 1 if measured_s else None,
            )
            points.append(point)
        return points

    def extrapolation(self) -> Extrapolation | None:
        """How far the measured strategy's wait on the most ranks goes beyond measured steps; None: not at all."""
        ranks, steps = max(self._request.ranks), len(self._trial.steps)
        if ranks <= steps:
            return None
        samples = pooled(self._work_times[self._scales[ranks]], self._trial.every_step)
        longest = (max(map(max, samples)) - fmean(map(fmean, samples))) * self._calibrations[0].wait_factor
        return Extrapolation(ranks, steps, longest)

    def _predict(self, choice: StepChoice) -> Mapping[StrategyRanks, StepTimes]:
        costs = self._network.costs_of(
            [[launch[at] for at in chosen] for launch, chosen in zip(self._trial.launches, choice, strict=True)]
        )
        samples = {scale: pooled(times, choice) for scale, times in self._work_times.items()}
        laws = {scale: slowest(ranks) for scale, ranks in samples.items()}
        means = {scale: fmean(map(fmean, ranks)) for scale, ranks in samples.items()}
        longest = {ranks: expected_slowest(laws[scale], ranks) for ranks, scale in self._scales.items()}
        return {
            (calibration.strategy, ranks): self._step_times(calibration, ranks, means[scale], longest[ranks], costs)
            for calibration in self._calibrations
            for ranks, scale in self._scales.items()
        }

    def _step_times(
        self, calibration: Calibration, ranks: int, mean: float, longest: float, costs: CallCosts
    ) -> StepTimes:
        scale, crowding = self._scales[ranks], 1.0
        if cores := self._request.cores:  # relative to the measured crowding, which is in the measured transfers
            crowding = max(1.0, ranks / cores) / max(1.0, self._network.ranks / cores)
        computed = self._backward.computed * scale.batch * scale.compute
        backward = Backward(computed, self._backward.slept * scale.batch, computed * calibration.hides)
        slowed = calibration.costs(costs, crowding)
        transfers = transfer_times(calibration.strategy, calibration.traffic, ranks, slowed, backward)
        wait = max(0.0, longest - mean) * calibration.wait_factor if ranks > 1 else 0.0
        return StepTimes(mean, wait, transfers.transfer, transfers.exposed)

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
