"""What each primitive costs by the textbook, for the algorithm that it uses on gloo: how often a call on n bytes pays
for a message, a byte sent and a byte added, for the rank that has most to do. Pure.

The algorithms were read in gloo's source (allreduce.cc, reduce.cc, broadcast.cc, allgather.cc, gather.cc, scatter.cc,
alltoall.cc and barrier.cc of April 2026) and seen in torch 2.15, whose profiler counts p all_reduces in one
reduce_scatter. Their costs are in Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
in MPICH", 2005. gloo sends a chunk in segments, so that it can add one while the next is under way: here a chunk is one
message. Copies within a rank, which torch makes for lists of tensors, are left out.
"""

from collections.abc import Callable
from typing import NamedTuple


class Cost(NamedTuple):
    """How often a call on n bytes pays for a message, a byte sent and a byte added."""

    latency: float = 0.0  # messages
    transfer: float = 0.0  # × n
    reduction: float = 0.0  # × n


class Theory(NamedTuple):
    """An operation's cost by the number of ranks."""

    cost: Callable[[int], Cost]


def theory(operation: str, *, composite: bool = False) -> Theory:
    """The cost of an operation, or of a strategy (composite)."""
    return (COMPOSITES if composite else OPERATIONS)[operation]


def _rounds(ranks: int) -> int:
    """⌈lg p⌉, in which everything doubles."""
    return (ranks - 1).bit_length()


def _binomial_tree(ranks: int) -> Cost:
    return Cost(_rounds(ranks), _rounds(ranks))


def _all_parts_but_one(ranks: int) -> Cost:
    return Cost(ranks - 1, (ranks - 1) / ranks)


def _there_and_back(ranks: int) -> Cost:
    # Parts are summed on their way around the ring, and then sent to where they are needed.
    return Cost(2 * (ranks - 1), 2 * (ranks - 1) / ranks, (ranks - 1) / ranks)


def _all_reduce_each_part(ranks: int) -> Cost:
    # p all_reduces, each of one part: p times as many messages as one of the whole, and as many bytes.
    return Cost(ranks * 2 * (ranks - 1), 2 * (ranks - 1) / ranks, (ranks - 1) / ranks)


def _together(*costs: Cost) -> Cost:
    return Cost(*(sum(amounts) for amounts in zip(*costs, strict=True)))


def _all_reduce_then_divide(ranks: int) -> Cost:
    return _together(_there_and_back(ranks), Cost(reduction=1))


OPERATIONS: dict[str, Theory] = {
    "send_recv": Theory(lambda ranks: Cost(1, 1)),
    "isend_irecv": Theory(lambda ranks: Cost(1, 1)),
    "broadcast": Theory(_binomial_tree),
    "reduce": Theory(_there_and_back),
    "all_reduce": Theory(_there_and_back),
    "gather": Theory(_all_parts_but_one),
    "all_gather": Theory(_all_parts_but_one),
    "scatter": Theory(_all_parts_but_one),
    "reduce_scatter": Theory(_all_reduce_each_part),
    "all_to_all": Theory(_all_parts_but_one),
    "barrier": Theory(lambda ranks: Cost(_rounds(ranks))),
    "local_sum": Theory(lambda ranks: Cost(1, 0, 1)),
}


# How strategies average one tensor, with their own additions and divisions. The ring by hand sends in blocks of 8 MB
# and pays a message for each: this is left out, since it is negligible next to the time of such a block.
COMPOSITES: dict[str, Theory] = {
    "all_reduce": Theory(_all_reduce_then_divide),
    # The root divides in between.
    "reduce_broadcast": Theory(lambda ranks: _together(_all_reduce_then_divide(ranks), _binomial_tree(ranks))),
    # All parts together are p tensors; the root adds up p − 1 of them to its own, and divides.
    "gather_scatter": Theory(lambda ranks: Cost(2 * (ranks - 1), 2 * (ranks - 1), ranks)),
    "all_gather": Theory(lambda ranks: Cost(ranks - 1, ranks - 1, ranks + 1)),  # each adds them to zeros, and divides
    # Each rank divides its part in between.
    "reduce_scatter_all_gather": Theory(
        lambda ranks: _together(_all_reduce_each_part(ranks), Cost(reduction=1 / ranks), _all_parts_but_one(ranks))
    ),
    "ring": Theory(_all_reduce_then_divide),
}
