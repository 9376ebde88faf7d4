"""A strategy's own traffic, and how its measured transfers differ from what the fitted network predicts. Pure.

The fit is a compromise between all transfers it is made from, and a typical call is shorter than a mean one. So the
predicted transfers of a measured strategy are scaled to the measured ones: by one factor, with the outliers taken off.
A strategy that was not measured takes the factor of the trial that the projection is made from.

Where buckets overlap backward, the trial gives two more figures: how long after backward transfers are still hidden,
and the wait relative to what the slowest rank alone would cause, since a rank's own computing hides part of it.
"""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from ddptui.config.strategies import STRATEGIES, Sends
from ddptui.config.trial import Trial
from ddptui.projection.costs import (
    Backward,
    CallCosts,
    MeasuredCall,
    Traffic,
    hidden_until,
    last_bucket_done,
    mean_excess,
    transfer_times,
)
from ddptui.projection.measured import Call, LaunchSteps, MeasuredTrial
from ddptui.projection.slowest_rank import expected_slowest, slowest, work_by_rank

FREE = CallCosts(0.0, 0.0)
PAIRWISE = "isend_irecv"  # all ranks do it at once, each with its neighbor
ITEMSIZES = {"float32": 4, "float64": 8}
PARTS = ("gather", "all_gather", "scatter")  # a rank records its part of these; the formulas count all parts together


class Calibration(NamedTuple):
    """What was measured of a strategy's transfers."""

    strategy: str
    traffic: Traffic
    factor: float = 1.0  # typical time of a call, relative to the fit
    excess: float | None = None  # mean time of a call beyond its typical time, s; None: that of the network
    hides: float = 0.0  # how long after backward transfers are hidden, relative to backward's computing
    wait_factor: float = 1.0  # the wait, relative to what the slowest rank alone would cause

    def costs(self, fit: CallCosts, crowding: float) -> CallCosts:
        """The fitted costs, calibrated. crowding: how many times as long transfers take on a shared host."""
        excess = fit.excess if self.excess is None else self.excess
        return fit.slowed(self.factor * crowding)._replace(excess=excess)

    def for_strategy(self, strategy: str) -> "Calibration":
        """The calibration of a strategy that was not measured: overlap counts only where both overlap, or neither."""
        alike = STRATEGIES[strategy].overlaps == STRATEGIES[self.strategy].overlaps
        kept = self if alike else self._replace(hides=0.0, wait_factor=1.0)
        return kept._replace(strategy=strategy)


def calibrate(trial: Trial, measured: MeasuredTrial, fit: CallCosts | None) -> Calibration:
    """A trial's calibration, on the ranks it was measured on. fit: of its own network; None: the network projected is
    another one."""
    calibration = Calibration(str(trial.strategy), traffic(trial, measured))
    if fit is not None:
        excess = mean_excess(measured_calls(measured, measured.launches))
        calibration = calibration._replace(factor=_factor(calibration, measured, fit, excess), excess=excess)
    if not STRATEGIES[calibration.strategy].overlaps:
        return calibration
    return calibration._replace(hides=_hides(calibration, measured), wait_factor=_wait_factor(measured))


def backward_of(measured: MeasuredTrial) -> Backward:
    """A rank's backward, mean over ranks and steps."""
    works = [work for step in measured.steps for work in step.work]
    return Backward(fmean(work.backward for work in works), fmean(work.slept_after for work in works))


def traffic(trial: Trial, measured: MeasuredTrial) -> Traffic:
    """What a step of the trial sends."""
    itemsize = ITEMSIZES[trial.dtype]
    facts = STRATEGIES[trial.strategy or "none"]
    sends = facts.sends or Sends("each")
    # The tensors' sizes are known where each has a call of its own; else they count as equal parts.
    sizes = [float(size) for kind, size in measured.operations if kind == sends.collective]
    total = float(measured.parameters * itemsize)
    widened = itemsize / (sends.number_bytes or itemsize)  # what fp16 sends is half as wide as the gradients
    early = [call for step in measured.steps for call in step.calls if call.early]
    return Traffic(
        tensors=tuple(sizes) or (total / measured.tensors,) * measured.tensors,
        itemsize=itemsize,
        buckets=tuple(size * widened for _, size in measured.operations) if facts.overlaps else (),
        ready=measured.ready if facts.overlaps else (),
        bucket_mb=trial.bucket_mb,
        early_calls=sum(call.number for call in early) / len(measured.steps),
        early_bytes=sum(call.number * call.bytes for call in early) / len(measured.steps),
    )


def measured_calls(measured: MeasuredTrial, launches: Sequence[LaunchSteps]) -> list[MeasuredCall]:
    """The calls of each kind and size in these launches of the trial."""
    by_key: defaultdict[tuple[str, int], list[Call]] = defaultdict(list)
    for launch in launches:
        for step in launch:
            for call in step.calls:
                by_key[call.kind, call.bytes].append(call)
    found = []
    for (kind, size), calls in sorted(by_key.items()):
        seconds = [call.s for call in calls]
        measured_call = MeasuredCall(
            operation=kind,
            ranks=measured.ranks,
            bytes=size * (measured.ranks if kind in PARTS else 1),
            s=median(seconds),
            mean_s=fmean(seconds),
            number=sum([call.number for call in calls]),
        )
        found.append(measured_call)
    return found


def _factor(calibration: Calibration, measured: MeasuredTrial, fit: CallCosts, excess: float) -> float:
    def predicted(costs: CallCosts) -> float:
        no_overlap = Backward(0.0)
        return transfer_times(calibration.strategy, calibration.traffic, measured.ranks, costs, no_overlap).transfer

    calls = [call for step in measured.steps for call in step.calls]
    seconds = (call.number * call.s / (measured.ranks if call.kind == PAIRWISE else 1) for call in calls)
    transfer_s = sum(seconds) / len(measured.steps)
    typical = predicted(fit._replace(excess=0.0))
    return max(0.0, transfer_s - predicted(FREE._replace(excess=excess))) / typical if typical else 1.0


def _hides(calibration: Calibration, measured: MeasuredTrial) -> float:
    """The `hides` with which the transfers as measured leave as much exposed as was measured."""
    backward, steps = backward_of(measured), measured.steps
    if not backward.computed or not measured.ready:
        return 0.0
    mean_s = {(call.operation, call.bytes): call.mean_s for call in measured_calls(measured, measured.launches)}
    durations = [mean_s.get(operation, 0.0) for operation in measured.operations]
    done = last_bucket_done(backward.computed, measured.ready, durations)
    early = sum(call.number * call.s for step in steps for call in step.calls if call.early) / len(steps)
    exposed = fmean(step.exposed for step in steps) - early  # what is sent before backward is always exposed
    return (done - hidden_until(calibration.strategy, backward) - exposed) / backward.computed


def _wait_factor(measured: MeasuredTrial) -> float:
    """The step beyond work and exposed communication, relative to the wait for the slowest of independent ranks."""
    times = work_by_rank(measured)
    work = fmean(map(fmean, times))
    independent = expected_slowest(slowest(times), measured.ranks) - work
    waited = measured.step_s - work - fmean(step.exposed for step in measured.steps)
    return max(0.0, waited) / independent if independent > 0 else 1.0
