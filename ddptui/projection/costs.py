"""What a step's transfers cost under each strategy, and how much of it backward hides. Pure.

The formulas of the collectives are those of gloo's algorithms, in primitives/theory.py with their sources: messages,
bytes sent and bytes added, of the rank that has most to do. Here they are added up over a step's tensors:

    all_reduce … ring          every tensor by itself
    all_reduce_async           the same, two at a time: gloo has two threads, so their latencies overlap by pairs
    flat                       one all_reduce of all
    bucketed, ddp, fp16, bf16  an all_reduce a bucket. A bucket is ready when backward has come through its tensors, the
                               last ones first, each of which takes a part of backward by its bytes. Buckets queue; what
                               is not over when backward is, is exposed: the last one always.

A reduce on gloo is a ring reduce-scatter whose parts are then gathered on the root; a broadcast is a binomial tree.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from ddptui.primitives.theory import theory
from ddptui.projection.network import Bill, Network
from ddptui.strategies import STRATEGIES

MB = 2**20  # bytes, as torch DDP counts them
BUCKET_MB, FIRST_BUCKET_MB = 25.0, 1.0  # torch DDP's, if nobody says otherwise
HALVED = ("ddp_fp16", "ddp_bf16")  # sent in two bytes a number
AT_A_TIME = 2  # torch's gloo: threads of a group
CALLS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 1,
    "reduce_broadcast": lambda ranks: 2,
    "gather_scatter": lambda ranks: 2,
    "all_gather": lambda ranks: 1,
    "reduce_scatter_all_gather": lambda ranks: ranks + 1,  # torch's gloo makes an all_reduce of each part
    "ring": lambda ranks: 2 * (ranks - 1),  # a send with its receive
}


class Traffic(NamedTuple):
    """What a step sends: bytes of each tensor, in the model's order; bytes a number; what of its buckets is known, from
    first to last; bucket_mb, as the trial has it; calls and bytes broadcast before backward (a model's buffers)."""

    tensors: tuple[float, ...]
    itemsize: int
    buckets: tuple[float, ...] = ()
    bucket_mb: float | None = None
    early_calls: float = 0.0
    early_bytes: float = 0.0


class Backward(NamedTuple):
    """In s: what a rank computes in backward, and how long it sleeps after that, in a delay that was put in."""

    computed: float
    slept: float = 0.0


class Sent(NamedTuple):
    """In s: what transfers take, and what nothing hides of it."""

    transfer: float
    exposed: float


def sent(strategy: str, traffic: Traffic, ranks: int, network: Network, backward: Backward) -> Sent:
    """In a step, on so many ranks."""
    early = network.seconds(_early(traffic, ranks))
    if not STRATEGIES[strategy].overlaps:
        transfer = network.seconds(after_backward(strategy, traffic, ranks))
        return Sent(early + transfer, early + transfer)
    sizes = buckets(strategy, traffic)
    took = [network.seconds(_all_reduce(size, ranks)) for size in sizes]
    return Sent(early + sum(took), early + _sticks_out(sizes, took, backward, STRATEGIES[strategy].is_ddp))


def after_backward(strategy: str, traffic: Traffic, ranks: int) -> Bill:
    """Of a strategy that sends when backward is over."""
    total, tensors = sum(traffic.tensors), len(traffic.tensors)
    match strategy:
        case "flat":
            return _all_reduce(total, ranks)
        case "all_reduce_async":
            pairs, one = ceil(tensors / AT_A_TIME), _all_reduce(total, ranks)
            return one._replace(calls=pairs * one.calls, messages=pairs * one.messages)
        case _:
            cost = theory(strategy, composite=True).cost(ranks)
            calls = tensors * CALLS[strategy](ranks)
            return Bill(calls, tensors * cost.latency, total * cost.transfer, total * cost.reduction)


def buckets(strategy: str, traffic: Traffic) -> tuple[float, ...]:
    """Bytes of each, in the order in which backward fills them: as they were seen, or else as they would be packed. A
    bucket is closed once it holds what it should; torch DDP's first one is smaller, unless a size was chosen."""
    shrink = 2 / traffic.itemsize if strategy in HALVED else 1.0
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


def _sticks_out(sizes: Sequence[float], took: Sequence[float], backward: Backward, is_ddp: bool) -> float:
    """torch DDP waits for its buckets before a delay after backward; `bucketed` sleeps first."""
    done = 0.0
    for filled, s in zip(accumulate(sizes), took, strict=True):
        done = max(done, backward.computed * filled / sum(sizes)) + s
    return max(0.0, done - backward.computed - (0.0 if is_ddp else backward.slept))


def _all_reduce(size: float, ranks: int) -> Bill:
    cost = theory("all_reduce").cost(ranks)
    return Bill(1, cost.latency, size * cost.transfer, size * cost.reduction)


def _early(traffic: Traffic, ranks: int) -> Bill:
    cost = theory("broadcast").cost(ranks)
    return Bill(traffic.early_calls, traffic.early_calls * cost.latency, traffic.early_bytes * cost.transfer, 0.0)
