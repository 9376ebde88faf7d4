"""What a step's transfers cost under each strategy, and how much of them backward hides. Pure.

The formulas of the collectives are those of gloo's algorithms, in analysis/primitives/theory.py with their sources:
messages, bytes sent and bytes added, of the rank that has most to do. Here they are summed over a step's tensors:

    all_reduce … ring          every tensor by itself
    all_reduce_async           the same, two at a time: gloo has two threads, so their latencies overlap by pairs
    flat                       one all_reduce of all
    bucketed, ddp, fp16, bf16  an all_reduce a bucket

A bucket is ready when it was measured to be, as a part of backward. Without a measurement, backward comes through the
tensors from last to first, each of which takes a part of backward by its bytes. Buckets queue. A bucket is hidden until
backward is over, and for a calibrated time after it (calibration.py); the rest of it is exposed.

A reduce on gloo is a ring reduce-scatter whose parts are then gathered on the root; a broadcast is a binomial tree.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from ddptui.analysis.primitives.theory import theory
from ddptui.config.strategies import STRATEGIES, Sends
from ddptui.projection import ProjectionError
from ddptui.projection.network import CallCosts, CostUnits
from ddptui.text.units import MB

BUCKET_MB, FIRST_BUCKET_MB = 25.0, 1.0  # torch DDP's defaults
AT_A_TIME = 2  # threads of a group in torch's gloo


class Traffic(NamedTuple):
    """What a step sends.

    tensors   bytes of each tensor, in the model's order; itemsize: bytes a number
    buckets   bytes of each bucket as measured, first to last (empty: not known)
    ready     the part of backward that is computed when each bucket is ready
    bucket_mb as the trial has it
    early_calls, early_bytes  broadcast before backward: a model's buffers
    """

    tensors: tuple[float, ...]
    itemsize: int
    buckets: tuple[float, ...] = ()
    ready: tuple[float, ...] = ()
    bucket_mb: float | None = None
    early_calls: float = 0.0
    early_bytes: float = 0.0


class Backward(NamedTuple):
    """A rank's backward, s: its computing, an injected delay after that, and for how much longer than both it hides
    transfers (below 0: less long)."""

    computed: float
    slept: float = 0.0
    hides: float = 0.0


class TransferTimes(NamedTuple):
    """The transfers of a step, s, and the exposed part of them."""

    transfer: float
    exposed: float


def sends_of(strategy: str) -> Sends:
    """What a strategy sends. Raises ProjectionError if its entry does not state it."""
    facts = STRATEGIES[strategy]
    if facts.sends is None:
        raise ProjectionError(f"--strategy {strategy}: {facts.unprojected}")
    return facts.sends


def transfer_times(
    strategy: str, traffic: Traffic, ranks: int, network: CallCosts, backward: Backward
) -> TransferTimes:
    """The transfers of a step on so many ranks. One rank alone sends nothing."""
    if ranks == 1:
        return TransferTimes(0.0, 0.0)
    early = network.seconds(_early(traffic, ranks))
    if not STRATEGIES[strategy].overlaps:
        transfer = network.seconds(after_backward(strategy, traffic, ranks))
        return TransferTimes(early + transfer, early + transfer)
    sizes = buckets(strategy, traffic)
    durations = [network.seconds(_all_reduce(size, ranks)) for size in sizes]
    ready = (traffic.ready if traffic.buckets else ()) or [filled / sum(sizes) for filled in accumulate(sizes)]
    done = last_bucket_done(backward.computed, ready, durations)
    return TransferTimes(early + sum(durations), early + max(0.0, done - hidden_until(strategy, backward)))


def after_backward(strategy: str, traffic: Traffic, ranks: int) -> CostUnits:
    """What a strategy pays for that sends when backward is over."""
    total, tensors = sum(traffic.tensors), len(traffic.tensors)
    sends = sends_of(strategy)
    match sends.how:
        case "all":
            return _all_reduce(total, ranks)
        case "pairs":
            pairs, units = ceil(tensors / AT_A_TIME), _all_reduce(total, ranks)
            return units._replace(calls=pairs * units.calls, messages=pairs * units.messages)
        case _:
            cost = theory(sends.cost, composite=True).cost(ranks)
            calls = tensors * sends.calls(ranks)
            return CostUnits(calls, tensors * cost.latency, total * cost.transfer, total * cost.reduction)


def buckets(strategy: str, traffic: Traffic) -> tuple[float, ...]:
    """Bytes of each bucket, in the order in which backward fills them: as measured, or else as torch would pack them. A
    bucket is closed once it holds its size; torch DDP's first one is smaller, unless the trial sets a size."""
    shrink = (sends_of(strategy).number_bytes or traffic.itemsize) / traffic.itemsize
    if traffic.buckets:
        return tuple(size * shrink for size in traffic.buckets)
    full = (traffic.bucket_mb or BUCKET_MB) * MB
    first = FIRST_BUCKET_MB * MB if STRATEGIES[strategy].is_ddp and traffic.bucket_mb is None else full
    packed: list[float] = []
    for size in reversed(traffic.tensors):
        if not packed or packed[-1] >= (first if len(packed) == 1 else full):
            packed.append(0.0)
        packed[-1] += size
    return tuple(size * shrink for size in packed)


def last_bucket_done(computed: float, ready: Sequence[float], durations: Sequence[float]) -> float:
    """When the last bucket is reduced, s from the begin of backward. ready: the part of backward after which each
    bucket is full; durations: s of each."""
    done = 0.0
    for part, s in zip(ready, durations, strict=True):
        done = max(done, computed * part) + s
    return done


def hidden_until(strategy: str, backward: Backward) -> float:
    """Until when transfers are hidden, s from the begin of backward. torch DDP waits for its buckets before a delay
    after backward; `bucketed` sleeps first."""
    slept = 0.0 if STRATEGIES[strategy].is_ddp else backward.slept
    return backward.computed + slept + backward.hides


def _all_reduce(size: float, ranks: int) -> CostUnits:
    cost = theory("all_reduce").cost(ranks)
    return CostUnits(1, cost.latency, size * cost.transfer, size * cost.reduction)


def _early(traffic: Traffic, ranks: int) -> CostUnits:
    cost = theory("broadcast").cost(ranks)
    return CostUnits(traffic.early_calls, traffic.early_calls * cost.latency, traffic.early_bytes * cost.transfer, 0.0)
