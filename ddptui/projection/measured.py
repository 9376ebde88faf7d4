"""What a measured trial shows that a projection is made of: each rank's own work, and the transfers. Pure.

Own work is the step without waiting and without transfers that nothing hides, as waits.py has it. A delay that was put
in stands for compute, and is part of it; but it needs no core, and is kept apart.
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
from ddptui.wire.messages import PHASES, Collective

MOST_RANK_STEPS = 8000  # of longer trials, steps spread evenly over all
WITH_THE_BATCH = ("data", "forward", "backward")  # what grows with a rank's batch
BACKWARD = PHASES.index("backward")
S = 1e9  # ns


class Work(NamedTuple):
    """Of a rank in a step, s: what grows with its batch, and the rest (the optimizer, own sums, what is between steps),
    each computed or slept. backward: of what is computed with the batch, that part; slept_after: of the sleep, what
    came after it."""

    batch: float
    rest: float
    batch_slept: float
    rest_slept: float
    backward: float
    slept_after: float


class Call(NamedTuple):
    """The operations of one kind and size in a step, so many of them. Each takes from when all its ranks had come (and
    the one before it was over) until it was over: s, on average. early: before backward."""

    kind: str
    bytes: int
    early: bool
    s: float
    times: int


class Moment(NamedTuple):
    """One step: each rank's work, and the calls. exposed: how long a rank stood still for transfers, not for another
    rank, s, mean over the ranks."""

    work: tuple[Work, ...]
    calls: tuple[Call, ...]
    exposed: float = 0.0


Launch = Sequence[Moment]


class MeasuredTrial(NamedTuple):
    """sent: of a step, kind and bytes of each operation after forward, in order; parameters: of the model, numbers and
    tensors; step_s: the train time by its steps, mean over the launches; ready: which part of backward a rank typically
    had computed when it came to each of the operations in `sent`."""

    launches: tuple[Launch, ...]
    sent: tuple[tuple[str, int], ...]
    ranks: int
    parameters: int
    tensors: int
    step_s: float
    ready: tuple[float, ...] = ()


def seen(heard: Sequence[LaunchLog]) -> MeasuredTrial:
    """Of a trial's launches that ended well. Raises ProjectionError."""
    joined = [steps for each in heard if (steps := _joined(each))]
    if not joined:
        raise ProjectionError("its ranks told of no step in which all made the same operations")
    first = heard[0]
    sent = tuple((call.kind, call.bytes) for call in _calls(joined[-1][-1]) if not call.early)
    return MeasuredTrial(
        launches=tuple([_moment(step) for step in steps] for steps in joined),
        sent=sent,
        ranks=len(first.hellos),
        parameters=max(words.parameters for words in first.ready.values()),
        tensors=max(len(words.parameters) for words in first.done.values()),
        step_s=fmean(step_s(each) for each in heard),
        ready=_typical([parts for steps in joined for step in steps if len(parts := _ready(step)) == len(sent)]),
    )


def step_s(heard: LaunchLog) -> float:
    """The train time of a launch, by its steps; with or without instruments."""
    spans_told = [span for rank in heard.hellos if (span := heard.span(rank))]
    return max((span.end_ns - span.begin_ns) / span.steps for span in spans_told) / S


def deceptive(heard: Sequence[LaunchLog]) -> set[Caution]:
    """Why the figures of these launches may deceive."""
    raised: set[Caution] = set()
    for log in heard:
        spans = [span for rank in log.hellos if (span := log.span(rank))]
        evidence = Evidence(steps=max(span.steps for span in spans), other_load=other_load(log.loads, spans))
        raised.update(cautions_for(evidence))
    return raised


