"""Aligns the steps of all ranks and computes which rank waited for which. Pure.

An operation is identified by its step, its group and its number within the group, never by its place in a list. Which
ranks it waits for depends on its kind (operations.py). For one rank in one step:

    under way   an operation was entered and has not ended yet
    idle        the rank did nothing else meanwhile (exposed communication)
    wait        idle, while an operation under way lacked a rank that this one needs
    transfer    under way, and no needed rank was missing
    own work    neither idle nor stopped within an operation (operations.py)

Overlapping intervals count once. A step in which ranks called different operations is left out, with the reason.
All times are in one clock; if they were converted to it, each step has the remaining clock error.

A GPU continues while its host has no core or stands still; if its stream runs empty, the phases get longer by
themselves. So such time is not subtracted from a GPU's work, and does not explain a long operation.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from ddptui.analysis.clocks import ClockSpread
from ddptui.analysis.heartbeats import Loaders
from ddptui.analysis.operations import (
    Interval,
    OperationKey,
    StepMoment,
    mismatch,
    needed_ranks,
    operation_keys,
    out_of_order,
    overlapping,
    subtract,
    total_ns,
    touching,
    union,
    work_program,
)
from ddptui.analysis.policy import is_host_time, is_timed_by_device
from ddptui.text.tables import grouped
from ddptui.wire.messages import Line, Pause, Step

Standstills = dict[int, list[Interval]]  # rank -> intervals in which its process was stopped; usually empty


class Wait(NamedTuple):
    """An interval in which a rank was idle because `late_rank` had not entered an operation yet, in ns."""

    begin: int
    end: int
    late_rank: int


class RankStep(NamedTuple):
    """One rank in one step; times in ns."""

    step: Step  # for a GPU, with queued_ns and cpu_ns set to 0
    program: list[StepMoment]  # the rank's events, with the own work between them
    transfers: dict[OperationKey, int]  # operation -> time from the last needed rank's arrival to the end
    waits: list[Wait]  # disjoint, in order
    idle: list[Interval]  # disjoint, in order
    wait_ns: int
    transfer_ns: int
    exposed_ns: int
    under_way_ns: int
    work_ns: list[int]  # own work by part


class AlignedStep(NamedTuple):
    """A step of all ranks."""

    number: int
    ranks: dict[int, RankStep]
    entered_ns: dict[OperationKey, dict[int, int]]  # by operation and rank: when the rank entered
    needs: dict[OperationKey, dict[int, tuple[int, ...]]]  # by operation and rank: which ranks it needs to end
    clock_spread: ClockSpread | None = None  # the clock error between ranks; None: they share one clock
    host_time: bool = False  # times are host times and a device may lag behind, so waits are unknown

    @property
    def last_arrivals(self) -> dict[OperationKey, int]:
        """The rank that arrived last, for each operation of several ranks."""
        several = {key: moments for key, moments in self.entered_ns.items() if len(moments) > 1}
        return {key: max(moments, key=lambda rank: moments[rank]) for key, moments in several.items()}


class AlignedSteps(NamedTuple):
    """The steps that could be aligned, and for each other step's number the reason why not."""

    steps: list[AlignedStep]
    mismatches: dict[int, str]
    lines: Mapping[int, Line] = MappingProxyType({})  # the lines of code for which numbers stand in the steps
    loaders: Mapping[int, Loaders] = MappingProxyType({})  # by rank: the workers of its DataLoader


