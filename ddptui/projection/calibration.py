"""What a trial's own transfers say of its strategy, beyond what a fit to all transfers does. Pure.

A fit goes past each transfer that it is made from, and a typical call is shorter than a mean one. So the transfers of a
strategy that was measured are scaled to what they were: by one factor, once outliers are taken off. A strategy that was
not measured has the factor of the trial that all is made from.

Where buckets overlap backward, two things more are taken from the trial itself: for how long after backward what is
under way was still hidden (a bucket leaves before the last bit of backward is done, and its copies come after), as a
part of backward; and the wait, of which a rank's own computing hides a part, as a part of what it would be without.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.projection.costs import Backward, Traffic, all_over, hidden_until, sent
from ddptui.projection.measured import Launch, MeasuredTrial
from ddptui.projection.network import CallCosts, outliers
from ddptui.projection.rank_spread import Scale, lengths, picked
from ddptui.projection.slowest_rank import expected, slowest
from ddptui.projection.traffic import taken, traffic

FREE = CallCosts(0.0, 0.0)
PASSES = "isend_irecv"  # all ranks do it at once, each with its neighbour


class Calibration(NamedTuple):
    """factor: times what the fit has it, a typical call takes; outliers: of a call, s (None: those of the network);
    hides: how long after backward transfers are hidden, as a part of what backward computes; wait: times what the
    slowest would make it."""

    strategy: str
    traffic: Traffic
    factor: float = 1.0
    outliers: float | None = None
    hides: float = 0.0
    wait: float = 1.0

    def costs(self, fit: CallCosts, crowding: float) -> CallCosts:
        beyond = fit.outliers if self.outliers is None else self.outliers
        return fit.slowed(self.factor * crowding)._replace(outliers=beyond)

    def of_another(self, strategy: str) -> "Calibration":
        """What it says of a strategy that was not measured."""
        alike = STRATEGIES[strategy].overlaps == STRATEGIES[self.strategy].overlaps
        kept = self if alike else self._replace(hides=0.0, wait=1.0)
        return kept._replace(strategy=strategy)


def calibrated(trial: Trial, seen: MeasuredTrial, fit: CallCosts | None) -> Calibration:
    """Of a trial, on its own number of ranks. fit: to transfers like its own; None: the network is another one."""
    found = Calibration(str(trial.strategy), traffic(trial, seen))
    if fit is not None:
        beyond = outliers(taken(seen, seen.launches))
        found = found._replace(factor=_factor(found, seen, fit, beyond), outliers=beyond)
    if not STRATEGIES[found.strategy].overlaps:
        return found
    return found._replace(hides=_hides(found, seen), wait=_wait(seen))


def backward_of(launches: Sequence[Launch]) -> Backward:
    """On average."""
    works = [work for launch in launches for moment in launch for work in moment.work]
    return Backward(fmean(work.backward for work in works), fmean(work.slept_after for work in works))


def _factor(found: Calibration, seen: MeasuredTrial, fit: CallCosts, beyond: float) -> float:
    def by(costs: CallCosts) -> float:
        return sent(found.strategy, found.traffic, seen.ranks, costs, Backward(0.0)).transfer

    typical = by(fit._replace(outliers=0.0))
    return max(0.0, transfer_s(seen) - by(FREE._replace(outliers=beyond))) / typical if typical else 1.0


def transfer_s(seen: MeasuredTrial) -> float:
    """Of a step, measured."""
    moments = [moment for launch in seen.launches for moment in launch]
    calls = [call for moment in moments for call in moment.calls]
    return sum(call.times * call.s / (seen.ranks if call.kind == PASSES else 1) for call in calls) / len(moments)


def _hides(found: Calibration, seen: MeasuredTrial) -> float:
    """So that of the transfers as they were, as much sticks out as did."""
    backward = backward_of(seen.launches)
    if not backward.computed or not seen.ready:
        return 0.0
    mean_s = {(each.operation, each.bytes): each.mean_s for each in taken(seen, seen.launches)}
    over = all_over(backward.computed, seen.ready, [mean_s.get(each, 0.0) for each in seen.sent])
    moments = [moment for launch in seen.launches for moment in launch]
    early = sum(call.times * call.s for moment in moments for call in moment.calls if call.early) / len(moments)
    exposed = fmean(moment.exposed for moment in moments) - early
    return (over - hidden_until(found.strategy, backward) - exposed) / backward.computed


def _wait(seen: MeasuredTrial) -> float:
    """What a step was beyond work and transfers, over what the slowest of the ranks would make of it."""
    moments = [moment for launch in seen.launches for moment in launch]
    by_rank = picked(lengths(seen, Scale()), [range(len(launch)) for launch in seen.launches])
    work = fmean(map(fmean, by_rank))
    independent = expected(slowest(by_rank), seen.ranks) - work
    waited = seen.step_s - work - fmean(moment.exposed for moment in moments)
    return max(0.0, waited) / independent if independent > 0 else 1.0
