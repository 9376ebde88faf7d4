"""Runs the primitives: each once, to show its effect; or each with every size, in several timed rounds."""

import math
import time
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from statistics import median

import torch

from ddptui.config.catalog import OPERATIONS
from ddptui.wire.messages import Buffer, Done, Position, Ready, Shown, Timed
from workers.instruments.cuda_clock import clock_of
from workers.instruments.output import print_line
from workers.primitives.numbers import Readable, Scrambled, wrong_elements
from workers.primitives.pipelined import MOST_IN_FLIGHT
from workers.primitives.plans import Plan, bytes_of, make_primitive, plans_to_measure, plans_to_show
from workers.primitives.primitive import Argument, Primitive
from workers.primitives.timing import ROUNDS, Timer
from workers.rank.device import gpus_of, nccl_of
from workers.rank.process import Rank

MOST_OF_A_REFUSAL = 300  # characters of the backend's error that are kept

Values = tuple[float | None, ...]


def show(me: Rank) -> None:
    """Call each primitive once, with readable numbers, and report each buffer before and after."""
    plans = plans_to_show(me.trial)
    send_ready(me, len(plans))
    for place, plan in enumerate(plans):
        primitive = make_primitive(me, plan)
        primitive.fill(Readable(plan.elements * plan.tensors))
        before = [values(argument) for argument in primitive.arguments()]
        me.reporter.position = partial(Position, step=place, calls=1, number=0, kind=plan.operation)
        error = refusal_of(primitive)
        shown = Shown(
            rank=me.rank,
            place=place,
            at_ns=time.monotonic_ns(),
            operation=plan.operation,
            reduce_op=plan.reduce_op,
            root=me.trial.root if OPERATIONS[plan.operation].rooted else None,
            call=primitive.call_text(),
            buffers=buffers(primitive, before) if error is None else (),
            error=error,
        )
        me.reporter.send(shown)
        contents = (f"{buffer.name}: {buffer.before} → {buffer.after}" for buffer in shown.buffers)
        log(me, shown.call, error or ", ".join(contents))
    send_done(me)


def measure(me: Rank) -> None:
    """Measure each primitive with all sizes: a warm-up, timed rounds, and a call per size whose result is checked."""
    plans = plans_to_measure(me.trial)
    send_ready(me, len(plans))
    for _, same in groupby(enumerate(plans), key=lambda numbered: numbered[1]._replace(elements=0)):
        measure_sizes(me, [Measurement(me, place, plan) for place, plan in same])
    send_done(me)


class Measurement:
    """The measurement of one primitive with one size on this rank."""

    def __init__(self, me: Rank, place: int, plan: Plan) -> None:
        self.place, self.plan = place, plan
        self.primitive = make_primitive(me, plan)
        self.timer = Timer(self.primitive, clock_of(me.device))
        self.error = refusal_of(self.primitive)  # the backend's error; None if it accepts the call

    def position_in_call(self) -> Position:
        """The rank's position during calls: in the last one that it has begun."""
        calls = self.timer.calls
        return Position(step=self.place, calls=calls, number=max(0, calls - 1), kind=self.plan.operation)

    def position_in_check(self) -> Position:
        """The rank's position while it checks its results, which takes a while without calls."""
        return Position(step=self.place, calls=self.timer.calls)


def measure_sizes(me: Rank, sizes: Sequence[Measurement]) -> None:
    """Measure all sizes of one primitive: time them in rounds, then check and report them one by one."""
    accepted = [size for size in sizes if size.error is None]
    for size in accepted:
        me.reporter.position = size.position_in_call
        most = me.trial.iterations // len(size.primitive.in_flight())
        size.timer.warm_up(calls=me.trial.warmup_steps, most=most, most_s=me.trial.cell_s)
    for size in accepted * ROUNDS:
        me.reporter.position = size.position_in_call
        size.timer.round(after_barrier=me.trial.cadence == "barrier")
    for size in sizes:
        me.reporter.position = size.position_in_check
        timed = timed_message(me, size)
        me.reporter.send(timed)
        length = f"{median(timed.calls_ns) / 1000:.1f} µs" if timed.calls_ns else "does not take part"
        log(me, timed.operation, timed.error or f"{timed.bytes} bytes  {length}  {timed.wrong} wrong")


def timed_message(me: Rank, size: Measurement) -> Timed:
    """The message with the length of each call on this rank (empty if it does not take part), and the number of wrong
    elements."""
    plan, primitive = size.plan, size.primitive
    lengths = size.timer.lengths_ns if primitive.takes_part else []
    return Timed(
        rank=me.rank,
        place=size.place,
        operation=plan.operation,
        composite=plan.composite,
        reduce_op=plan.reduce_op,
        cadence=me.trial.cadence,
        bytes=bytes_of(plan, me.trial),
        calls_ns=tuple(length // primitive.transfers for length in lengths),
        in_flight=len(primitive.in_flight()),
        wrong=count_wrong(primitive, seed=size.place) if size.error is None else 0,
        at_ns=time.monotonic_ns(),
        error=size.error,
    )


def count_wrong(primitive: Primitive, seed: int) -> int:
    """The number of wrong elements on this rank after one call with the numbers of this seed. Calls in flight together
    get different numbers, so that a buffer shared by two of them is noticed."""
    calls = [
        (call, Scrambled(seed * MOST_IN_FLIGHT + number, primitive.reduce_op))
        for number, call in enumerate(primitive.in_flight())
    ]
    for call, numbers in calls:
        call.fill(numbers)
    primitive.call()
    found = (pair for call, numbers in calls for pair in call.expected(numbers))
    return sum(wrong_elements(actual, right, primitive.ranks) for actual, right in found)


def refusal_of(primitive: Primitive) -> str | None:
    """Make the first call. Returns the backend's error if it rejects the call, else None."""
    try:
        primitive.call()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        # A backend rejects the call on all ranks, so no rank is left waiting.
        return " ".join(str(error).split())[:MOST_OF_A_REFUSAL] or type(error).__name__
    return None


def buffers(primitive: Primitive, before: Sequence[Values | None]) -> tuple[Buffer, ...]:
    """The primitive's buffers, each with its values before and now."""
    return tuple(
        Buffer(argument.name, len(argument.tensors or ()), values_before, values(argument), argument.undefined)
        for argument, values_before in zip(primitive.arguments(), before, strict=True)
    )


def values(argument: Argument) -> Values | None:
    """The values of an argument's tensors, concatenated, with None for NaN and infinity. None if not passed."""
    if argument.tensors is None:
        return None
    flat: list[float] = torch.cat(list(argument.tensors)).tolist()
    return tuple(value if math.isfinite(value) else None for value in flat)


def log(me: Rank, call: str, result: str) -> None:
    """Print the result of a call."""
    print_line(f"rank {me.rank}  {call}  {result}")


def send_ready(me: Rank, places: int) -> None:
    """Send Ready. places: the number of plans, which the console counts as steps."""
    now = time.monotonic_ns()
    nccl, gpus = nccl_of(me.device), gpus_of(me.device)
    me.reporter.send(
        Ready(rank=me.rank, at_ns=now, steps=places, parameters=0, start_ns=me.start_ns, nccl=nccl, gpus=gpus)
    )


def send_done(me: Rank) -> None:
    """Send Done, without results of a training: there was none."""
    now = time.monotonic_ns()
    done = Done(
        rank=me.rank, at_ns=now, correct=0, evaluated=0, parameters={}, buffers={}, bottleneck_fired=0, bottleneck_ns=0
    )
    me.reporter.send(done)
