"""What a message costs: stated, or fitted to what transfers took. Pure.

A call costs `call`, whatever the number of ranks: it is handed to a thread of gloo's, which must wake up, and returns
(the overhead o of LogP: Culler and others, "LogP: towards a realistic model of parallel computation", 1993). Each
message that a rank sends one after another costs alpha, each byte beta, and each byte added gamma (Thakur, Rabenseifner
and Gropp 2005). All in s.

One collective on one number of ranks cannot tell call from alpha: there all of it is alpha, which grows with the ranks.
Nor can it tell beta from gamma, which its formula has in the same proportion always: there all of it is beta. A
broadcast beside an all_reduce tells the first two apart, a sum without a wire the other two.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ddptui.analysis.primitives.least_squares import nonnegative_least_squares
from ddptui.analysis.primitives.theory import OPERATIONS, Cost, theory
from ddptui.projection import ProjectionError

US, GIGABIT = 1e-6, 1e9 / 8  # s; bytes
CLEAN = ("all_reduce", "reduce", "broadcast")  # gloo makes no copies for these: their formulas are all there is
POINT_TO_POINT = ("isend_irecv", "send_recv")


class Bill(NamedTuple):
    """How often each is paid."""

    calls: float
    messages: float
    bytes: float
    added: float


class CallCosts(NamedTuple):
    """outliers: what a call takes on average beyond what is typical, when the machine is busy with something else;
    source: where that comes from, in words; worst: the largest error of a fit, as a part of what was measured."""

    alpha: float
    beta: float
    gamma: float = 0.0
    call: float = 0.0
    outliers: float = 0.0
    source: str = ""
    worst: float | None = None

    def seconds(self, bill: Bill) -> float:
        return (
            bill.calls * (self.call + self.outliers)
            + bill.messages * self.alpha
            + bill.bytes * self.beta
            + bill.added * self.gamma
        )

    def slowed(self, times: float) -> "CallCosts":
        """Where everything takes so many times as long; but for what has other reasons."""
        return self._replace(
            alpha=self.alpha * times, beta=self.beta * times, gamma=self.gamma * times, call=self.call * times
        )


class Taken(NamedTuple):
    """One operation with one size (bytes as its formula counts them), on so many ranks: s, typical and on average, and
    how often."""

    operation: str
    ranks: int
    bytes: float
    s: float
    mean_s: float
    times: float = 1.0


def stated(alpha_us: float, gbps: float) -> CallCosts:
    """gbps: 1e9 bits a second."""
    return CallCosts(alpha_us * US, 1 / (gbps * GIGABIT), source=f"stated: α {alpha_us:g} µs, {gbps:g} Gbit/s")


def fitted(taken: Sequence[Taken], source: str, gamma: float = 0.0) -> CallCosts:
    """Least squares of relative errors, nothing below 0. Raises ProjectionError where one size is all there is."""
    used = _telling([each for each in taken if each.operation in OPERATIONS and each.s > 0])
    if len({each.bytes for each in used if each.bytes}) < 2:
        raise ProjectionError(
            f"{source}: transfers of one size only cannot tell latency from bandwidth: state them (--alpha, --gbps), "
            "or name a run of primitives (--network)"
        )
    apart = len({theory(each.operation).cost(each.ranks).latency for each in used}) > 1
    rows = [_row(each, apart) for each in used]
    targets = [1 - _cost(each).reduction * each.bytes * gamma / each.s for each in used]
    alpha, beta, *call = nonnegative_least_squares(rows, targets)
    network = CallCosts(alpha, beta, gamma, call[0] if call else 0.0, source=source)
    return network._replace(worst=max(abs(took(network, each) / each.s - 1) for each in used))


def outliers(taken: Iterable[Taken]) -> float:
    """What a call takes on average beyond a typical one of its kind and size, s: where few take far longer than most,
    that is no matter of messages or bytes, and comes with each call."""
    known = list(taken)
    calls = sum(each.times for each in known)
    beyond = sum(each.times * (each.mean_s - each.s) for each in known)
    return max(0.0, beyond / calls) if calls else 0.0


def took(network: CallCosts, each: Taken) -> float:
    """As the network has it."""
    cost = _cost(each)
    return network.seconds(Bill(1, cost.latency, each.bytes * cost.transfer, each.bytes * cost.reduction))


def gamma_of(sums: Sequence[Taken]) -> float:
    """s a byte, of sums without a wire; 0 where there are not two sizes."""
    if len({each.bytes for each in sums}) < 2:
        return 0.0
    _, gamma = nonnegative_least_squares([(1 / each.s, each.bytes / each.s) for each in sums], [1.0] * len(sums))
    return gamma


def _telling(taken: Sequence[Taken]) -> list[Taken]:
    """Those whose formulas are most to be trusted: several collectives that tell call from alpha; else one message at a
    time; else whatever there is."""
    clean = [each for each in taken if each.operation in CLEAN]
    if len({_cost(each).latency for each in clean}) > 1:
        return clean
    for operation in (*POINT_TO_POINT, *CLEAN):
        if alone := [each for each in taken if each.operation == operation]:
            return alone
    return list(taken)


def _cost(each: Taken) -> Cost:
    return theory(each.operation).cost(each.ranks)


def _row(each: Taken, apart: bool) -> list[float]:
    cost = _cost(each)
    return [cost.latency / each.s, each.bytes * cost.transfer / each.s, *([1 / each.s] if apart else [])]
