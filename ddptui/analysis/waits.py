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

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ddptui.analysis.clock_sync import ClockSpread
from ddptui.analysis.intervals import Interval, overlapping, subtract, total_ns, union
from ddptui.analysis.operations import OperationKey, mismatch, needed_ranks, operation_keys
from ddptui.analysis.own_work import Event, work_program
from ddptui.wire.messages import Pause, Step

Standstills = dict[int, list[Interval]]  # when each rank stood still


class Wait(NamedTuple):
    """A rank was idle because another had not come."""

    begin: int
    end: int
    late_rank: int


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
    entered_ns: dict[OperationKey, dict[int, int]]
    needs: dict[OperationKey, dict[int, tuple[int, ...]]]
    clock_spread: ClockSpread | None = None

    @property
    def last_arrivals(self) -> dict[OperationKey, int]:
        """Who came last to each operation of several ranks."""
        several = {key: moments for key, moments in self.entered_ns.items() if len(moments) > 1}
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
            joined.append(_align_step(number, told, before, still)._replace(clock_spread=apart))
    return AlignedSteps(joined, mismatches)


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
        waiting = [Wait(*left, each.late_rank) for each in waiting for left in subtract(each.begin, each.end, stood)]
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


def _disjoint(waits: list[Wait]) -> list[Wait]:
    """Waits that overlap, cut so that they do not: the one that began first keeps the time."""
    disjoint: list[Wait] = []
    moment = 0
    for begin, end, whom in sorted(waits):
        if end > max(begin, moment):
            disjoint.append(Wait(max(begin, moment), end, whom))
            moment = end
    return disjoint
