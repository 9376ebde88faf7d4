"""The cost of each primitive by the textbook, for the algorithm that it uses on gloo. Pure.

A message of m bytes takes α + m β seconds from one rank to another (Hockney 1994), a rank sends one and receives one at
a time, and to add (or divide) a byte takes γ (Thakur, Rabenseifner and Gropp 2005). Of n bytes on p ranks, a call takes
latency × α + transfer × n β + reduction × n γ, for the rank that has most to do.

The algorithms were read in gloo's source (allreduce.cc, reduce.cc, broadcast.cc, allgather.cc, gather.cc, scatter.cc,
alltoall.cc and barrier.cc of April 2026) and seen in torch 2.15, whose profiler counts p all_reduces in one
reduce_scatter. gloo sends a chunk in segments, so that it can add one while the next is under way: here a chunk is one
message. The formulas leave out copies within a rank, which torch makes for lists of tensors.
"""

from collections.abc import Callable
from typing import NamedTuple

HOCKNEY = 'Hockney, "The communication challenge for MPP", 1994'
THAKUR = 'Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005'
PATARASUK = 'Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009'
HENSGEN = 'Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988'
PJESIVAC = 'Pješivac-Grbović and others, "Performance analysis of MPI collective operations", 2007'


class Network(NamedTuple):
    """The parameters of a network."""

    alpha: float  # s per message
    beta: float  # s per byte sent
    gamma: float = 0.0  # s per byte added


class Cost(NamedTuple):
    """How often a call on n bytes pays for a message, a byte sent and a byte added."""

    latency: float = 0.0  # × α
    transfer: float = 0.0  # × n β
    reduction: float = 0.0  # × n γ


class Theory(NamedTuple):
    """An operation's algorithm."""

    algorithm: str
    formula: str  # of its time, as text
    source: str  # where the formula is found
    cost: Callable[[int], Cost]  # the same formula, by the number of ranks


def seconds(cost: Cost, size: float, network: Network) -> float:
    """The time of a cost for a size in bytes, in s."""
    return cost.latency * network.alpha + size * (cost.transfer * network.beta + cost.reduction * network.gamma)


def theory(operation: str, *, composite: bool = False) -> Theory:
    """The algorithm of an operation, or of a strategy (composite)."""
    return (COMPOSITES if composite else OPERATIONS)[operation]


def logarithm(ranks: int) -> int:
    """⌈lg p⌉, the number of rounds in which everything doubles."""
    return (ranks - 1).bit_length()


def _binomial_tree(ranks: int) -> Cost:
    return Cost(logarithm(ranks), logarithm(ranks))


def _all_parts_but_one(ranks: int) -> Cost:
    return Cost(ranks - 1, (ranks - 1) / ranks)


def _there_and_back(ranks: int) -> Cost:
    # Parts are summed on their way around the ring, and then sent to where they are needed.
    return Cost(2 * (ranks - 1), 2 * (ranks - 1) / ranks, (ranks - 1) / ranks)


def _all_reduce_each_part(ranks: int) -> Cost:
    # p all_reduces, each of one part: p times as many messages as one of the whole, and as many bytes.
    return Cost(ranks * 2 * (ranks - 1), 2 * (ranks - 1) / ranks, (ranks - 1) / ranks)


def together(*costs: Cost) -> Cost:
    """The cost of several operations, one after the other."""
    return Cost(*(sum(amounts) for amounts in zip(*costs, strict=True)))


def _all_reduce_then_divide(ranks: int) -> Cost:
    return together(_there_and_back(ranks), Cost(reduction=1))


PARTS_FORMULA = "(p−1)α + (p−1)/p·nβ"
RING_FORMULA = "2(p−1)α + 2(p−1)/p·nβ + (p−1)/p·nγ"
DIVIDED_RING_FORMULA = "2(p−1)α + 2(p−1)/p·nβ + (2p−1)/p·nγ"

OPERATIONS: dict[str, Theory] = {
    "send_recv": Theory("one message", "α + nβ", HOCKNEY, lambda ranks: Cost(1, 1)),
    "isend_irecv": Theory("one step of a ring", "α + nβ", HOCKNEY, lambda ranks: Cost(1, 1)),
    "broadcast": Theory("binomial tree", "⌈lg p⌉α + ⌈lg p⌉nβ", THAKUR, _binomial_tree),
    "reduce": Theory("ring, then all parts to the root", RING_FORMULA, THAKUR, _there_and_back),
    "all_reduce": Theory("ring", RING_FORMULA, PATARASUK, _there_and_back),
    "gather": Theory("linear: all to the root", PARTS_FORMULA, PJESIVAC, _all_parts_but_one),
    "all_gather": Theory("ring", PARTS_FORMULA, THAKUR, _all_parts_but_one),
    "scatter": Theory("linear: the root to all", PARTS_FORMULA, PJESIVAC, _all_parts_but_one),
    "reduce_scatter": Theory(
        "a ring all_reduce of each part", "2p(p−1)α + 2(p−1)/p·nβ + (p−1)/p·nγ", PATARASUK, _all_reduce_each_part
    ),
    "all_to_all": Theory("pairwise", PARTS_FORMULA, THAKUR, _all_parts_but_one),
    "barrier": Theory("dissemination", "⌈lg p⌉α", HENSGEN, lambda ranks: Cost(logarithm(ranks))),
    "local_sum": Theory("one addition a number", "α + nγ", THAKUR, lambda ranks: Cost(1, 0, 1)),
}  # fmt: skip


# How strategies average one tensor, with their own additions and divisions. The ring by hand sends in blocks of 8 MB
# and pays α for each: this is left out, since it is negligible next to the time of such a block.
COMPOSITES: dict[str, Theory] = {
    "all_reduce": Theory("ring, division", DIVIDED_RING_FORMULA, PATARASUK, _all_reduce_then_divide),
    "reduce_broadcast": Theory(
        "ring to the root, binomial tree", "(2(p−1)+⌈lg p⌉)α + (2(p−1)/p+⌈lg p⌉)nβ + (2p−1)/p·nγ", THAKUR,
        lambda ranks: together(_all_reduce_then_divide(ranks), _binomial_tree(ranks)),  # the root divides in between
    ),
    "gather_scatter": Theory(
        "linear, both ways", "2(p−1)α + 2(p−1)nβ + p·nγ", PJESIVAC,
        # All parts together are p tensors; the root adds up p − 1 of them to its own, and divides.
        lambda ranks: Cost(2 * (ranks - 1), 2 * (ranks - 1), ranks),
    ),
    "all_gather": Theory(
        "ring; each adds all", "(p−1)α + (p−1)nβ + (p+1)nγ", THAKUR,
        lambda ranks: Cost(ranks - 1, ranks - 1, ranks + 1),  # likewise p tensors; each adds them to zeros, and divides
    ),
    "reduce_scatter_all_gather": Theory(
        "an all_reduce of each part, ring", "(2p+1)(p−1)α + 3(p−1)/p·nβ + nγ", PATARASUK,
        # Each rank divides its part in between.
        lambda ranks: together(_all_reduce_each_part(ranks), Cost(reduction=1 / ranks), _all_parts_but_one(ranks)),
    ),
    "ring": Theory("ring, division", DIVIDED_RING_FORMULA, PATARASUK, _all_reduce_then_divide),
}  # fmt: skip
