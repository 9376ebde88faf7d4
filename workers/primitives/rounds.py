"""Runs the primitives: plans the calls, each once to show its effect, or with every size in several timed rounds.

DDP's buckets run pipelined, several calls in flight, and PARAM (github.com/facebookresearch/param) times collectives
like this by default.

Over gloo, `Work.wait` blocks the host. Over NCCL, it makes the current stream wait. The clock's next event follows on
that stream, so it is reached when all calls have ended.

Each rank computes the plans itself, and all get the same.

There are three cadences. Back to back, as in nccl-tests, a call starts when the previous one has ended on this rank,
whatever the others do: the total time divided by the number of calls is the cost of a call in a sequence. With
barriers, each call follows an untimed barrier, so that all ranks start together, except that some leave the barrier
later. Pipelined, a timed call is several calls in flight, back to back with the next several.
"""

import math
import time
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ddptui.config.catalog import OPERATIONS, REDUCE_OPS, ReduceOpName, message_sizes, operations_tried
from ddptui.config.trial import Trial
from ddptui.wire.messages import Buffer, Done, Position, Ready, Shown, Timed
from workers.aggregate import strategy_class
from workers.instruments.clock import Clock
from workers.instruments.cuda_clock import clock_of
from workers.instruments.output import print_line
from workers.primitives import PRIMITIVES
from workers.primitives.operations import Composite
from workers.primitives.primitive import Argument, Primitive, Readable, Scrambled, Setting, wait, wrong_elements
from workers.rank.device import gpus_of, nccl_of
from workers.rank.process import Rank

MOST_IN_FLIGHT = 8
MOST_BYTES = 64 * 2**20  # total size of the messages in flight, since each call needs its own buffers


