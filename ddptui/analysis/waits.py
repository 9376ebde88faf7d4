"""Who waited for whom. Pure: the steps of all ranks in, the same steps side by side out.

An operation is identified by its step, its group and its number there, never by its place in a list. Whom it waits for
depends on what it is. Then, for one rank in one step:

    under way   an operation was entered and not over yet
    idle        the rank did nothing else meanwhile: where this is waited for ("exposed"), it costs time
    wait        idle, and an operation under way still lacked a rank that this one needs
    transfer    under way, and nobody was lacking
    own work    neither idle nor asleep in a collective: the rest, by phase

Intervals that overlap are counted once. Where ranks disagree on what ran, nothing is worked out: that is said instead.
All times are by one clock; where they were brought to it, each step knows how far the clocks may still be apart.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ddptui.analysis.clock_sync import ClockSpread
from ddptui.wire.messages import GATHER_OUTPUTS, PHASES, Collective, Pause, Step

PARTS = (*PHASES, "between steps")  # of a rank's own work
AGGREGATE, BETWEEN = PHASES.index("aggregate"), len(PHASES)
POINT_TO_POINT = ("send", "recv")
SLACK_NS = 1_000_000  # what a GPU's clock and its callbacks may be off

OperationKey = tuple[object, ...]  # which operation of a step: the same on every rank
Interval = tuple[int, int]  # ns
Standstills = dict[int, list[Interval]]  # when each rank stood still


class Wait(NamedTuple):
    """A rank was idle because another had not come."""

    begin: int
    end: int
    whom: int


class Event(NamedTuple):
    """Something that a rank came to in a step, after own work by part (ns): it entered an operation, or from there on
    waited for it; without an operation, the end of the step."""

    work: list[int]
    key: OperationKey | None
    enters: bool
    awaits: bool


class RankStep(NamedTuple):
    """One rank in one step; lengths in ns."""

    step: Step
    program: list[Event]
    transfers: dict[OperationKey, int]  # from when all that are needed have come until it is over
    waits: list[Wait]  # disjoint, in order
    idle: list[Interval]  # disjoint, in order
    wait_ns: int
    transfer_ns: int
    exposed_ns: int
    under_way_ns: int
    work_ns: list[int]  # by part


class AlignedStep(NamedTuple):
    """A step of all ranks. entered: when each rank came to an operation, ns; needs: for an operation and a rank, those
    that must have come; apart: how far their clocks may be (none: they have one)."""

    number: int
    ranks: dict[int, RankStep]
    entered: dict[OperationKey, dict[int, int]]
    needs: dict[OperationKey, dict[int, tuple[int, ...]]]
    apart: ClockSpread | None = None

    @property
    def last(self) -> dict[OperationKey, int]:
        """Who came last to each operation of several ranks."""
        several = {key: moments for key, moments in self.entered.items() if len(moments) > 1}
        return {key: max(moments, key=lambda rank: moments[rank]) for key, moments in several.items()}


class AlignedSteps(NamedTuple):
    """Steps of all ranks, and those that could not be joined: in words, and by their number."""

    steps: list[AlignedStep]
    mismatches: dict[int, str]


def align_steps(
    steps: Mapping[int, Sequence[Step]], pauses: Iterable[Pause] = (), apart: ClockSpread | None = None
) -> AlignedSteps:
    """Put the steps of all ranks side by side. A step of which a rank has not told is left out. Where a rank stood
    still in an operation that all had entered, the others waited for it."""
    by_number = {rank: {step.step: step for step in own} for rank, own in steps.items()}
    common = sorted(set.intersection(*(set(own) for own in by_number.values()))) if by_number else []
    still: Standstills = {
        rank: [(each.begin_ns, each.end_ns) for each in pauses if each.rank == rank] for rank in steps
    }
    joined, mismatches = [], {}
    for number in common:
        told = {rank: own[number] for rank, own in by_number.items()}
        before = {rank: own.get(number - 1) for rank, own in by_number.items()}
        if differs := mismatch(told):
            mismatches[number] = differs
        else:
            joined.append(_align_step(number, told, before, still)._replace(apart=apart))
    return AlignedSteps(joined, mismatches)


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
                pair, sign = _sender_receiver(operation, rank), 1 if operation.kind == "send" else -1
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


def _sender_receiver(operation: Collective, rank: int) -> tuple[int, int]:
    """Sender and receiver."""
    assert operation.root is not None
    return (rank, operation.root) if operation.kind == "send" else (operation.root, rank)


def operation_keys(step: Step) -> list[OperationKey]:
    """What each of a rank's operations is called on every rank. Two partners count what passes between them."""
    keys: list[OperationKey] = []
    passed: dict[tuple[int, int], int] = {}
    for operation in step.collectives:
        if operation.kind in POINT_TO_POINT:
            pair = _sender_receiver(operation, step.rank)
            passed[pair] = passed.get(pair, 0) + 1
            keys.append((*pair, passed[pair]))
        else:
            keys.append((operation.group, operation.seq))
    return keys


