"""What a message costs, what a step's transfers cost under each strategy, and how much backward hides of them. Pure.

A call costs `call`, whatever the number of ranks: it is handed to one of gloo's threads, which must wake up, and
returns (the overhead o of LogP: Culler and others, "LogP: towards a realistic model of parallel computation", 1993).
Each message that a rank sends one after another costs alpha, each byte beta, and each byte added gamma (Thakur,
Rabenseifner and Gropp 2005). All in s. These costs are stated by the user, or fitted to measured transfers.

One collective on one number of ranks cannot separate call from alpha, so the fit counts both as alpha. Nor can it
separate beta from gamma, whose ratio its formula fixes: both count as beta. A broadcast beside an all_reduce separates
the first pair, a local sum the second.

How often each cost is paid follows from gloo's algorithms (analysis/primitives/theory.py, with sources), for the rank
that has most to do: a reduce is a ring reduce-scatter whose parts are gathered on the root, a broadcast a binomial
tree. It is summed over the tensors, or the buckets, of a step.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from ddptui.analysis.primitives.least_squares import nonnegative_least_squares
from ddptui.analysis.primitives.theory import OPERATIONS, Cost, theory
from ddptui.config.strategies import STRATEGIES, Sends
from ddptui.projection import ProjectionError
from ddptui.text.units import MB, US_IN_S

GIGABIT = 1e9 / 8  # bytes
CLEAN = ("all_reduce", "reduce", "broadcast")  # gloo makes no copies for these, so their formulas are complete
POINT_TO_POINT = ("isend_irecv", "send_recv")
BUCKET_MB, FIRST_BUCKET_MB = 25.0, 1.0  # torch DDP's defaults: a small first bucket lets communication begin early
AT_A_TIME = 2  # threads of a group in torch's gloo: the latencies of asynchronous calls overlap by pairs


class CostUnits(NamedTuple):
    """What a transfer pays for."""

    calls: float
    messages: float  # one after another
    bytes: float  # sent
    added: float  # bytes


class CallCosts(NamedTuple):
    """What a network costs, in s."""

    alpha: float  # a message
    beta: float  # a byte
    gamma: float = 0.0  # a byte added
    call: float = 0.0
    excess: float = 0.0  # mean time of a call beyond its typical time: outliers, while the machine is busy otherwise
    source: str = ""  # where the figures come from, in words
    worst: float | None = None  # largest error of the fit, relative to the measured time; None: no fit

    def seconds(self, units: CostUnits) -> float:
        """The time of a transfer, s."""
        return (
            units.calls * (self.call + self.excess)
            + units.messages * self.alpha
            + units.bytes * self.beta
            + units.added * self.gamma
        )

    def slowed(self, factor: float) -> "CallCosts":
        """The same network, `factor` times as slow."""
        return self._replace(  # the excess stays: its causes lie outside the network
            alpha=self.alpha * factor, beta=self.beta * factor, gamma=self.gamma * factor, call=self.call * factor
        )


class MeasuredCall(NamedTuple):
    """One operation with one size on one number of ranks, as measured."""

    operation: str
    ranks: int
    bytes: float  # as the operation's formula counts them
    s: float  # median
    mean_s: float
    number: float = 1.0  # of calls that were measured


class Traffic(NamedTuple):
    """What a step sends."""

    tensors: tuple[float, ...]  # bytes of each, in the model's order
    itemsize: int  # bytes a number
    buckets: tuple[float, ...] = ()  # bytes of each as measured, first to last; empty: not known
    ready: tuple[float, ...] = ()  # the part of backward that is computed when each bucket is full
    bucket_mb: float | None = None  # as the trial has it
    early_calls: float = 0.0  # before backward: broadcasts of a model's buffers
    early_bytes: float = 0.0


class Backward(NamedTuple):
    """A rank's backward, s."""

    computed: float
    slept: float = 0.0  # an injected delay after that
    hides: float = 0.0  # for how much longer than both it hides transfers; below 0: less long


class TransferTimes(NamedTuple):
    """The transfers of a step, s, and the exposed part of them."""

    transfer: float
    exposed: float


def stated_costs(alpha_us: float, gbps: float) -> CallCosts:
    """A network of so many µs a message and 1e9 bits a second."""
    return CallCosts(alpha_us * US_IN_S, 1 / (gbps * GIGABIT), source=f"stated: α {alpha_us:g} µs, {gbps:g} Gbit/s")


def fit_costs(calls: Sequence[MeasuredCall], source: str, gamma: float = 0.0) -> CallCosts:
    """Least squares of relative errors, no cost below 0. gamma: known beforehand, s a byte. Raises ProjectionError."""
    used = _most_reliable([call for call in calls if call.operation in OPERATIONS and call.s > 0])
    if len({call.bytes for call in used if call.bytes}) < 2:
        raise ProjectionError(
            f"{source}: transfers of one size cannot separate latency from bandwidth: state both (--alpha, --gbps), "
            "or name a run of primitives (--network)"
        )
    separable = len({_cost(call).latency for call in used}) > 1
    rows, targets = [], []  # divided by the measured time, so that each call's relative error counts alike
    for call in used:
        cost = _cost(call)
        overhead = [1 / call.s] if separable else []
        rows.append([cost.latency / call.s, call.bytes * cost.transfer / call.s, *overhead])
        targets.append(1 - cost.reduction * call.bytes * gamma / call.s)
    alpha, beta, *per_call = nonnegative_least_squares(rows, targets)
    network = CallCosts(alpha, beta, gamma, per_call[0] if per_call else 0.0, source=source)
    predicted = (network.seconds(_units(_cost(call), call.bytes)) for call in used)
    return network._replace(worst=max(abs(s / call.s - 1) for s, call in zip(predicted, used, strict=True)))


