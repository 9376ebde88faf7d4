"""The costs against counting: each algorithm is played through with sets in place of numbers."""

from collections import defaultdict
from collections.abc import Sequence

import pytest

from ddptui.analysis.primitives.theory import Cost, theory
from ddptui.config.primitives import OPERATIONS
from ddptui.config.strategies import COMPOSITES

RANKS = (2, 3, 4, 5, 8)

Message = tuple[int, int, float]  # from, to, and how much, as a part of n
Round = list[Message]


def together(*costs: Cost) -> Cost:
    return Cost(*map(sum, zip(*costs, strict=True)))


def counted(rounds: Sequence[Round], added: float = 0.0) -> Cost:
    """What the busiest rank pays. Sending and receiving go on at once, but only one of each at a time."""
    latency = sum(busiest([(sender, receiver, 1) for sender, receiver, _ in messages]) for messages in rounds)
    return Cost(latency, sum(map(busiest, rounds)), added)


def busiest(messages: Round) -> float:
    """The most that a rank sends, or receives."""
    amounts: dict[tuple[str, int], float] = defaultdict(float)
    for sender, receiver, amount in messages:
        amounts["sends", sender] += amount
        amounts["receives", receiver] += amount
    return max(amounts.values())


def ring_reduce_scatter(p: int) -> tuple[list[Round], list[list[set[int]]], float]:
    """Rounds; by rank and chunk, whose numbers are summed up there; and what one rank adds."""
    held = [[{rank} for _ in range(p)] for rank in range(p)]
    rounds, added = [], 0.0
    for step in range(p - 1):
        outgoing = [(rank, (rank - step) % p) for rank in range(p)]
        coming = {((rank + 1) % p, chunk): set(held[rank][chunk]) for rank, chunk in outgoing}
        for (rank, chunk), ranks in coming.items():
            assert not held[rank][chunk] & ranks
            held[rank][chunk] |= ranks
        rounds.append([(rank, (rank + 1) % p, 1 / p) for rank in range(p)])
        added += 1 / p
    return rounds, held, added


def ring_all_gather(p: int) -> list[Round]:
    have = [{rank} for rank in range(p)]
    rounds = []
    for step in range(p - 1):
        coming = [(rank - step - 1) % p for rank in range(p)]
        assert all(part in have[rank - 1] for rank, part in enumerate(coming))
        for rank, part in enumerate(coming):
            have[rank].add(part)
        rounds.append([(rank, (rank + 1) % p, 1 / p) for rank in range(p)])
    assert all(parts == set(range(p)) for parts in have)
    return rounds


def ring_all_reduce(p: int) -> Cost:
    rounds, held, added = ring_reduce_scatter(p)
    complete = {chunk for rank in range(p) for chunk in range(p) if held[rank][chunk] == set(range(p))}
    assert complete == set(range(p))
    return counted([*rounds, *ring_all_gather(p)], added)


def reduce_to_root(p: int) -> Cost:
    rounds, held, added = ring_reduce_scatter(p)
    whole = [rank for rank in range(p) if any(ranks == set(range(p)) for ranks in held[rank])]
    assert whole == list(range(p))
    return counted([*rounds, linear(p, to_root=True)], added)


def linear(p: int, *, to_root: bool, part: float | None = None) -> Round:
    ends = [(other, 0) if to_root else (0, other) for other in range(1, p)]
    return [(*end, 1 / p if part is None else part) for end in ends]


def binomial_tree(p: int) -> Cost:
    have, rounds = {0}, []
    while len(have) < p:
        pairs = [(rank, rank + len(have)) for rank in have if rank + len(have) < p]
        rounds.append([(*pair, 1.0) for pair in pairs])
        have |= {to for _, to in pairs}
    return counted(rounds)


def dissemination(p: int) -> Cost:
    knows = [{rank} for rank in range(p)]
    rounds, far = [], 1
    while any(len(ranks) < p for ranks in knows):
        knows = [ranks | knows[rank - far] for rank, ranks in enumerate(knows)]
        rounds.append([(rank, (rank + far) % p, 0.0) for rank in range(p)])
        far *= 2
    return counted(rounds)


def each_part_all_reduced(p: int) -> Cost:
    one = ring_all_reduce(p)
    return together(*(Cost(one.latency, one.transfer / p, one.reduction / p) for _ in range(p)))


def pairwise(p: int) -> Cost:
    return counted([[(rank, (rank + far) % p, 1 / p) for rank in range(p) for far in range(1, p)]])


def played(operation: str, p: int) -> Cost:
    match operation:
        case "send_recv":
            return counted([[(0, 1, 1.0)]])
        case "isend_irecv":
            return counted([[(rank, (rank + 1) % p, 1.0) for rank in range(p)]])
        case "broadcast":
            return binomial_tree(p)
        case "reduce":
            return reduce_to_root(p)
        case "all_reduce":
            return ring_all_reduce(p)
        case "gather":
            return counted([linear(p, to_root=True)])
        case "all_gather":
            return counted(ring_all_gather(p))
        case "scatter":
            return counted([linear(p, to_root=False)])
        case "reduce_scatter":
            return each_part_all_reduced(p)
        case "all_to_all":
            return pairwise(p)
        case "barrier":
            return dissemination(p)
    return Cost(1, 0, 1)


def played_by_hand(composite: str, p: int) -> Cost:
    """What the strategies do with one tensor: workers/aggregate/."""
    divided = Cost(reduction=1)
    match composite:
        case "reduce_broadcast":
            return together(reduce_to_root(p), divided, binomial_tree(p))
        case "gather_scatter":  # whole tensors; the mean of p of them is p − 1 additions, and a division
            both = counted([linear(p, to_root=True, part=1.0), linear(p, to_root=False, part=1.0)])
            return together(both, Cost(reduction=p - 1), divided)
        case "all_gather":  # whole tensors, added to zeros
            one = counted(ring_all_gather(p))
            return together(Cost(one.latency, one.transfer * p), Cost(reduction=p), divided)
        case "reduce_scatter_all_gather":
            return together(each_part_all_reduced(p), Cost(reduction=1 / p), counted(ring_all_gather(p)))
    return together(ring_all_reduce(p), divided)


@pytest.mark.parametrize("p", RANKS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_cost_is_what_its_algorithm_comes_to(operation: str, p: int) -> None:
    assert theory(operation).cost(p) == pytest.approx(played(operation, p))


@pytest.mark.parametrize("p", RANKS)
@pytest.mark.parametrize("composite", COMPOSITES)
def test_a_strategy_is_the_sum_of_what_it_does(composite: str, p: int) -> None:
    assert theory(composite, composite=True).cost(p) == pytest.approx(played_by_hand(composite, p))


def test_two_ranks_by_hand() -> None:
    """An all_reduce on two: half to the other, add it, and the sum back."""
    assert theory("all_reduce").cost(2) == (2, 1, 0.5)
    assert theory("broadcast").cost(2) == theory("send_recv").cost(2) == (1, 1, 0)
