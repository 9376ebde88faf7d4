"""What a measured trial tells a projection: each rank's own work in every step, and its transfers. Pure.

Own work is the step without waiting and without exposed communication, as in analysis/waits.py. An injected delay
stands for compute and is part of the work. It needs no core, though, so it is kept apart.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

from ddptui.analysis.cautions import Caution, Evidence, cautions_for
from ddptui.analysis.clock_error import exceeds_waits, wait_uncertainty
from ddptui.analysis.figures import other_load
from ddptui.analysis.launch_log import LaunchLog
from ddptui.analysis.operations import POINT_TO_POINT, OperationKey, operation_keys
from ddptui.analysis.own_work import phase_spans
from ddptui.analysis.waits import AlignedStep, RankStep
from ddptui.projection import ProjectionError
from ddptui.text.units import S
from ddptui.wire.messages import PHASES, Collective

MOST_RANK_STEPS = 8000  # longer trials are thinned evenly to this many, since the bootstrap passes over them 100 times
BATCH_PHASES = ("data", "forward", "backward")  # their work grows with a rank's batch
BACKWARD = PHASES.index("backward")


class Work(NamedTuple):
    """A rank's own work in a step, s. The first four add up to it.

    batch, batch_slept  grows with the rank's batch: computed, and slept in injected delays
    rest, rest_slept    does not: the optimizer, local sums, the time between steps
    backward            part of `batch`: what backward computes
    slept_after         part of `batch_slept`: what is slept after backward's computing
    """

    batch: float
    rest: float
    batch_slept: float
    rest_slept: float
    backward: float
    slept_after: float


class Call(NamedTuple):
    """The operations of one kind and size in a step: `number` of them, which took `s` each on average. An operation
    begins when all its ranks have come and the one before it is over. early: before backward."""

    kind: str
    bytes: int
    early: bool
    s: float
    number: int


class MeasuredStep(NamedTuple):
    """One step: each rank's work, its calls, and the exposed communication, s, mean over the ranks."""

    work: tuple[Work, ...]
    calls: tuple[Call, ...]
    exposed: float = 0.0


LaunchSteps = Sequence[MeasuredStep]


class MeasuredTrial(NamedTuple):
    """All completed launches of a trial.

    operations  kind and bytes of each operation in a step, after forward, in order
    parameters  of the model, numbers; tensors: as many hold them
    step_s      train time over steps, mean over the launches
    ready       for each of `operations`, the part of backward that a rank has typically computed when it arrives there
    """

    launches: tuple[LaunchSteps, ...]
    operations: tuple[tuple[str, int], ...]
    ranks: int
    parameters: int
    tensors: int
    step_s: float
    ready: tuple[float, ...] = ()


def measured_trial(logs: Sequence[LaunchLog]) -> MeasuredTrial:
    """What these launches, which all ended well, measured. Raises ProjectionError."""
    aligned = [steps for log in logs if (steps := _aligned_steps(log))]
    if not aligned:
        raise ProjectionError("its ranks recorded no step in which all made the same operations")
    first = logs[0]
    operations = tuple((call.kind, call.bytes) for call in _calls(aligned[-1][-1]) if not call.early)
    parts = [_ready(step) for steps in aligned for step in steps]
    return MeasuredTrial(
        launches=tuple([_measured_step(step) for step in steps] for steps in aligned),
        operations=operations,
        ranks=len(first.hellos),
        parameters=max(ready.parameters for ready in first.ready.values()),
        tensors=max(len(done.parameters) for done in first.done.values()),
        step_s=fmean(step_s(log) for log in logs),
        ready=_medians([ready for ready in parts if len(ready) == len(operations)]),
    )


def step_s(log: LaunchLog) -> float:
    """A launch's train time over its steps, s; with or without instruments."""
    train_spans = [span for rank in log.hellos if (span := log.span(rank))]
    return max((span.end_ns - span.begin_ns) / span.steps for span in train_spans) / S


def cautions_of(logs: Sequence[LaunchLog]) -> set[Caution]:
    """Why the figures of these launches may mislead."""
    raised: set[Caution] = set()
    for log in logs:
        train_spans = [span for rank in log.hellos if (span := log.span(rank))]
        evidence = Evidence(
            steps=max(span.steps for span in train_spans), other_load=other_load(log.loads, train_spans)
        )
        raised.update(cautions_for(evidence))
    return raised


