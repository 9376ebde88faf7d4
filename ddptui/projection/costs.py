"""What a step's transfers cost under each strategy, and how much of it backward hides. Pure.

The formulas of the collectives are those of gloo's algorithms, in primitives/theory.py with their sources: messages,
bytes sent and bytes added, of the rank that has most to do. Here they are added up over a step's tensors:

    all_reduce … ring          every tensor by itself
    all_reduce_async           the same, two at a time: gloo has two threads, so their latencies overlap by pairs
    flat                       one all_reduce of all
    bucketed, ddp, fp16, bf16  an all_reduce a bucket. A bucket is ready when it was seen to be, as a part of backward;
                               or else when backward has come through its tensors, the last ones first, each of which
                               takes a part of backward by its bytes. Buckets queue; what is not over when backward is,
                               and a time after it that was seen to hide it, too (calibration.py), is exposed.

A reduce on gloo is a ring reduce-scatter whose parts are then gathered on the root; a broadcast is a binomial tree.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from ddptui.analysis.primitives.theory import theory
from ddptui.config.strategies import STRATEGIES, Sends
from ddptui.projection import ProjectionError
from ddptui.projection.network import Bill, CallCosts

MB = 2**20  # bytes, as torch DDP counts them
BUCKET_MB, FIRST_BUCKET_MB = 25.0, 1.0  # torch DDP's, if nobody says otherwise
AT_A_TIME = 2  # torch's gloo: threads of a group


class Traffic(NamedTuple):
    """What a step sends: bytes of each tensor, in the model's order; bytes a number; what of its buckets is known, from
    first to last, and what part of backward was computed when each was ready; bucket_mb, as the trial has it; calls and
    bytes broadcast before backward (a model's buffers)."""

    tensors: tuple[float, ...]
    itemsize: int
    buckets: tuple[float, ...] = ()
    ready: tuple[float, ...] = ()
    bucket_mb: float | None = None
    early_calls: float = 0.0
    early_bytes: float = 0.0


class Backward(NamedTuple):
    """In s: what a rank computes in backward; how long it sleeps after that, in a delay that was put in; and for how
    much longer it was seen to hide what is under way (below 0: less long)."""

    computed: float
    slept: float = 0.0
    hides: float = 0.0


class Sent(NamedTuple):
    """In s: what transfers take, and what nothing hides of it."""

    transfer: float
    exposed: float


def sends_of(strategy: str) -> Sends:
    """What a strategy sends. Raises ProjectionError if its entry does not state it."""
    facts = STRATEGIES[strategy]
    if facts.sends is None:
        raise ProjectionError(f"--strategy {strategy}: {facts.unprojected}")
    return facts.sends


def sent(strategy: str, traffic: Traffic, ranks: int, network: CallCosts, backward: Backward) -> Sent:
    """In a step, on so many ranks. One rank alone sends nothing."""
    if ranks == 1:
        return Sent(0.0, 0.0)
    early = network.seconds(_early(traffic, ranks))
    if not STRATEGIES[strategy].overlaps:
        transfer = network.seconds(after_backward(strategy, traffic, ranks))
        return Sent(early + transfer, early + transfer)
    sizes = buckets(strategy, traffic)
    took = [network.seconds(_all_reduce(size, ranks)) for size in sizes]
    ready = traffic.ready if traffic.buckets else ()
    over = all_over(backward.computed, ready or [filled / sum(sizes) for filled in accumulate(sizes)], took)
    return Sent(early + sum(took), early + max(0.0, over - hidden_until(strategy, backward)))


def after_backward(strategy: str, traffic: Traffic, ranks: int) -> Bill:
    """Of a strategy that sends when backward is over."""
    total, tensors = sum(traffic.tensors), len(traffic.tensors)
    sends = sends_of(strategy)
    match sends.how:
        case "all":
            return _all_reduce(total, ranks)
        case "pairs":
            pairs, one = ceil(tensors / AT_A_TIME), _all_reduce(total, ranks)
            return one._replace(calls=pairs * one.calls, messages=pairs * one.messages)
        case _:
            cost = theory(sends.cost, composite=True).cost(ranks)
            calls = tensors * sends.calls(ranks)
            return Bill(calls, tensors * cost.latency, total * cost.transfer, total * cost.reduction)


def buckets(strategy: str, traffic: Traffic) -> tuple[float, ...]:
    """Bytes of each, in the order in which backward fills them: as they were seen, or else as they would be packed. A
    bucket is closed once it holds what it should; torch DDP's first one is smaller, unless a size was chosen."""
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


def all_over(computed: float, ready: Sequence[float], took: Sequence[float]) -> float:
    """When the last bucket is, s from the begin of backward. ready: the part of backward after which each is."""
    over = 0.0
    for part, s in zip(ready, took, strict=True):
        over = max(over, computed * part) + s
    return over


def hidden_until(strategy: str, backward: Backward) -> float:
    """Until when nobody waits for buckets, s from the begin of backward: torch DDP waits for them before a delay after
    backward; `bucketed` sleeps first."""
    slept = 0.0 if STRATEGIES[strategy].is_ddp else backward.slept
    return backward.computed + slept + backward.hides


def _all_reduce(size: float, ranks: int) -> Bill:
    cost = theory("all_reduce").cost(ranks)
    return Bill(1, cost.latency, size * cost.transfer, size * cost.reduction)


def _early(traffic: Traffic, ranks: int) -> Bill:
    cost = theory("broadcast").cost(ranks)
    return Bill(traffic.early_calls, traffic.early_calls * cost.latency, traffic.early_bytes * cost.transfer, 0.0)