def calls_in_flight(bytes: int, iterations: int) -> int:
    """The number of calls of this size in flight at once: 8, or fewer (but at least 2) if they are large; at most
    `iterations`, the number of calls in a round."""
    return min(MOST_IN_FLIGHT, iterations, max(2, MOST_BYTES // max(1, bytes)))


class Pipelined(Primitive):
    """Several calls of one primitive in flight at once, each with its own buffers."""

    def __init__(self, setting: Setting, kind: type[Primitive], number: int) -> None:
        super().__init__(setting)
        self.calls = [kind(setting) for _ in range(number)]
        self.transfers = number

    def call(self) -> None:
        for works in [call.begin() for call in self.calls]:
            wait(works)

    def in_flight(self) -> Sequence[Primitive]:
        return self.calls


SHOWN_ELEMENTS = 4  # elements of a tensor, or about that many in all parts: all ranks' must fit on a screen
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Plan(NamedTuple):
    """One primitive with one size."""

    operation: str
    composite: bool
    reduce_op: ReduceOpName | None
    elements: int  # elements of each tensor that a rank passes
    tensors: int  # how many of these tensors make up the size that nccl-tests would report


def plans_to_show(trial: Trial) -> list[Plan]:
    """The plans for showing: each operation once; reductions once with each operator."""
    plans = []
    part = 2 if trial.world_size <= SHOWN_ELEMENTS else 1
    for name in operations_tried(trial.operations, shown=True):
        elements, tensors = (part, trial.world_size) if OPERATIONS[name].in_parts else (SHOWN_ELEMENTS, 1)
        plans += [Plan(name, False, op, elements, tensors) for op in operators(name, trial.reduce_ops or REDUCE_OPS)]
    return plans


def plans_to_measure(trial: Trial) -> list[Plan]:
    """The plans for measuring: each operation and composite with each size; reductions with each of the trial's
    operators (by default, sum)."""
    sizes = message_sizes(trial.min_bytes, trial.max_bytes, trial.step_factor)
    plans = []
    for name in operations_tried(trial.operations, shown=False, pipelined=trial.cadence == "pipelined"):
        tensors = trial.world_size if OPERATIONS[name].in_parts else 1
        for op in operators(name, trial.reduce_ops or ("sum",)):
            for size in sizes if OPERATIONS[name].has_bytes else (0,):
                elements = max(1, size // element_bytes(trial) // tensors) if size else 0
                plans.append(Plan(name, False, op, elements, tensors))
    for name in trial.composites:
        plans += [Plan(name, True, None, max(1, size // element_bytes(trial)), 1) for size in sizes]
    return plans


def operators(operation: str, wanted: Sequence[ReduceOpName]) -> Sequence[ReduceOpName | None]:
    """The operators with which to call an operation; a single None if it does not reduce."""
    return wanted if OPERATIONS[operation].reduces else (None,)


def make_primitive(me: Rank, plan: Plan) -> Primitive:
    """The plan's primitive, with its buffers on this rank."""
    op: ReduceOpName = plan.reduce_op or "sum"
    dtype = DTYPES[me.trial.dtype]
    setting = Setting(me.rank, me.world_size, me.trial.root, plan.elements, dtype, me.device, op)
    if plan.composite:
        return Composite(setting, strategy_class(plan.operation)(me.trial))
    kind = PRIMITIVES[plan.operation]
    if me.trial.cadence == "pipelined" and me.trial.primitives == "measure":
        return Pipelined(setting, kind, calls_in_flight(bytes_of(plan, me.trial), me.trial.iterations))
    return kind(setting)


def bytes_of(plan: Plan, trial: Trial) -> int:
    """The plan's message size in bytes, as nccl-tests counts it."""
    return plan.elements * plan.tensors * element_bytes(trial)


def element_bytes(trial: Trial) -> int:
    """The size of one element in bytes."""
    return DTYPES[trial.dtype].itemsize


# Each size is timed in several rounds, with the other sizes in between. On a busy host, all calls within some
# hundredths of a second are fast or slow, depending on how the scheduler has placed the ranks. So each size gets a
# share of both.
ROUNDS = 5  # each round costs an untimed call
DEVICE_POLL_S = 0.001


class Timer:
    """Times one primitive with one size, on this rank."""

    def __init__(self, primitive: Primitive, clock: Clock) -> None:
        self._primitive = primitive
        self._clock = clock
        self._calls_per_round = 1  # until the ranks have agreed on more
        self.calls = 0  # calls begun so far, including the warm-up
        self.lengths_ns: list[int] = []  # the length of each timed call

    def warm_up(self, *, calls: int, most: int, most_s: float) -> None:
        """Make `calls` untimed calls (at least one). The ranks then agree on the number of calls per round: at least
        one, at most `most`, and so few that all rounds together take at most `most_s` seconds."""
        estimate_ns = min(self._back_to_back()[0] for _ in range(max(1, calls)))
        affordable = max(1, min(most, int(most_s / ROUNDS / max(estimate_ns / 1e9, 1e-6))))
        agreed = torch.tensor([affordable], device=self._primitive.device)
        dist.broadcast(agreed, src=0)  # rank 0 decides: all ranks must call equally often
        self._calls_per_round = int(agreed.item())

    def round(self, *, after_barrier: bool) -> None:
        """Time the calls of one round."""
        self._call()  # untimed, since another size was called before
        dist.barrier()
        self.lengths_ns += self._after_barriers() if after_barrier else self._back_to_back()

    def _back_to_back(self) -> list[int]:
        now, call = self._clock.now, self._primitive.timed_call  # looked up once, since small calls take microseconds
        moments = [now()]
        for _ in range(self._calls_per_round):
            self.calls += 1
            call()
            moments.append(now())
        return self._lengths(moments)

    def _after_barriers(self) -> list[int]:
        moments = []
        for _ in range(self._calls_per_round):
            dist.barrier()
            moments.append(self._clock.now())
            self._call()
            moments.append(self._clock.now())
        return self._lengths(moments)[::2]

    def _call(self) -> None:
        self.calls += 1
        self._primitive.timed_call()

    def _lengths(self, moments: list[Any]) -> list[int]:
        """Wait until the device has reached the moments. Returns the time from each to the next, in ns."""
        while (lengths_ns := self._clock.lengths(moments)) is None:
            time.sleep(DEVICE_POLL_S)
        return lengths_ns


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
        Buffer(argument.name, len(argument.tensors or ()), values_before, values(argument), argument.after is None)
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
