"""A rank's own work in a step, which is what it neither idles nor sleeps away: by part, and between its operations.
Pure.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ddptui.analysis.intervals import Interval, subtract
from ddptui.analysis.operations import OperationKey
from ddptui.wire.messages import PHASES, Step

PARTS = (*PHASES, "between steps")  # of own work; what a step does outside its phases counts as the last
AGGREGATE, BETWEEN = PHASES.index("aggregate"), len(PHASES)


class Event(NamedTuple):
    """Something that a rank came to in a step.

    work    own work before it since the previous event, ns by part
    key     of the operation; None: this is the end of the step
    enters  the rank entered the operation
    awaits  from here on the rank waited for it
    """

    work: list[int]
    key: OperationKey | None
    enters: bool
    awaits: bool


def phase_spans(step: Step) -> list[tuple[int, int, int]]:
    """The phases of a step in the order in which they ran: index in PHASES, begin and end in ns."""
    spans, moment = [], step.begin_ns
    for phase in step.order:
        spans.append((phase, moment, moment + step.phases_ns[phase]))
        moment += step.phases_ns[phase]
    return spans


def work_program(
    step: Step, before: Step | None, keys: list[OperationKey], idle: list[Interval]
) -> tuple[list[Event], list[int]]:
    """The events of a rank's step in order, and its own work in total, ns by part. `before`: the rank's step before.

    The time by which an injected delay held up a call counts as aggregation, in whatever phase the call was made.
    """
    pieces = phase_spans(step)
    if before is not None:
        pieces.insert(0, (BETWEEN, before.end_ns, step.begin_ns))
    if step.end_ns > pieces[-1][2]:
        pieces.append((BETWEEN, pieces[-1][2], step.end_ns))
    moments: list[tuple[int, OperationKey | None, bool, bool]] = []
    held: list[Interval] = []
    for key, operation in zip(keys, step.collectives, strict=True):
        if operation.enter_ns > operation.called_ns:
            held.append((operation.called_ns, operation.enter_ns))
        at_once = operation.awaited_ns == operation.enter_ns
        moments.append((operation.enter_ns, key, True, at_once))
        if not at_once:
            moments.append((operation.awaited_ns, key, False, True))
    moments.sort(key=lambda moment: (moment[0], not moment[2]))  # at one moment, entering comes before waiting
    moments.append((step.end_ns, None, False, False))
    work = _WorkCutter(pieces, idle, held)
    program = [Event(work.until(moment), key, enters, awaits) for moment, key, enters, awaits in moments]
    return program, work.all


class _WorkCutter:
    """Cuts a rank's own work at moments that only increase. all: what was cut off so far, ns by part."""

    def __init__(self, pieces: list[tuple[int, int, int]], idle: list[Interval], held: list[Interval]) -> None:
        self.all = [0] * len(PARTS)
        self._segments = _busy_segments(pieces, idle, held)
        self._next = 0

    def until(self, moment: int) -> list[int]:
        """Own work since the last cut, ns by part."""
        work = [0] * len(PARTS)
        while self._next < len(self._segments):
            part, begin, end = self._segments[self._next]
            if begin >= moment:
                break
            cut = min(end, moment)
            work[part] += cut - begin
            self.all[part] += cut - begin
            if cut < end:
                self._segments[self._next] = (part, cut, end)
                break
            self._next += 1
        return work


def _busy_segments(
    pieces: Iterable[tuple[int, int, int]], idle: list[Interval], held: list[Interval]
) -> list[tuple[int, int, int]]:
    """Part, begin and end of what is left of the pieces without idle time; where a call was held up, the part is
    aggregation."""
    segments: list[tuple[int, int, int]] = []
    for part, begin, end in pieces:
        for free_begin, free_end in subtract(begin, end, idle):
            moment = free_begin
            for held_begin, held_end in held:
                if held_begin < free_end and held_end > moment:
                    if held_begin > moment:
                        segments.append((part, moment, held_begin))
                    segments.append((AGGREGATE, max(moment, held_begin), min(held_end, free_end)))
                    moment = min(held_end, free_end)
            if moment < free_end:
                segments.append((part, moment, free_end))
    return segments
