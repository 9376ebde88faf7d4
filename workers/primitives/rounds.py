"""The rounds that the ranks make: each primitive once, to look at it; or each with every size, again and again."""

import math
import time
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from statistics import median

import torch

from ddptui.config.primitives import OPERATIONS
from ddptui.wire.messages import Buffer, Done, Position, Ready, Shown, Timed
from workers.instruments.clock import clock_of
from workers.primitives.numbers import Readable, Scrambled, wrong_elements
from workers.primitives.plans import Plan, bytes_of, plans_to_measure, plans_to_show, primitive_of
from workers.primitives.primitive import Argument, Primitive
from workers.primitives.timing import ROUNDS, Timer
from workers.rank.process import Rank

MOST_OF_A_REFUSAL = 300  # characters of what the backend says

Values = tuple[float | None, ...]


def show(me: Rank) -> None:
    """Call each primitive once, with numbers that can be read, and tell what every buffer held before and after."""
    plans = plans_to_show(me.trial)
    send_ready(me, len(plans))
    for place, plan in enumerate(plans):
        primitive = primitive_of(me, plan)
        primitive.fill(Readable(plan.elements * plan.tensors))
        before = [values(argument) for argument in primitive.arguments()]
        me.reporter.position = partial(position_in_call, place, plan.operation)
        error = refusal_of(primitive)
        shown = Shown(
            rank=me.rank,
            place=place,
            at_ns=time.monotonic_ns(),
            operation=plan.operation,
            reduce_op=plan.reduce_op,
            root=me.trial.root if OPERATIONS[plan.operation].rooted else None,
            call=primitive.spelled(),
            buffers=buffers(primitive, before) if error is None else (),
            error=error,
        )
        me.reporter.send(shown)
        log(me, shown.call, error or ", ".join(f"{each.name}: {each.before} → {each.after}" for each in shown.buffers))
    send_done(me)


def measure(me: Rank) -> None:
    """Each primitive with all its sizes: some calls to warm up, then the rounds of those that are timed, then for each
    size a call that is checked, element by element."""
    plans = plans_to_measure(me.trial)
    send_ready(me, len(plans))
    for _, same in groupby(enumerate(plans), key=lambda placed: placed[1]._replace(elements=0)):
        measure_sizes(me, [Measured(me, place, plan) for place, plan in same])
    send_done(me)


class Measured:
    """One primitive with one size, as this rank measures it. error: why the backend does not do it."""

    def __init__(self, me: Rank, place: int, plan: Plan) -> None:
        self.place, self.plan = place, plan
        self.primitive = primitive_of(me, plan)
        self.timer = Timer(self.primitive, clock_of(me.device))
        self.error = refusal_of(self.primitive)

    def in_a_call(self) -> Position:
        return position_in_call(self.place, self.plan.operation, self.timer.calls)

    def at_work(self) -> Position:
        """Checking what came out takes a while, and no wire."""
        return Position(step=self.place, calls=self.timer.calls)


def measure_sizes(me: Rank, sizes: Sequence[Measured]) -> None:
    """All sizes of one primitive: timed in rounds, then checked and told one by one."""
    sound = [size for size in sizes if size.error is None]
    for size in sound:
        me.reporter.position = size.in_a_call
        size.timer.warm_up(calls=me.trial.warmup_steps, most=me.trial.iterations, most_s=me.trial.cell_s)
    for size in sound * ROUNDS:
        me.reporter.position = size.in_a_call
        size.timer.round(after_barrier=me.trial.cadence == "barrier")
    for size in sizes:
        me.reporter.position = size.at_work
        told = timed_message(me, size)
        me.reporter.send(told)
        took = f"{median(told.calls_ns) / 1000:.1f} µs" if told.calls_ns else "no part in it"
        log(me, told.operation, told.error or f"{told.bytes} bytes  {took}  {told.wrong} wrong")


def timed_message(me: Rank, size: Measured) -> Timed:
    """What each call took on this rank (nothing, if it has no part in it), and what came out wrong."""
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
        wrong=count_wrong(primitive, seed=size.place) if size.error is None else 0,
        at_ns=time.monotonic_ns(),
        error=size.error,
    )


def count_wrong(primitive: Primitive, seed: int) -> int:
    """How many elements are wrong on this rank, after one call with numbers of the seed."""
    numbers = Scrambled(seed, primitive.reduce_op)
    primitive.fill(numbers)
    primitive.call()
    return sum(wrong_elements(found, wanted, primitive.ranks) for found, wanted in primitive.wanted(numbers))


def refusal_of(primitive: Primitive) -> str | None:
    """Make the first call. Why the backend does not, if it does not: it says so on all ranks."""
    try:
        primitive.call()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return " ".join(str(error).split())[:MOST_OF_A_REFUSAL] or type(error).__name__
    return None


def buffers(primitive: Primitive, before: Sequence[Values | None]) -> tuple[Buffer, ...]:
    return tuple(
        Buffer(argument.name, len(argument.tensors or ()), was, values(argument), argument.undefined)
        for argument, was in zip(primitive.arguments(), before, strict=True)
    )


def values(argument: Argument) -> Values | None:
    """What is in it now, one tensor after the other."""
    if argument.tensors is None:
        return None
    flat: list[float] = torch.cat(list(argument.tensors)).tolist()
    return tuple(value if math.isfinite(value) else None for value in flat)


def position_in_call(place: int, operation: str, calls: int = 1) -> Position:
    """In the last one of so many calls."""
    return Position(step=place, calls=calls, number=max(0, calls - 1), kind=operation)


def log(me: Rank, what: str, how: str) -> None:
    print(f"rank {me.rank}  {what}  {how}\n", end="", flush=True)  # in one piece: all ranks may write to one terminal


def send_ready(me: Rank, places: int) -> None:
    now = time.monotonic_ns()
    me.reporter.send(Ready(rank=me.rank, at_ns=now, steps=places, parameters=0, start_ns=me.start_ns))


def send_done(me: Rank) -> None:
    """Nothing was trained: there is nothing to be compared or evaluated."""
    now = time.monotonic_ns()
    nothing = Done(
        rank=me.rank, at_ns=now, correct=0, evaluated=0, parameters={}, buffers={}, bottleneck_fired=0, bottleneck_ns=0
    )
    me.reporter.send(nothing)
