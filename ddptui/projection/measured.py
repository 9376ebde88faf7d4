"""What a measured trial tells a projection: each rank's own work in every step, and its transfers. Pure.

Own work is the step without waiting and without exposed communication, as in analysis/waits.py. An injected delay
stands for compute and is part of the work. It needs no core, though, so it is kept apart.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

from ddptui.analysis.cautions import Caution, Evidence, cautions_for
from ddptui.analysis.clock_error import exceeds_waits, wait_uncertainty
from ddptui.analysis.disturbance import takes_cores
from ddptui.analysis.figures import other_load
from ddptui.analysis.launch_log import LaunchLog
from ddptui.analysis.operations import POINT_TO_POINT, OperationKey, operation_keys
from ddptui.analysis.own_work import phase_spans
from ddptui.analysis.waits import AlignedStep, RankStep
from ddptui.projection import ProjectionError
from ddptui.text.units import S
from ddptui.wire.messages import Collective, Trained
from ddptui.wire.phases import PHASES

MOST_RANK_STEPS = 8000  # longer trials are thinned evenly to this many, since the bootstrap passes over them 100 times
BATCH_PHASES = ("data", "forward", "backward")  # their work grows with a rank's batch
BACKWARD = PHASES.index("backward")


class Work(NamedTuple):
    """A rank's own work in a step, s. The first four add up to it."""

    batch: float  # grows with the rank's batch
    rest: float  # does not: the optimizer, local sums, the time between steps
    batch_slept: float  # in injected delays, as the next
    rest_slept: float
    backward: float  # part of `batch`: what backward computes
    slept_after: float  # part of `batch_slept`: after backward's computing


class Call(NamedTuple):
    """The operations of one kind and size in a step. One begins when all its ranks have come and the one before is
    over."""

    kind: str
    bytes: int
    early: bool  # before backward, so no gradient
    s: float  # of each, mean
    number: int


class MeasuredStep(NamedTuple):
    """One step of all ranks."""

    work: tuple[Work, ...]  # by rank
    calls: tuple[Call, ...]
    exposed: float = 0.0  # communication, s, mean over the ranks


LaunchSteps = Sequence[MeasuredStep]
StepChoice = Sequence[Sequence[int]]  # for each launch, indices of steps


class MeasuredTrial(NamedTuple):
    """All completed launches of a trial."""

    launches: tuple[LaunchSteps, ...]
    operations: tuple[tuple[str, int], ...]  # kind and bytes of each in a step, after forward, in order
    ranks: int
    parameters: int  # of the model, numbers
    tensors: int  # that hold them
    step_s: float  # train time over steps, mean over the launches
    ready: tuple[float, ...] = ()  # by operation, the part of backward computed when a rank typically arrives there

    @property
    def steps(self) -> LaunchSteps:
        """The steps of all launches."""
        return [step for launch in self.launches for step in launch]

    @property
    def every_step(self) -> StepChoice:
        """The choice that leaves out no step."""
        return [range(len(launch)) for launch in self.launches]


def measured_trial(name: str, logs: Sequence[LaunchLog]) -> MeasuredTrial:
    """What a trial's launches, which all ended well, measured. Raises ProjectionError."""
    aligned = [steps for log in logs if (steps := _aligned_steps(name, log))]
    if not aligned:
        raise ProjectionError(f"{name}: its ranks recorded no step in which all made the same operations")
    first = logs[0]
    operations = tuple((call.kind, call.bytes) for call in _calls(aligned[-1][-1]) if not call.early)
    parts = [ready for steps in aligned for step in steps if len(ready := _ready(step)) == len(operations)]
    return MeasuredTrial(
        launches=tuple([_measured_step(step) for step in steps] for steps in aligned),
        operations=operations,
        ranks=len(first.hellos),
        parameters=max(ready.parameters for ready in first.ready.values()),
        tensors=max(len(done.parameters) for done in first.done.values()),
        step_s=fmean(step_s(log) for log in logs),
        ready=tuple(map(median, zip(*parts, strict=True))),
    )