def _align_step(
    number: int, told: Mapping[int, Step], before: Mapping[int, Step | None], still: Standstills
) -> AlignedStep:
    keys = {rank: operation_keys(step) for rank, step in told.items()}
    entered: dict[OperationKey, dict[int, int]] = {}
    for rank, step in told.items():
        for key, operation in zip(keys[rank], step.collectives, strict=True):
            entered.setdefault(key, {})[rank] = operation.enter_ns
    needs: dict[OperationKey, dict[int, tuple[int, ...]]] = {key: {} for key in entered}
    ranks = {}
    for rank, step in told.items():
        for key, operation in zip(keys[rank], step.collectives, strict=True):
            needs[key][rank] = needed_ranks(operation, rank, entered[key])
        ranks[rank] = _rank_step(step, before[rank], keys[rank], entered, needs, still)
    return AlignedStep(number, ranks, entered, needs)


def _rank_step(
    step: Step,
    before: Step | None,
    keys: list[OperationKey],
    entered: Mapping[OperationKey, Mapping[int, int]],
    needs: Mapping[OperationKey, Mapping[int, tuple[int, ...]]],
    still: Standstills,
) -> RankStep:
    stood: list[Interval] = []  # in an operation that all had entered
    waiting: list[Wait] = []
    lacking: list[Interval] = []  # waiting or not: not all had come
    transfers: dict[OperationKey, int] = {}
    for key, operation in zip(keys, step.collectives, strict=True):
        moments = entered[key]
        whom = max(needs[key][step.rank], key=lambda rank: moments[rank])
        complete = min(max(moments[whom], operation.enter_ns), operation.exit_ns)
        transfers[key] = operation.exit_ns - complete
        if whom != step.rank:
            lacking.append((operation.enter_ns, complete))
            waiting.append(Wait(operation.awaited_ns, complete, whom))
        stops = [(whom, *stop) for whom in moments for stop in overlapping(still[whom], complete, operation.exit_ns)]
        for whom, begin, end in stops:
            if whom == step.rank:
                stood.append((begin, end))
            else:
                lacking.append((begin, end))
                waiting.append(Wait(max(begin, operation.awaited_ns), end, whom))
        transfers[key] -= total_ns(union((begin, end) for _, begin, end in stops))
    if stood:  # who stands still himself waits for nobody, though the other one may stand still, too
        waiting = [Wait(*left, each.whom) for each in waiting for left in subtract(each.begin, each.end, stood)]
    waits = _disjoint(waiting)
    awaited = union((operation.awaited_ns, operation.exit_ns) for operation in step.collectives)
    idle = [left for begin, end in awaited for left in subtract(begin, end, stood)] if stood else awaited
    under_way = total_ns(union((operation.enter_ns, operation.exit_ns) for operation in step.collectives))
    program, work = work_program(step, before, keys, idle)
    return RankStep(
        step=step,
        program=program,
        transfers=transfers,
        waits=waits,
        idle=idle,
        wait_ns=sum(wait.end - wait.begin for wait in waits),
        transfer_ns=under_way - total_ns(union([*lacking, *stood])),
        exposed_ns=total_ns(idle),
        under_way_ns=under_way,
        work_ns=work,
    )