def align_steps(
    steps: Mapping[int, Sequence[Step]],
    pauses: Iterable[Pause] = (),
    clock_spread: ClockSpread | None = None,
    devices: Mapping[int, str] = MappingProxyType({}),
) -> AlignedSteps:
    """Aligns the steps of all ranks. Steps that any rank lacks are left out; those that cannot be compared are among
    the mismatches. devices: the ranks' devices, as in Hello; a rank without an entry is on the CPU."""
    on_gpu = {rank for rank, device in devices.items() if is_timed_by_device(device)}
    mismatches = out_of_order(steps)
    in_order = {rank: [step for step in of_rank if step.step not in mismatches] for rank, of_rank in steps.items()}
    by_number = {
        rank: {step.step: replace(step, queued_ns=0, cpu_ns=0) if rank in on_gpu else step for step in of_rank}
        for rank, of_rank in in_order.items()
    }
    host_time = any(map(is_host_time, devices.values()))
    # A rank that ended early, or whose messages were dropped, lacks steps that the others have.
    common = sorted(set.intersection(*(set(numbers) for numbers in by_number.values()))) if by_number else []
    still = grouped((pause.rank, (pause.begin_ns, pause.end_ns)) for pause in pauses if pause.rank not in on_gpu)
    aligned = []
    for number in common:
        # A step's own work includes the time since the step before, as "between steps".
        by_rank = {rank: of_rank[number] for rank, of_rank in by_number.items()}
        before = {rank: of_rank.get(number - 1) for rank, of_rank in by_number.items()}
        if difference := mismatch(by_rank):
            mismatches[number] = difference
        else:
            step = _align_step(number, by_rank, before, still)._replace(clock_spread=clock_spread, host_time=host_time)
            aligned.append(_without_waits(step) if host_time else step)
    return AlignedSteps(aligned, dict(sorted(mismatches.items())))


def _without_waits(step: AlignedStep) -> AlignedStep:
    return step._replace(ranks={rank: own._replace(waits=[], wait_ns=0) for rank, own in step.ranks.items()})


def _align_step(
    number: int, by_rank: Mapping[int, Step], before: Mapping[int, Step | None], still: Standstills
) -> AlignedStep:
    keys = {rank: operation_keys(step) for rank, step in by_rank.items()}
    entered_ns: dict[OperationKey, dict[int, int]] = {}
    for rank, step in by_rank.items():
        for key, operation in zip(keys[rank], step.collectives, strict=True):
            entered_ns.setdefault(key, {})[rank] = operation.enter_ns
    needs: dict[OperationKey, dict[int, tuple[int, ...]]] = {key: {} for key in entered_ns}
    still = _during(by_rank.values(), still)
    ranks = {}
    for rank, step in by_rank.items():
        for key, operation in zip(keys[rank], step.collectives, strict=True):
            needs[key][rank] = needed_ranks(operation, rank, entered_ns[key])
        ranks[rank] = _rank_step(step, before[rank], keys[rank], entered_ns, needs, still)
    return AlignedStep(number, ranks, entered_ns, needs)


def _during(steps: Iterable[Step], still: Standstills) -> Standstills:
    """The standstills during the operations of these steps."""
    if not still:  # the usual case
        return still
    operations = [operation for step in steps for operation in step.collectives]
    begin = min((operation.enter_ns for operation in operations), default=0)
    end = max((operation.exit_ns for operation in operations), default=0)
    return {rank: parts for rank, intervals in still.items() if (parts := overlapping(intervals, begin, end))}