def step_s(log: LaunchLog) -> float:
    """A launch's train time over its steps, s; with or without instruments."""
    return max((span.end_ns - span.begin_ns) / span.steps for span in _train_spans(log)) / S


def cautions_of(logs: Sequence[LaunchLog]) -> set[Caution]:
    """Why the figures of these launches may mislead."""
    raised: set[Caution] = set()
    for log in logs:
        spans = _train_spans(log)
        raised.update(cautions_for(Evidence(steps=max(span.steps for span in spans))))
        if takes_cores(other_load(log.loads, spans)):
            raised.add(Caution.OTHER_LOAD)
    return raised


def _train_spans(log: LaunchLog) -> list[Trained]:
    return [span for rank in log.hellos if (span := log.span(rank))]


def _aligned_steps(name: str, log: LaunchLog) -> list[AlignedStep]:
    """A launch's steps after the warm-up, across all ranks."""
    aligned = log.align_measured().steps
    if (clock_error := wait_uncertainty(aligned)) and exceeds_waits(aligned, clock_error):
        why = "the clock error between its ranks exceeds the measured waits: its transfers are unknown"
        raise ProjectionError(f"{name}: {why}")
    return aligned[:: max(1, len(aligned) * len(log.hellos) // MOST_RANK_STEPS)]


def _measured_step(step: AlignedStep) -> MeasuredStep:
    ranks = [step.ranks[rank] for rank in sorted(step.ranks)]
    by_key: dict[tuple[str, int, bool], list[float]] = {}
    for call in _calls(step):
        by_key.setdefault((call.kind, call.bytes, call.early), []).append(call.s)
    calls = (Call(*key, fmean(times), len(times)) for key, times in sorted(by_key.items()))
    exposed = fmean(rank.exposed_ns - rank.wait_ns for rank in ranks) / S
    return MeasuredStep(tuple(map(_work, ranks)), tuple(calls), exposed)


def _work(rank: RankStep) -> Work:
    worked = dict(zip((*PHASES, "between"), rank.work_ns, strict=True))
    slept = Counter[str]()
    for sleep in rank.step.slept:
        slept[sleep.at] += sleep.end_ns - sleep.begin_ns
    batch = sum(worked[phase] for phase in BATCH_PHASES)
    rest = sum(rank.work_ns) - batch
    # the work is without waits and exposed transfers, so it may hold less than was slept
    batch_slept = min(batch, sum(slept[phase] for phase in BATCH_PHASES))
    rest_slept = min(rest, slept["aggregate"])
    after = min(worked["backward"], slept["backward"])
    lengths = (batch - batch_slept, rest - rest_slept, batch_slept, rest_slept, worked["backward"] - after, after)
    return Work(*(ns / S for ns in lengths))


def _calls(step: AlignedStep) -> Iterator[Call]:
    """A step's operations one by one, in the order in which they began."""
    backward = max(map(_begin_of_backward, step.ranks.values()))
    by_key: dict[OperationKey, list[Collective]] = {}
    for rank in step.ranks.values():
        for key, operation in zip(operation_keys(rank.step), rank.step.collectives, strict=True):
            by_key.setdefault(key, []).append(operation)
    ordered = sorted(by_key, key=lambda key: max(step.entered_ns[key].values()))
    over = 0.0
    for key in ordered:
        kind, size = by_key[key][0].kind, by_key[key][0].bytes
        all_came = max(step.entered_ns[key].values())
        exits = [max(all_came, operation.exit_ns) for operation in by_key[key]]
        # The next operation must wait for the last rank; after a step's last one, each rank goes on by itself.
        end = fmean(exits) if key == ordered[-1] else max(exits)
        if kind in POINT_TO_POINT:  # these do not queue: other pairs exchange theirs at the same time
            kind, begin = "isend_irecv", float(all_came)
        else:
            begin, over = max(all_came, over), max(over, end)
        yield Call(kind, size, all_came < backward, max(0, end - begin) / S, 1)


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


def _begin_of_backward(rank: RankStep) -> int:
    return next((begin for place, begin, _ in phase_spans(rank.step) if place == BACKWARD), rank.step.begin_ns)