def phase_spans(step: Step) -> list[tuple[int, int, int]]:
    """The phases of a step as they came: place in PHASES, begin and end."""
    found, moment = [], step.begin_ns
    for place in step.order:
        found.append((place, moment, moment + step.phases_ns[place]))
        moment += step.phases_ns[place]
    return found


def work_program(
    step: Step, before: Step | None, keys: list[OperationKey], idle: list[Interval]
) -> tuple[list[Event], list[int]]:
    """What the rank came to, in order, and its own work in all. A call that is held up (by a delay that was put in)
    counts as aggregation, in whatever phase it was made."""
    pieces = [(place, begin, end) for place, begin, end in phase_spans(step)]
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
    moments.sort(key=lambda moment: (moment[0], not moment[2]))  # what is entered, first
    moments.append((step.end_ns, None, False, False))
    work = _WorkCutter(pieces, idle, held)
    program = [Event(work.until(moment), key, enters, awaits) for moment, key, enters, awaits in moments]
    return program, work.all


class _WorkCutter:
    """Cuts a rank's own work at one moment after another."""

    def __init__(self, pieces: list[tuple[int, int, int]], idle: list[Interval], held: list[Interval]) -> None:
        self.all = [0] * len(PARTS)
        self._segments = _busy_segments(pieces, idle, held)
        self._next = 0

    def until(self, moment: int) -> list[int]:
        """Own work by part, from where the last cut was."""
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
    """The pieces without the idle intervals, and those in which a call was held up counted as aggregation."""
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


def subtract(begin: int, end: int, taken: list[Interval]) -> list[Interval]:
    """What is left of an interval."""
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
    """The same time as disjoint intervals, in order."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if end <= begin:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def total_ns(intervals: Iterable[Interval]) -> int:
    return sum(end - begin for begin, end in intervals)


def _disjoint(waits: list[Wait]) -> list[Wait]:
    """Waits that overlap, cut so that they do not: the one that began first keeps the time."""
    disjoint: list[Wait] = []
    moment = 0
    for begin, end, whom in sorted(waits):
        if end > max(begin, moment):
            disjoint.append(Wait(max(begin, moment), end, whom))
            moment = end
    return disjoint


class WaitAttribution:
    """Whose own work the others waited for, in the end: who waits for a rank that waits itself, waits for a third."""

    def __init__(self, steps: Sequence[AlignedStep]) -> None:
        ranks = sorted({rank for step in steps for rank in step.ranks})
        self._waits = {rank: [wait for step in steps for wait in step.ranks[rank].waits] for rank in ranks}
        self._idle = {rank: [each for step in steps for each in step.ranks[rank].idle] for rank in ranks}

    def of_all(self) -> dict[int, int]:
        """How long all other ranks together waited for each one's own work, ns. (They also wait for transfers among
        others, which is nobody's.)"""
        caused = dict.fromkeys(self._waits, 0)
        for rank, waits in self._waits.items():
            for wait in waits:
                for whom, ns in self._of(wait, frozenset((rank,))):
                    caused[whom] += ns
        return caused

    def _of(self, wait: Wait, seen: frozenset[int]) -> list[tuple[int, int]]:
        begin, end, whom = wait
        taken = overlapping(self._idle[whom], begin, end)
        blamed = [(whom, end - begin - total_ns(taken))]
        if whom not in seen:
            for other_begin, other_end, third in _overlapping_waits(self._waits[whom], begin, end):
                blamed += self._of(Wait(other_begin, other_end, third), seen | {whom})
        return blamed


def overlapping(intervals: list[Interval], begin: int, end: int) -> list[Interval]:
    """The parts of sorted, disjoint intervals that lie between two moments."""
    first = max(0, bisect_left(intervals, (begin, begin)) - 1)
    found = []
    for own_begin, own_end in intervals[first:]:
        if own_begin >= end:
            break
        if own_end > begin:
            found.append((max(begin, own_begin), min(end, own_end)))
    return found


def _overlapping_waits(waits: list[Wait], begin: int, end: int) -> list[Wait]:
    first = max(0, bisect_left(waits, (begin, begin, -1)) - 1)
    found = []
    for wait in waits[first:]:
        if wait.begin >= end:
            break
        if wait.end > begin:
            found.append(Wait(max(begin, wait.begin), min(end, wait.end), wait.whom))
    return found