def _aligned_steps(log: LaunchLog) -> list[AlignedStep]:
    """A launch's steps after the warm-up, across all ranks."""
    aligned = log.align_measured().steps
    if (clock_error := wait_uncertainty(aligned)) and exceeds_waits(aligned, clock_error):
        raise ProjectionError("the clock error between its ranks exceeds the measured waits: its transfers are unknown")
    every = max(1, len(aligned) * len(log.hellos) // MOST_RANK_STEPS)
    return aligned[::every]


def _measured_step(step: AlignedStep) -> MeasuredStep:
    ranks = [step.ranks[rank] for rank in sorted(step.ranks)]
    by_key: dict[tuple[str, int, bool], list[float]] = {}
    for call in _calls(step):
        by_key.setdefault((call.kind, call.bytes, call.early), []).append(call.s)
    calls = (Call(*key, fmean(times), len(times)) for key, times in sorted(by_key.items()))
    exposed = fmean(rank.exposed_ns - rank.wait_ns for rank in ranks) / S
    return MeasuredStep(tuple(_work(rank) for rank in ranks), tuple(calls), exposed)


def _work(rank: RankStep) -> Work:
    parts = dict(zip((*PHASES, "between"), rank.work_ns, strict=True))
    slept = dict.fromkeys(PHASES, 0)
    for sleep in rank.step.slept:
        if sleep.at in slept:
            slept[sleep.at] += sleep.end_ns - sleep.begin_ns
    batch = sum(parts[phase] for phase in BATCH_PHASES)
    batch_slept = min(batch, sum(slept[phase] for phase in BATCH_PHASES))
    rest = sum(rank.work_ns) - batch
    rest_slept = min(rest, slept["aggregate"])
    after = min(parts["backward"], slept["backward"])
    lengths = (batch - batch_slept, rest - rest_slept, batch_slept, rest_slept, parts["backward"] - after, after)
    return Work(*(ns / S for ns in lengths))


def _calls(step: AlignedStep) -> Iterator[Call]:
    """A step's operations one by one, in the order in which they began. Collectives queue behind each other. Messages
    between two ranks do not: other pairs exchange theirs at the same time."""
    backward = max(_begin_of_backward(rank) for rank in step.ranks.values())
    over = 0.0
    by_key = sorted(_by_key(step).items(), key=lambda item: max(step.entered_ns[item[0]].values()))
    for number, (key, by_rank) in enumerate(by_key, start=1):
        operation = next(iter(by_rank.values()))
        all_came = max(step.entered_ns[key].values())
        end = _end(all_came, by_rank.values(), last=number == len(by_key))
        is_pairwise = operation.kind in POINT_TO_POINT
        begin = all_came if is_pairwise else max(all_came, over)
        over = over if is_pairwise else max(over, end)
        kind = "isend_irecv" if is_pairwise else operation.kind
        yield Call(kind, operation.bytes, all_came < backward, max(0, end - begin) / S, 1)


def _ready(step: AlignedStep) -> list[float]:
    """For each operation from backward on, by arrival: the part of backward computed then, mean over the ranks."""
    begins = {number: _begin_of_backward(rank) for number, rank in step.ranks.items()}
    computed = {number: max(1, round(_work(rank).backward * S)) for number, rank in step.ranks.items()}
    arrivals = sorted(step.entered_ns.values(), key=lambda moments: max(moments.values()))
    return [
        fmean(min(1.0, max(0.0, (at - begins[rank]) / computed[rank])) for rank, at in moments.items())
        for moments in arrivals
        if max(moments.values()) >= max(begins.values())
    ]


def _medians(steps: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(median(parts) for parts in zip(*steps, strict=True))


def _end(all_came: int, operations: Collection[Collective], *, last: bool) -> float:
    """When an operation is over, ns. The next one must wait for its last rank. After the last one of a step each rank
    goes on by itself, so there the mean counts."""
    exits = [max(all_came, operation.exit_ns) for operation in operations]
    return fmean(exits) if last else max(exits)


def _by_key(step: AlignedStep) -> Mapping[OperationKey, Mapping[int, Collective]]:
    by_key: dict[OperationKey, dict[int, Collective]] = {}
    for number, rank in step.ranks.items():
        for key, operation in zip(operation_keys(rank.step), rank.step.collectives, strict=True):
            by_key.setdefault(key, {})[number] = operation
    return by_key


def _begin_of_backward(rank: RankStep) -> int:
    return next((begin for place, begin, _ in phase_spans(rank.step) if place == BACKWARD), rank.step.begin_ns)
