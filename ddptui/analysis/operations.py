"""Matches the operations of all ranks in a step, and computes each rank's own work between them. Pure.

Messages are not trusted: a rank may send values that cannot be true.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple, TypeVar

from ddptui.wire import phases
from ddptui.wire.messages import GATHER_OUTPUTS, POINT_TO_POINT, Collective, Step
from ddptui.wire.phases import PARTS, PHASES

Interval = tuple[int, int]  # ns
AnyInterval = TypeVar("AnyInterval", bound=tuple[int, ...])


def subtract(begin: int, end: int, taken: list[Interval]) -> list[Interval]:
    """The parts of an interval that lie outside `taken`, whose intervals are sorted and disjoint."""
    left: list[Interval] = []
    for taken_begin, taken_end in taken:
        if taken_end > begin and taken_begin < end:
            if taken_begin > begin:
                left.append((begin, taken_begin))
            begin = max(begin, taken_end)
    if begin < end:
        left.append((begin, end))
    return left


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of intervals, as disjoint intervals in order."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if end <= begin:  # empty, e.g. if no rank arrived later
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def total_ns(intervals: Iterable[Interval]) -> int:
    """The sum of the intervals' lengths."""
    return sum(end - begin for begin, end in intervals)


def overlapping(intervals: Sequence[Interval], begin: int, end: int) -> list[Interval]:
    """The parts of sorted, disjoint intervals that lie between begin and end."""
    return [(max(begin, own_begin), min(end, own_end)) for own_begin, own_end in touching(intervals, begin, end)]


def touching(intervals: Sequence[AnyInterval], begin: int, end: int) -> list[AnyInterval]:
    """Those of sorted, disjoint intervals that overlap with the time from begin to end. Each starts with its two
    ends."""
    first = max(0, bisect_left(intervals, (begin, begin)) - 1)  # the interval before `begin` may reach beyond it
    following = takewhile(lambda interval: interval[0] < end, intervals[first:])
    return [interval for interval in following if interval[1] > begin]


# The largest error of the times of a GPU's operations, which come from its clock and from callbacks.
SLACK_NS = 1_000_000
OperationKey = tuple[object, ...]  # identifies an operation within a step, equal on all ranks


def operation_keys(step: Step) -> list[OperationKey]:
    """The keys of a rank's operations, in order. Sends and receives are numbered per pair of partners."""
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


def sender_and_receiver(operation: Collective, rank: int) -> tuple[int, int]:
    """The sender and the receiver of a send or receive that this rank made; -1 if a journal does not say it."""
    partner = -1 if operation.root is None else operation.root
    return (rank, partner) if operation.kind == "send" else (partner, rank)


def needed_ranks(operation: Collective, rank: int, entered_ns: Mapping[int, int]) -> tuple[int, ...]:
    """The ranks that must have entered an operation before it can end on this rank. entered_ns: entry time by rank."""
    ranks, root = tuple(entered_ns), operation.root
    if root is None:
        return ranks
    if operation.kind in POINT_TO_POINT:
        return (rank, root)
    if operation.kind == "gather" and rank == root:
        return ranks
    if operation.kind in ("broadcast", "scatter") and rank != root:
        return (root, rank)
    # The other cases depend on the backend. gloo reduces around a ring, so all ranks wait for the last; with other
    # backends a rank may leave once it has sent its part. The root of a broadcast or scatter waits until its data is
    # received, if it is too large to be buffered; so does a rank that sends to the root of a gather. The times decide:
    # an operation cannot have needed a rank that entered after its end.
    partners = (root, rank) if operation.kind == "gather" else ranks
    return tuple(other for other in partners if entered_ns[other] < operation.exit_ns or other == rank)


def mismatch(steps: Mapping[int, Step]) -> str | None:
    """Describes the first operation of a step on which two ranks disagree; None if they agree. steps: by rank."""
    world = tuple(sorted(steps))
    for rank, step in steps.items():
        if defect := _defect(step, world):
            return f"rank {rank} reported {defect}"
    return _collective_mismatch(steps, world) or _message_mismatch(steps)