def mean_excess(calls: Iterable[MeasuredCall]) -> float:
    """How much longer a call takes on average than is typical of its kind and size, s."""
    # Where a few calls take far longer than most, messages and bytes are not the reason: each call has the same risk.
    known = list(calls)
    count = sum(call.number for call in known)
    excess = sum(call.number * (call.mean_s - call.s) for call in known)
    return max(0.0, excess / count) if count else 0.0


def fit_gamma(sums: Sequence[MeasuredCall]) -> float:
    """s a byte added, from local sums; 0 where they have fewer than two sizes."""
    if len({local_sum.bytes for local_sum in sums}) < 2:
        return 0.0
    _, gamma = nonnegative_least_squares([(1 / call.s, call.bytes / call.s) for call in sums], [1.0] * len(sums))
    return gamma


def sends_of(strategy: str) -> Sends:
    """What a strategy sends. Raises ProjectionError if its entry does not state it."""
    facts = STRATEGIES[strategy]
    if facts.sends is None:
        raise ProjectionError(f"--strategy {strategy}: {facts.unprojected}")
    return facts.sends


def transfer_times(
    strategy: str, traffic: Traffic, ranks: int, network: CallCosts, backward: Backward
) -> TransferTimes:
    """The transfers of a step on so many ranks."""
    if ranks == 1:
        return TransferTimes(0.0, 0.0)
    broadcast = theory("broadcast").cost(ranks)
    early = network.seconds(_units(broadcast, traffic.early_bytes, traffic.early_calls))
    if not STRATEGIES[strategy].overlaps:
        transfer = network.seconds(after_backward(strategy, traffic, ranks))
        return TransferTimes(early + transfer, early + transfer)
    sizes = buckets(strategy, traffic)  # bucketed and torch DDP: an all_reduce a bucket
    durations = [network.seconds(_units(theory("all_reduce").cost(ranks), size)) for size in sizes]
    # Not measured: backward comes through the tensors from last to first, each of which takes a part by its bytes.
    ready = (traffic.ready if traffic.buckets else ()) or [filled / sum(sizes) for filled in accumulate(sizes)]
    done = last_bucket_done(backward.computed, ready, durations)
    return TransferTimes(early + sum(durations), early + max(0.0, done - hidden_until(strategy, backward)))


def after_backward(strategy: str, traffic: Traffic, ranks: int) -> CostUnits:
    """What a strategy pays for that sends when backward is over."""
    total, tensors = sum(traffic.tensors), len(traffic.tensors)
    sends = sends_of(strategy)
    match sends.how:
        case "all":  # flat: one call
            return _units(theory("all_reduce").cost(ranks), total)
        case "pairs":  # all_reduce_async: two calls at a time
            return _units(theory("all_reduce").cost(ranks), total, ceil(tensors / AT_A_TIME))
        case _:  # every tensor by itself
            units = _units(theory(sends.cost, composite=True).cost(ranks), total, tensors)
            return units._replace(calls=tensors * sends.calls(ranks))  # a composite is several calls


def buckets(strategy: str, traffic: Traffic) -> tuple[float, ...]:
    """Bytes of each bucket, as backward fills them: as measured, or else as torch would pack them."""
    shrink = (sends_of(strategy).number_bytes or traffic.itemsize) / traffic.itemsize
    if traffic.buckets:
        return tuple(size * shrink for size in traffic.buckets)
    full = (traffic.bucket_mb or BUCKET_MB) * MB
    first = FIRST_BUCKET_MB * MB if STRATEGIES[strategy].is_ddp and traffic.bucket_mb is None else full
    packed: list[float] = []
    for size in reversed(traffic.tensors):
        if not packed or packed[-1] >= (first if len(packed) == 1 else full):  # closed once it holds its size, or more
            packed.append(0.0)
        packed[-1] += size
    return tuple(size * shrink for size in packed)


def last_bucket_done(computed: float, ready: Sequence[float], durations: Sequence[float]) -> float:
    """When the last bucket is reduced, s from the begin of backward. ready: the part of backward after which each
    bucket is full; durations: s of each."""
    done = 0.0
    for part, s in zip(ready, durations, strict=True):
        done = max(done, computed * part) + s  # a bucket waits for the one before it
    return done


def hidden_until(strategy: str, backward: Backward) -> float:
    """Until when transfers are hidden, s from the begin of backward."""
    # torch DDP waits for its buckets before a delay after backward; `bucketed` sleeps first
    slept = 0.0 if STRATEGIES[strategy].is_ddp else backward.slept
    return backward.computed + slept + backward.hides


def _units(cost: Cost, size: float, calls: float = 1) -> CostUnits:
    """What so many calls pay for that send `size` bytes together."""
    return CostUnits(calls, calls * cost.latency, size * cost.transfer, size * cost.reduction)


def _cost(call: MeasuredCall) -> Cost:
    return theory(call.operation).cost(call.ranks)


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