def _joined(heard: LaunchLog) -> list[AlignedStep]:
    joined = heard.align_measured().steps
    if (found := wait_uncertainty(joined)) and exceeds_waits(joined, found):
        raise ProjectionError(
            "the clocks of its ranks are further apart than they waited: nothing is known of its transfers"
        )
    every = max(1, len(joined) * len(heard.hellos) // MOST_RANK_STEPS)
    return joined[::every]


def _moment(step: AlignedStep) -> Moment:
    ranks = [step.ranks[rank] for rank in sorted(step.ranks)]
    by_key: dict[tuple[str, int, bool], list[float]] = {}
    for call in _calls(step):
        by_key.setdefault((call.kind, call.bytes, call.early), []).append(call.s)
    calls = (Call(*key, fmean(times), len(times)) for key, times in sorted(by_key.items()))
    exposed = fmean(rank.exposed_ns - rank.wait_ns for rank in ranks) / S
    return Moment(tuple(_work(rank) for rank in ranks), tuple(calls), exposed)


def _work(rank: RankStep) -> Work:
    parts = dict(zip((*PHASES, "between"), rank.work_ns, strict=True))
    slept = dict.fromkeys(PHASES, 0)
    for each in rank.step.slept:
        if each.at in slept:
            slept[each.at] += each.end_ns - each.begin_ns
    with_batch = sum(parts[phase] for phase in WITH_THE_BATCH)
    batch_slept = min(with_batch, sum(slept[phase] for phase in WITH_THE_BATCH))
    rest = sum(rank.work_ns) - with_batch
    rest_slept = min(rest, slept["aggregate"])
    after = min(parts["backward"], slept["backward"])
    lengths = (with_batch - batch_slept, rest - rest_slept, batch_slept, rest_slept, parts["backward"] - after, after)
    return Work(*(ns / S for ns in lengths))


def _calls(step: AlignedStep) -> Iterator[Call]:
    """One by one, in the order in which they began. What passes between two ranks queues behind nothing: other pairs do
    the same at the same time."""
    backward = max(_begin_of_backward(rank) for rank in step.ranks.values())
    over = 0.0
    by_key = sorted(_by_key(step).items(), key=lambda item: max(step.entered_ns[item[0]].values()))
    for number, (key, by_rank) in enumerate(by_key, start=1):
        one = next(iter(by_rank.values()))
        all_came = max(step.entered_ns[key].values())
        end = _end(all_came, by_rank.values(), last=number == len(by_key))
        passes = one.kind in POINT_TO_POINT
        begin = all_came if passes else max(all_came, over)
        over = over if passes else max(over, end)
        kind = "isend_irecv" if passes else one.kind
        yield Call(kind, one.bytes, all_came < backward, max(0, end - begin) / S, 1)


def _ready(step: AlignedStep) -> list[float]:
    """In the order in which ranks came, without what is early."""
    begins = {number: _begin_of_backward(rank) for number, rank in step.ranks.items()}
    computed = {number: max(1, round(_work(rank).backward * S)) for number, rank in step.ranks.items()}
    came = sorted(step.entered_ns.values(), key=lambda moments: max(moments.values()))
    return [
        fmean(min(1.0, max(0.0, (at - begins[rank]) / computed[rank])) for rank, at in moments.items())
        for moments in came
        if max(moments.values()) >= max(begins.values())
    ]


def _typical(steps: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(median(parts) for parts in zip(*steps, strict=True))


def _end(all_came: int, operations: Collection[Collective], *, last: bool) -> float:
    """For what comes after it, an operation is over when it is on the last rank. After the last one of a step, each
    rank goes on by itself as soon as it can: on average."""
    exits = [max(all_came, each.exit_ns) for each in operations]
    return fmean(exits) if last else max(exits)


def _by_key(step: AlignedStep) -> Mapping[OperationKey, Mapping[int, Collective]]:
    found: dict[OperationKey, dict[int, Collective]] = {}
    for number, rank in step.ranks.items():
        for key, operation in zip(operation_keys(rank.step), rank.step.collectives, strict=True):
            found.setdefault(key, {})[number] = operation
    return found


def _begin_of_backward(rank: RankStep) -> int:
    return next((begin for place, begin, _ in phase_spans(rank.step) if place == BACKWARD), rank.step.begin_ns)