def _defect(step: Step, world: tuple[int, ...]) -> str | None:
    """Says what is impossible in a rank's step; None if nothing is."""
    if step.begin_ns >= step.end_ns or min(step.phases_ns) < 0 or len(set(step.order)) < len(step.order):
        return "impossible phases"
    end_ns, everybody = step.end_ns + SLACK_NS, set(world)
    for operation in step.collectives:
        enter_ns = operation.enter_ns
        if not (
            step.begin_ns <= operation.called_ns <= enter_ns
            and enter_ns <= operation.awaited_ns <= end_ns
            and enter_ns <= operation.exit_ns <= end_ns
        ):
            return f"impossible times of {operation.kind} {operation.seq}"
        ranks = everybody.intersection(operation.group) if operation.group else everybody
        has_root = operation.root in ranks or (operation.root is None and operation.kind not in POINT_TO_POINT)
        if step.rank not in ranks or not has_root:
            return f"{operation.kind} {operation.seq} with ranks that do not exist"
    if len(set(operation_keys(step))) < len(step.collectives):
        return "the same operation twice"
    return None


def _collective_mismatch(steps: Mapping[int, Step], world: tuple[int, ...]) -> str | None:
    of_group: dict[tuple[int, ...], dict[int, list[Collective]]] = {}
    for rank, step in steps.items():
        for operation in sorted(step.collectives, key=lambda operation: operation.seq):
            if operation.kind not in POINT_TO_POINT:
                of_group.setdefault(operation.group, {}).setdefault(rank, []).append(operation)
    # An empty group means all ranks.
    for group, by_rank in of_group.items():
        members = [(rank, by_rank.get(rank, [])) for rank in group or world if rank in steps]
        for (one, operations), (other, others) in pairwise(members):
            for number in range(max(len(operations), len(others))):
                first, second = _operation_text(operations, number), _operation_text(others, number)
                if first != second:
                    return f"as operation {number + 1}, rank {one} made {first}, rank {other} {second}"
            if [operation.seq for operation in operations] != [operation.seq for operation in others]:
                return "ranks number their operations in different ways"
    return None


def _operation_text(operations: Sequence[Collective], number: int) -> str:
    if number >= len(operations):
        return "none"
    operation = operations[number]
    if operation.kind == GATHER_OUTPUTS:  # bytes differ between replicas if the batch does not divide evenly
        return operation.kind
    root = "" if operation.root is None else f", root {operation.root}"
    return f"{operation.kind} ({operation.bytes} bytes{root})"


def _message_mismatch(steps: Mapping[int, Step]) -> str | None:
    """Describes sends without a receive, or receives without a send; None if all match."""
    surplus: dict[tuple[int, int], int] = {}
    for rank, step in steps.items():
        for operation in step.collectives:
            if operation.kind in POINT_TO_POINT:
                pair, sign = sender_and_receiver(operation, rank), 1 if operation.kind == "send" else -1
                surplus[pair] = surplus.get(pair, 0) + sign
    for (sender, receiver), count in surplus.items():
        if count:
            what = f"{count} more sent than received" if count > 0 else f"{-count} more received than sent"
            return f"from rank {sender} to rank {receiver}, {what}"
    return None


def out_of_order(steps: Mapping[int, Sequence[Step]]) -> dict[int, str]:
    """The numbers of steps that a rank cannot have reported in good order, each with the reason."""
    reasons = {}
    for rank, of_rank in steps.items():
        last, end_ns = -1, 0  # ZeroMQ preserves the order of a rank's messages, and a rank's steps do not overlap
        for step in of_rank:
            if step.step <= last:
                reasons[step.step] = f"rank {rank} reported it after step {last}"
            elif step.begin_ns < end_ns:
                reasons[step.step] = f"rank {rank} began it before step {last} had ended"
            else:
                last, end_ns = step.step, step.end_ns
    return reasons


