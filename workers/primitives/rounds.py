"""The rounds that the ranks make: each primitive once, to look at it; or each with every size, again and again."""

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch

from ddptui.preset import Trial
from ddptui.primitives.fields import chosen, sizes
from ddptui.primitives.operations import OPERATIONS, REDUCE_OPS, ReduceOpName
from ddptui.wire import Buffer, Done, Position, Ready, Shown, Timed
from workers.aggregate import STRATEGIES
from workers.clock import clock_of
from workers.primitives import PRIMITIVES
from workers.primitives.composite import Composite
from workers.primitives.numbers import Readable, Scrambled, wrong
from workers.primitives.primitive import Argument, Primitive, Setting
from workers.primitives.timing import Timer
from workers.rank import Rank

TO_BE_SEEN = 4  # elements of a tensor, and so many or a few more of all parts together: they must fit on a screen
MOST_OF_A_REFUSAL = 300  # characters of what the backend says
DTYPES = {"float32": torch.float32, "float64": torch.float64}


Values = tuple[float | None, ...]


class Plan(NamedTuple):
    """What is called in one place. elements: of each tensor that a rank passes; tensors: how many of them, all told,
    make up the size that nccl-tests would name."""

    operation: str
    composite: bool
    reduce_op: ReduceOpName | None
    elements: int
    tensors: int


def see(me: Rank) -> None:
    """Call each primitive once, with numbers that can be read, and tell what every buffer held before and after."""
    plans = plans_to_see(me.trial)
    say_ready(me, len(plans))
    for place, plan in enumerate(plans):
        primitive = PRIMITIVES[plan.operation](setting_of(me, plan))
        primitive.fill(Readable(plan.elements * plan.tensors))
        before = [values(argument) for argument in primitive.arguments()]
        me.reporter.position = partial(position, place, plan.operation)
        error = refusal(primitive)
        me.reporter.say(
            Shown(
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
        )
    say_done(me)


def measure(me: Rank) -> None:
    """Call each primitive with each size: some calls to warm up, then those that are timed, then one that is checked,
    element by element."""
    plans = plans_to_measure(me.trial)
    say_ready(me, len(plans))
    for place, plan in enumerate(plans):
        primitive = primitive_of(me, plan)
        error = refusal(primitive)
        me.reporter.say(
            Timed(
                rank=me.rank,
                place=place,
                at_ns=time.monotonic_ns(),
                operation=plan.operation,
                composite=plan.composite,
                reduce_op=plan.reduce_op,
                cadence=me.trial.cadence,
                bytes=plan.elements * plan.tensors * size_of(me.trial),
                calls_ns=timed(me, place, plan, primitive) if error is None else (),
                wrong=checked(primitive, seed=place) if error is None else 0,
                error=error,
            )
        )
    say_done(me)


def timed(me: Rank, place: int, plan: Plan, primitive: Primitive) -> tuple[int, ...]:
    """What each call took on this rank, in ns; empty if it has no part in it."""
    trial, timer = me.trial, Timer(primitive, clock_of(me.device))
    me.reporter.position = lambda: position(place, plan.operation, timer.calls)
    lengths = timer.lengths_ns(
        warmup=trial.warmup_steps,
        most=trial.iterations,
        most_s=trial.cell_s,
        after_barrier=trial.cadence == "barrier",
    )
    me.reporter.position = lambda: Position(step=place, calls=timer.calls)  # what follows takes a while, and no wire
    return tuple(length // primitive.transfers for length in lengths) if primitive.takes_part else ()


def checked(primitive: Primitive, seed: int) -> int:
    """How many elements are wrong on this rank, after one call with numbers of the seed."""
    numbers = Scrambled(seed, primitive.reduce_op)
    primitive.fill(numbers)
    primitive.call()
    return sum(wrong(found, wanted, primitive.ranks) for found, wanted in primitive.wanted(numbers))


def refusal(primitive: Primitive) -> str | None:
    """Make the first call. Why the backend does not, if it does not: it says so on all ranks."""
    try:
        primitive.call()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return " ".join(str(error).split())[:MOST_OF_A_REFUSAL] or type(error).__name__
    return None


def plans_to_see(trial: Trial) -> list[Plan]:
    """Each operation, those that reduce by each operator."""
    plans = []
    part = 2 if trial.world_size <= TO_BE_SEEN else 1
    for name in chosen(trial.operations, shown=True):
        elements, tensors = (part, trial.world_size) if OPERATIONS[name].in_parts else (TO_BE_SEEN, 1)
        plans += [Plan(name, False, op, elements, tensors) for op in operators(name, trial.reduce_ops or REDUCE_OPS)]
    return plans


def plans_to_measure(trial: Trial) -> list[Plan]:
    """Each operation and composite, with each size. The first operator that is named; none: sum."""
    wanted = sizes(trial.min_bytes, trial.max_bytes, trial.step_factor)
    plans = []
    for name in chosen(trial.operations, shown=False):
        tensors = trial.world_size if OPERATIONS[name].in_parts else 1
        for size in wanted if OPERATIONS[name].has_bytes else (0,):
            elements = max(1, size // size_of(trial) // tensors) if size else 0
            plans += [Plan(name, False, op, elements, tensors) for op in operators(name, trial.reduce_ops or ("sum",))]
    plans += [Plan(name, True, None, max(1, size // size_of(trial)), 1) for name in trial.composites for size in wanted]
    return plans


def operators(operation: str, wanted: Sequence[ReduceOpName]) -> Sequence[ReduceOpName | None]:
    return wanted if OPERATIONS[operation].reduces else (None,)


def primitive_of(me: Rank, plan: Plan) -> Primitive:
    setting = setting_of(me, plan)
    if plan.composite:
        return Composite(setting, STRATEGIES[plan.operation](me.trial))
    return PRIMITIVES[plan.operation](setting)


def setting_of(me: Rank, plan: Plan) -> Setting:
    dtype = DTYPES[me.trial.dtype]
    op: ReduceOpName = plan.reduce_op or "sum"
    return Setting(me.rank, me.world_size, me.trial.root, plan.elements, dtype, me.device, op)


def size_of(trial: Trial) -> int:
    """Bytes of an element."""
    return DTYPES[trial.dtype].itemsize


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


def position(place: int, operation: str, calls: int = 1) -> Position:
    """In the last one of so many calls."""
    return Position(step=place, calls=calls, number=max(0, calls - 1), kind=operation)


def say_ready(me: Rank, places: int) -> None:
    now = time.monotonic_ns()
    me.reporter.say(Ready(rank=me.rank, at_ns=now, steps=places, parameters=0, start_ns=me.start_ns))


def say_done(me: Rank) -> None:
    """Nothing was trained: there is nothing to be compared or evaluated."""
    now = time.monotonic_ns()
    me.reporter.say(
        Done(
            rank=me.rank, at_ns=now, correct=0, evaluated=0, parameters={}, buffers={}, bottleneck_fired=0,
            bottleneck_ns=0,
        )
    )  # fmt: skip
