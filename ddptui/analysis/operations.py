"""Matches the operations of all ranks in a step: which are the same one, and which steps do not fit together. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from ddptui.analysis.thinning import StepsByRank
from ddptui.wire.messages import GATHER_OUTPUTS, Collective, Step

POINT_TO_POINT = ("send", "recv")
SLACK_NS = 1_000_000  # what a GPU's clock and its callbacks may be off
OperationKey = tuple[object, ...]  # which operation of a step: the same on every rank


def mismatch(told: Mapping[int, Step]) -> str | None:
    """The first operation of a step on which two ranks disagree, in words; none: they made the same ones."""
    world = tuple(sorted(told))
    for rank, step in told.items():
        if why := _defect(step, world):
            return f"rank {rank} told of {why}"
    of_group: dict[tuple[int, ...], dict[int, list[Collective]]] = {}
    for rank, step in told.items():
        for operation in sorted(step.collectives, key=lambda operation: operation.seq):
            if operation.kind not in POINT_TO_POINT:
                of_group.setdefault(operation.group, {}).setdefault(rank, []).append(operation)
    for group, by_rank in of_group.items():
        members = [(rank, by_rank.get(rank, [])) for rank in group or world if rank in told]
        for (one, own), (other, others) in pairwise(members):
            for number in range(max(len(own), len(others))):
                a, b = _operation_text(own, number), _operation_text(others, number)
                if a != b:
                    return f"as operation {number + 1}, rank {one} made {a}, rank {other} {b}"
    sent: dict[tuple[int, int], int] = {}
    for rank, step in told.items():
        for operation in step.collectives:
            if operation.kind in POINT_TO_POINT:
                pair, sign = sender_and_receiver(operation, rank), 1 if operation.kind == "send" else -1
                sent[pair] = sent.get(pair, 0) + sign
    for (sender, receiver), left in sent.items():
        if left:
            what = f"{abs(left)} more sent than received" if left > 0 else f"{-left} more received than sent"
            return f"from rank {sender} to rank {receiver}, {what}"
    return None


def _defect(step: Step, world: tuple[int, ...]) -> str | None:
    """What cannot be, whoever told it: nothing here trusts a message."""
    if step.begin_ns >= step.end_ns or min(step.phases_ns) < 0 or len(set(step.order)) < len(step.order):
        return "phases that cannot be"
    for operation in step.collectives:
        before = (step.begin_ns, operation.called_ns, operation.enter_ns)
        after = (operation.awaited_ns, operation.exit_ns)
        if sorted(before) != list(before) or min(after) < operation.enter_ns or max(after) > step.end_ns + SLACK_NS:
            return f"times that cannot be, of {operation.kind} {operation.seq}"
        ranks = set(operation.group or world) & set(world)
        has_root = operation.root in ranks or (operation.root is None and operation.kind not in POINT_TO_POINT)
        if step.rank not in ranks or not has_root:
            return f"{operation.kind} {operation.seq} with ranks that are not there"
    if len(set(operation_keys(step))) < len(step.collectives):
        return "the same operation twice"
    return None


def _operation_text(operations: Sequence[Collective], number: int) -> str:
    if number >= len(operations):
        return "none"
    operation = operations[number]
    if operation.kind == GATHER_OUTPUTS:  # of a batch that does not divide evenly, replicas give more or less
        return operation.kind
    root = "" if operation.root is None else f", root {operation.root}"
    return f"{operation.kind} ({operation.bytes} bytes{root})"


def needed_ranks(operation: Collective, rank: int, entered: Mapping[int, int]) -> tuple[int, ...]:
    """The ranks that must have entered the operation before it can be over on this one; entered: when each did, ns.

    Where it is the backend's choice, what happened tells: an operation cannot have needed a rank that came when it was
    over. gloo reduces around a ring, so all wait for the last; elsewhere a rank may leave when it has given its part.
    A root that broadcasts or scatters waits until what it sends is received, if that is too long to be sent ahead; so
    does a rank that gives to a root that gathers.
    """
    ranks, root = tuple(entered), operation.root
    if root is None:
        return ranks
    if operation.kind in POINT_TO_POINT:
        return (rank, root)
    if operation.kind == "gather" and rank == root:
        return ranks
    if operation.kind in ("broadcast", "scatter") and rank != root:
        return (root, rank)
    partners = (root, rank) if operation.kind == "gather" else ranks
    return tuple(other for other in partners if entered[other] < operation.exit_ns or other == rank)


def sender_and_receiver(operation: Collective, rank: int) -> tuple[int, int]:
    """Sender and receiver."""
    assert operation.root is not None
    return (rank, operation.root) if operation.kind == "send" else (operation.root, rank)


def operation_keys(step: Step) -> list[OperationKey]:
    """What each of a rank's operations is called on every rank. Two partners count what passes between them."""
    keys: list[OperationKey] = []
    passed: dict[tuple[int, int], int] = {}
    for operation in step.collectives:
        if operation.kind in POINT_TO_POINT:
            pair = sender_and_receiver(operation, step.rank)
            passed[pair] = passed.get(pair, 0) + 1
            keys.append((*pair, passed[pair]))
        else:
            keys.append((operation.group, operation.seq))
    return keys


def drop_inconsistent(steps: StepsByRank) -> tuple[StepsByRank, dict[int, str]]:
    """Those that can be put side by side; and by the number of the others, why not: nothing here trusts a message."""
    wrong = {number: why for rank, own in steps.items() for number, why in _out_of_order(rank, own)}
    wrong |= dict.fromkeys(_numbered_differently(steps), "ranks number their operations in different ways")
    if wrong:
        steps = {rank: [step for step in own if step.step not in wrong] for rank, own in steps.items()}
    return steps, wrong


def _out_of_order(rank: int, steps: Iterable[Step]) -> Iterator[tuple[int, str]]:
    last, end_ns = -1, 0
    for step in steps:
        if step.step <= last or step.begin_ns < end_ns:
            yield step.step, f"rank {rank} told of it too late, or of the one before it"
        else:
            last, end_ns = step.step, step.end_ns


def _numbered_differently(steps: StepsByRank) -> set[int]:
    """Steps in which ranks made as many operations on a group, and do not count them alike."""
    numbers: dict[tuple[int, tuple[int, ...]], dict[int, list[int]]] = {}
    for rank, own in steps.items():
        for step in own:
            for call in step.collectives:
                if call.kind not in POINT_TO_POINT:
                    numbers.setdefault((step.step, call.group), {}).setdefault(rank, []).append(call.seq)
    return {number for (number, _), by_rank in numbers.items() if _differ(by_rank.values())}


def _differ(counted: Iterable[list[int]]) -> bool:
    first, *others = counted
    return any(len(own) == len(first) and sorted(own) != sorted(first) for own in others)