AGGREGATE, BETWEEN = PHASES.index("aggregate"), PARTS.index(phases.BETWEEN)
Piece = tuple[int, int, int]  # index in PARTS, begin and end in ns


class StepMoment(NamedTuple):
    """A moment in a rank's step: it enters or awaits an operation, or the step ends."""

    work: list[int]  # own work since the previous event, by part, in ns
    key: OperationKey | None  # the operation; None: the end of the step
    enters: bool  # the rank enters the operation here
    awaits: bool  # from here on the rank waits for the operation


def phase_spans(step: Step) -> list[Piece]:
    """The phases of a step in the order in which they ran, each as its index in PARTS with begin and end."""
    spans, moment = [], step.begin_ns
    for phase, ns in step.pieces or [(phase, step.phases_ns[phase]) for phase in step.order]:
        spans.append((phase, moment, moment + ns))
        moment += ns
    return spans


def part_at(spans: Sequence[Piece], moment_ns: int) -> int:
    """The part of the step in which a moment lies."""
    return next((part for part, begin, end in spans if begin <= moment_ns < end), BETWEEN)


def work_program(
    step: Step, before: Step | None, keys: list[OperationKey], idle: list[Interval]
) -> tuple[list[StepMoment], list[int]]:
    """The events of a rank's step in order, and its total own work by part, in ns. `before`: the rank's previous
    step."""
    pieces = phase_spans(step)
    if before is not None:  # work between two steps may make a rank late in the second
        pieces.insert(0, (BETWEEN, before.end_ns, step.begin_ns))
    if step.end_ns > pieces[-1][2]:
        pieces.append((BETWEEN, pieces[-1][2], step.end_ns))
    moments: list[tuple[int, OperationKey | None, bool, bool]] = []
    held: list[Interval] = []
    for key, operation in zip(keys, step.collectives, strict=True):
        if operation.enter_ns > operation.called_ns:  # an injected delay postponed the call
            held.append((operation.called_ns, operation.enter_ns))
        at_once = operation.awaited_ns == operation.enter_ns
        moments.append((operation.enter_ns, key, True, at_once))
        if not at_once:
            moments.append((operation.awaited_ns, key, False, True))
    moments.sort(key=lambda moment: (moment[0], not moment[2]))  # at the same time, entering comes before waiting
    moments.append((step.end_ns, None, False, False))
    works = _cut(_busy_segments(pieces, idle, held), [moment for moment, *_ in moments])
    program = [
        StepMoment(work, key, enters, awaits) for work, (_, key, enters, awaits) in zip(works, moments, strict=True)
    ]
    return program, [sum(parts) for parts in zip(*works, strict=True)]


def _cut(segments: Iterable[Piece], moments: Iterable[int]) -> list[list[int]]:
    """For each moment, the own work since the moment before, by part, in ns. Segments and moments are sorted."""
    left, works = deque(segments), []
    for moment in moments:
        work = [0] * len(PARTS)
        while left and left[0][1] < moment:
            part, begin, end = left.popleft()
            work[part] += min(end, moment) - begin
            if moment < end:
                left.appendleft((part, moment, end))
        works.append(work)
    return works


def _busy_segments(pieces: Iterable[Piece], idle: list[Interval], held: list[Interval]) -> list[Piece]:
    """The pieces without idle time. Time in which a delay postponed a call counts as aggregation, in any phase."""
    free = [(part, *rest) for part, begin, end in pieces for rest in subtract(begin, end, idle)]
    if not held:  # the usual case: only injected delays postpone calls
        return free
    held = union(held)
    segments = [(part, *rest) for part, begin, end in free for rest in subtract(begin, end, held)]
    segments += [(AGGREGATE, *delay) for _, begin, end in free for delay in overlapping(held, begin, end)]
    return sorted(segments, key=lambda segment: segment[1])
