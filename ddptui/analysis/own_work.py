"""Computes a rank's own work in a step, i.e. its time without idle time and standstills: by part, and between its
operations. Pure.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ddptui.analysis.intervals import Interval, overlapping, subtract, union
from ddptui.analysis.operations import OperationKey
from ddptui.wire import phases
from ddptui.wire.messages import Step
from ddptui.wire.phases import PARTS, PHASES

AGGREGATE, BETWEEN = PHASES.index("aggregate"), PARTS.index(phases.BETWEEN)
Piece = tuple[int, int, int]  # index in PARTS, begin and end in ns


class Event(NamedTuple):
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


def work_program(
    step: Step, before: Step | None, keys: list[OperationKey], idle: list[Interval]
) -> tuple[list[Event], list[int]]:
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
    program = [Event(work, key, enters, awaits) for work, (_, key, enters, awaits) in zip(works, moments, strict=True)]
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