def _rank_step(
    step: Step,
    before: Step | None,
    keys: list[OperationKey],
    entered_ns: Mapping[OperationKey, Mapping[int, int]],
    needs: Mapping[OperationKey, Mapping[int, tuple[int, ...]]],
    still: Standstills,
) -> RankStep:
    stopped: list[Interval] = []  # this rank, in an operation that all had entered
    waits: list[Wait] = []
    incomplete: list[Interval] = []  # an operation was under way and lacked a rank, whether or not this one waited
    transfers: dict[OperationKey, int] = {}
    for key, operation in zip(keys, step.collectives, strict=True):
        moments = entered_ns[key]
        last = max(needs[key][step.rank], key=lambda rank: moments[rank])
        # Clocks have errors: the last needed rank cannot have arrived after the end of the operation.
        complete = min(max(moments[last], operation.enter_ns), operation.exit_ns)
        if last != step.rank:
            incomplete.append((operation.enter_ns, complete))
            waits.append(Wait(operation.awaited_ns, complete, last))
        # A process that is stopped within an operation, after all ranks have entered, makes the others wait.
        stops = [
            (rank, *stop)
            for rank, standstills in still.items()
            if rank in moments
            for stop in overlapping(standstills, complete, operation.exit_ns)
        ]
        for rank, begin, end in stops:
            if rank == step.rank:
                stopped.append((begin, end))
            else:
                incomplete.append((begin, end))
                waits.append(Wait(max(begin, operation.awaited_ns), end, rank))
        transfers[key] = operation.exit_ns - complete
        if stops:
            transfers[key] -= total_ns(union((begin, end) for _, begin, end in stops))
    awaited = union((operation.awaited_ns, operation.exit_ns) for operation in step.collectives)
    if stopped:  # a rank that is stopped itself does not wait for another stopped rank
        waits = [Wait(*rest, wait.late_rank) for wait in waits for rest in subtract(wait.begin, wait.end, stopped)]
        awaited = [rest for begin, end in awaited for rest in subtract(begin, end, stopped)]
    waits = _disjoint(waits)
    # Compute idle time first: own work is the rest of the step.
    under_way_ns = total_ns(union((operation.enter_ns, operation.exit_ns) for operation in step.collectives))
    program, work_ns = work_program(step, before, keys, awaited)
    return RankStep(
        step=step,
        program=program,
        transfers=transfers,
        waits=waits,
        idle=awaited,
        wait_ns=sum(wait.end - wait.begin for wait in waits),
        transfer_ns=under_way_ns - total_ns(union([*incomplete, *stopped])),
        exposed_ns=total_ns(awaited),
        under_way_ns=under_way_ns,
        work_ns=work_ns,
    )


def _disjoint(waits: list[Wait]) -> list[Wait]:
    """Makes waits disjoint: if two overlap, the earlier one keeps the time."""
    disjoint: list[Wait] = []
    moment = 0
    for begin, end, late_rank in sorted(waits):
        if end > max(begin, moment):
            disjoint.append(Wait(max(begin, moment), end, late_rank))
            moment = end
    return disjoint


def caused_by_step(steps: Sequence[AlignedStep]) -> list[dict[int, int]]:
    """For each step and rank, how long all others together waited for this rank's own work, in ns: also along chains of
    ranks that wait for each other."""
    ranks = sorted({rank for step in steps for rank in step.ranks})
    waits = {rank: [wait for step in steps for wait in step.ranks[rank].waits] for rank in ranks}
    idle = {rank: [interval for step in steps for interval in step.ranks[rank].idle] for rank in ranks}

    def causes_of(wait: Wait, seen: frozenset[int]) -> list[tuple[int, int]]:
        """Splits a wait into (rank, ns) by cause. While the late rank itself waits, the cause is the rank that it waits
        for."""
        late = wait.late_rank
        idle_ns = total_ns(overlapping(idle[late], wait.begin, wait.end))
        causes = [(late, wait.end - wait.begin - idle_ns)]  # the late rank's own work meanwhile
        # Ranks may wait for each other at the same time, in different operations: follow each rank only once.
        if late not in seen:
            for inner in touching(waits[late], wait.begin, wait.end):
                meanwhile = Wait(max(wait.begin, inner.begin), min(wait.end, inner.end), inner.late_rank)
                causes += causes_of(meanwhile, seen | {late})
        return causes

    # Waits for transfers among other ranks are not included: no rank's work caused them.
    caused = []
    for step in steps:
        of_step = dict.fromkeys(ranks, 0)
        for rank, rank_step in step.ranks.items():
            for wait in rank_step.waits:
                for cause, ns in causes_of(wait, frozenset((rank,))):
                    of_step[cause] += ns
        caused.append(of_step)
    return caused
