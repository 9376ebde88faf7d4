"""What a message costs: stated by the user, or fitted to measured transfers. Pure.

A call costs `call`, whatever the number of ranks: it is handed to one of gloo's threads, which must wake up, and
returns (the overhead o of LogP: Culler and others, "LogP: towards a realistic model of parallel computation", 1993).
Each message that a rank sends one after another costs alpha, each byte beta, and each byte added gamma (Thakur,
Rabenseifner and Gropp 2005). All in s.

One collective on one number of ranks cannot separate call from alpha. The fit then counts both as alpha, which grows
with the ranks. Nor can it separate beta from gamma, whose ratio its formula fixes: both count as beta. A broadcast
beside an all_reduce separates the first pair, a local sum the second.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ddptui.analysis.primitives.least_squares import nonnegative_least_squares
from ddptui.analysis.primitives.theory import OPERATIONS, Cost, theory
from ddptui.projection import ProjectionError
from ddptui.text.units import US_IN_S

GIGABIT = 1e9 / 8  # bytes
CLEAN = ("all_reduce", "reduce", "broadcast")  # gloo makes no copies for these, so their formulas are complete
POINT_TO_POINT = ("isend_irecv", "send_recv")


class CostUnits(NamedTuple):
    """How many calls, messages, bytes sent and bytes added a transfer pays for."""

    calls: float
    messages: float
    bytes: float
    added: float


class CallCosts(NamedTuple):
    """What a network costs: s a message (alpha), a byte (beta), a byte added (gamma), a call.

    excess  mean time of a call beyond its typical time, s: outliers, while the machine is busy with something else
    source  where the figures come from, in words
    worst   largest error of the fit, relative to the measured time (None: no fit)
    """

    alpha: float
    beta: float
    gamma: float = 0.0
    call: float = 0.0
    excess: float = 0.0
    source: str = ""
    worst: float | None = None

    def seconds(self, units: CostUnits) -> float:
        """The time of a transfer, s."""
        return (
            units.calls * (self.call + self.excess)
            + units.messages * self.alpha
            + units.bytes * self.beta
            + units.added * self.gamma
        )

    def slowed(self, factor: float) -> "CallCosts":
        """The same network, `factor` times as slow. The excess stays: its causes lie outside the network."""
        return self._replace(
            alpha=self.alpha * factor, beta=self.beta * factor, gamma=self.gamma * factor, call=self.call * factor
        )


class MeasuredCall(NamedTuple):
    """One operation with one size on one number of ranks, as measured. bytes: as the formula of the operation counts
    them; s: median time; mean_s: mean time; number: how many were measured."""

    operation: str
    ranks: int
    bytes: float
    s: float
    mean_s: float
    number: float = 1.0


def stated_costs(alpha_us: float, gbps: float) -> CallCosts:
    """A network of so many µs a message and 1e9 bits a second."""
    return CallCosts(alpha_us * US_IN_S, 1 / (gbps * GIGABIT), source=f"stated: α {alpha_us:g} µs, {gbps:g} Gbit/s")


def fit_costs(calls: Sequence[MeasuredCall], source: str, gamma: float = 0.0) -> CallCosts:
    """Least squares of the relative errors, no cost below 0. gamma: known beforehand, s a byte. Raises
    ProjectionError."""
    used = _most_reliable([call for call in calls if call.operation in OPERATIONS and call.s > 0])
    if len({call.bytes for call in used if call.bytes}) < 2:
        raise ProjectionError(
            f"{source}: transfers of one size cannot separate latency from bandwidth: state both (--alpha, --gbps), "
            "or name a run of primitives (--network)"
        )
    separable = len({_cost(call).latency for call in used}) > 1
    rows = [_row(call, separable) for call in used]
    targets = [1 - _cost(call).reduction * call.bytes * gamma / call.s for call in used]
    alpha, beta, *overhead = nonnegative_least_squares(rows, targets)
    network = CallCosts(alpha, beta, gamma, overhead[0] if overhead else 0.0, source=source)
    return network._replace(worst=max(abs(predicted_s(network, call) / call.s - 1) for call in used))


def mean_excess(calls: Iterable[MeasuredCall]) -> float:
    """How much longer a call takes on average than is typical of its kind and size, s. Where a few calls take far
    longer than most, messages and bytes are not the reason; each call has the same risk."""
    known = list(calls)
    count = sum(call.number for call in known)
    excess = sum(call.number * (call.mean_s - call.s) for call in known)
    return max(0.0, excess / count) if count else 0.0


def predicted_s(network: CallCosts, call: MeasuredCall) -> float:
    """What the network's costs make of a measured call, s."""
    cost = _cost(call)
    return network.seconds(CostUnits(1, cost.latency, call.bytes * cost.transfer, call.bytes * cost.reduction))


def fit_gamma(sums: Sequence[MeasuredCall]) -> float:
    """s a byte added, from local sums; 0 where they have fewer than two sizes."""
    if len({local_sum.bytes for local_sum in sums}) < 2:
        return 0.0
    _, gamma = nonnegative_least_squares([(1 / call.s, call.bytes / call.s) for call in sums], [1.0] * len(sums))
    return gamma


def _most_reliable(calls: Sequence[MeasuredCall]) -> list[MeasuredCall]:
    """The calls whose formulas fit best: several collectives that separate call from alpha, else one message at a time,
    else all."""
    clean = [call for call in calls if call.operation in CLEAN]
    if len({_cost(call).latency for call in clean}) > 1:
        return clean
    for operation in (*POINT_TO_POINT, *CLEAN):
        if alone := [call for call in calls if call.operation == operation]:
            return alone
    return list(calls)


def _cost(call: MeasuredCall) -> Cost:
    return theory(call.operation).cost(call.ranks)


def _row(call: MeasuredCall, separable: bool) -> list[float]:
    cost = _cost(call)
    return [cost.latency / call.s, call.bytes * cost.transfer / call.s, *([1 / call.s] if separable else [])]
