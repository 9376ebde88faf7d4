"""Sees every collective from outside, so that the strategies stay plain: which one, when the rank entered it, when it
began to do nothing but wait for it, and when it was over.

Where torch's process groups take hooks (2.15's do), they see every call, those that torch DDP makes in C++ among them.
Elsewhere the public functions are wrapped, and DDP is given a communication hook; what DDP's forward sends then stays
unseen. In both cases `Work.wait` is wrapped: it is where Python waits for what it has issued.

Nothing here waits for anything. On a GPU the moments are events on the stream, read later, and this is relied upon:

    called, enter  on the stream of whoever calls, which NCCL makes its own wait for: it begins no sooner
    issued         a call that is not in the background runs on that very stream, or has made it wait: it is over there
    a wait         for NCCL makes the current stream wait, and not the host: what is recorded before it is when the
                   device has nothing else to do, and after it, when the operation is over
    told           NCCL's futures call back at once, on a stream that waits for the operation, and for nothing else;
                   gloo's and MPI's call back when the host has done the operation, from a thread of theirs, on the
                   default stream, behind all that is queued there: so there it is the host's moment that counts. What
                   gloo then copies to the device is not in it
    settled        torch DDP waits in the same way, on the stream on which backward was called

There the host runs ahead: where a rank is, the device says.

torch.compile traces whatever Python it comes across in a forward, hooks that C++ calls among it, and would make our
events a part of its graphs: all that torch calls of ours is kept from it.
"""

import inspect
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from ddptui.config.strategies import STRATEGIES, StrategyFacts
from ddptui.wire.messages import Position
from workers.instruments.calls import Call, carries, kinds
from workers.instruments.clock import Clock
from workers.instruments.position import position_of
from workers.instruments.progress import Laps
from workers.rank.delays import Sites
from workers.rank.process import Rank

HOOK_ID = 0x0DD9
FUNCTIONS = (
    "all_reduce", "reduce", "broadcast", "gather", "all_gather", "all_gather_into_tensor", "scatter", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier", "send", "recv", "isend", "irecv",
)  # fmt: skip
# What a function calls the tensor that a rank gives (or, where it gives none, gets), and its root or partner.
TENSOR_ARGUMENTS = ("input_tensor", "input_tensor_list", "input_list", "input", "tensor")
ROOT_ARGUMENTS = ("src", "dst")
RECEIVING = ("scatter", "recv")  # in which the tensor that counts is the one that comes in


def group_takes_hooks() -> bool:
    return hasattr(dist.ProcessGroup, "register_pre_hook")


def tap_of(me: Rank, network: nn.Module, clock: Clock) -> "Tap":
    """The tap of a rank. Without instruments there is none, but where a delay must go in before a collective."""
    needed = me.trial.instruments == "on" or any(bottleneck.at == "aggregate" for bottleneck in me.trial.bottleneck)
    return Tap(clock, me.delays, network, STRATEGIES[me.trial.strategy or "none"], attached=needed)


class Tap:
    """Records the collectives between `begin` and `end` of a step, and lets delays in before each of them."""

    def __init__(
        self, clock: Clock, delays: Sites, network: nn.Module, facts: StrategyFacts, *, attached: bool = True
    ) -> None:
        """facts: what to expect of the strategy.
        attached: to torch; else it sees nothing, and costs nothing."""
        self.now = clock.now
        by_the_device = dist.is_initialized() and dist.get_backend() == "nccl"
        self._now_told = clock.now if by_the_device else clock.at_once
        self._clock = clock
        self.buckets = facts.buckets  # whether calls carry them
        self._delays = delays
        self._facts = facts
        self._laps: Laps | None = None  # none: between two steps, where nothing is recorded
        self._calls: list[Call] = []
        self._behind: deque[tuple[Laps, list[Call]]] = deque()  # steps that the device has not made yet, oldest first
        self._works: dict[int, tuple[dist.Work, Call]] = {}  # kept, since torch would give its number to another one
        self._unsettled: list[Call] = []  # what torch DDP has issued and has not waited for
        self._carriers = 0  # what the step before sent in the background after its forward
        self._undo = _attach(self, network) if attached and dist.is_initialized() else []

    def close(self) -> None:
        while self._undo:  # forgetting each: they hold the group
            self._undo.pop()()

    def begin(self, laps: Laps) -> None:
        self._laps = laps

    def settle(self) -> None:
        """torch DDP has just returned: what it has issued in C++, it has waited for in C++."""
        if not self._unsettled:
            return
        first, over = self._unsettled[0], self.now()
        for call in self._unsettled:
            if call.thread == first.thread:  # others are issued by torch's threads, when the rank waits already
                awaited = call.issued
        for call in self._unsettled:
            call.awaited, call.over = awaited, over
        self._unsettled.clear()

    def end(self) -> list[Call]:
        """The step is over: what it has called, in order."""
        if self._laps is not None:
            self._behind.append((self._laps, self._calls))
        while self._behind and self._clock.reached(self._behind[0][0].moments[-1]):
            self._behind.popleft()
        calls, self._calls, self._laps = self._calls, [], None
        if self._facts.overlaps:
            self._carriers = sum(map(carries, calls))
        self._works.clear()
        return calls

    def position(self) -> Position:
        """Where the rank is, and not only its loop; asked in the reporter's thread, while that goes on."""
        laps, calls = self._laps, list(self._calls)
        behind = [step for step in list(self._behind) if not self._clock.reached(step[0].moments[-1])]
        if behind:
            laps, calls = behind[0]
        return Position() if laps is None else position_of(laps, calls, self._clock, asleep=self._delays.asleep)

    def before(self, kind: str, size: int, root: int | None, group: tuple[int, ...]) -> Call | None:
        """A collective has been called. Returns what is known of it when it has been entered."""
        if self._laps is None:
            return None
        called = enter = self.now()
        if self._delays.before_collective():
            enter = self.now()
        call = Call(kind, size, root, group, len(self._laps.phases), called, enter)
        self._calls.append(call)
        return call

    def issued(self, call: Call, work: dist.Work | None, *, background: bool) -> None:
        """The call has returned its work (none: it is over). Not in the background: it will be waited for at once."""
        call.issued = self.now()
        if background:
            call.background = True
            if self._facts.is_ddp:
                call.thread = threading.get_ident()
                self._unsettled.append(call)
        else:
            call.awaited = call.enter
        if work is None:
            call.over = call.issued
            return
        self._works[id(work)] = (work, call)
        if background and self._is_overtaken():
            work.get_future().add_done_callback(lambda _: self._told(call))

    def _is_overtaken(self) -> bool:
        """Whether more will be sent in the background after this, as in the step before. Only then must torch be asked
        when it is over: of the last one we know it, since somebody waits for it. (gloo's answer comes in a thread of
        torch's that must wait for Python's lock: that costs more than all the rest of the tap.)"""
        return self._facts.overlaps and sum(map(carries, self._calls)) < self._carriers

    def _told(self, call: Call) -> None:
        call.told = self._now_told()

    def waited(self, work: dist.Work, begin: Any) -> None:
        """Python has waited for a work, from `begin` until now."""
        _, call = self._works.get(id(work), (None, None))
        if call is not None and call.over is None:
            call.awaited = call.awaited or begin
            call.over = self.now()


def _attach(tap: Tap, network: nn.Module) -> list[Callable[[], None]]:
    """Returns what undoes it, step by step."""
    undo = _hook_the_groups(tap) if group_takes_hooks() else _wrap_the_functions(tap, network)
    undo.append(_wrap_wait(tap))
    if isinstance(network, DistributedDataParallel):  # whose forward sends first, and then calls the model
        undo.append(network.module.register_forward_pre_hook(untraced(lambda *_: tap.settle())).remove)
    return undo


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    disabled: Callable[..., Any] = torch.compiler.disable(function)
    return disabled


def _hook_the_groups(tap: Tap) -> list[Callable[[], None]]:
    undo: list[Callable[[], None]] = []
    kind_of = kinds()
    world: Any = dist.group.WORLD
    for group in dist.distributed_c10d._world.pg_map:
        ranks = () if group is world else tuple(dist.get_process_group_ranks(group))
        open_calls: dict[int, Call] = {}
        hooked: Any = group
        hooked.register_pre_hook(HOOK_ID, untraced(partial(_before_hook, tap, kind_of, ranks, open_calls)))
        hooked.register_post_hook(HOOK_ID, untraced(partial(_after_hook, tap, open_calls)))
        undo += [partial(hooked.unregister_pre_hook, HOOK_ID), partial(hooked.unregister_post_hook, HOOK_ID)]
    return undo


def _before_hook(
    tap: Tap, kind_of: dict[int, str], ranks: tuple[int, ...], open_calls: dict[int, Call], hook: Any
) -> None:
    kind, root, size = kind_of[hook.name.value], hook.root, 0
    for tensor in hook.output_tensors if kind in RECEIVING else hook.input_tensors:
        size += tensor.nbytes
    call = tap.before(kind, size, None if root < 0 else root, ranks)
    if call is not None:
        open_calls[hook.op_id] = call


def _after_hook(tap: Tap, open_calls: dict[int, Call], hook: Any) -> None:
    call = open_calls.pop(hook.op_id, None)
    if call is not None:
        tap.issued(call, hook.work, background=hook.async_op)


def _wrap_the_functions(tap: Tap, network: nn.Module) -> list[Callable[[], None]]:
    undo: list[Callable[[], None]] = []
    for name in FUNCTIONS:
        function = getattr(dist, name)
        setattr(dist, name, _wrapped(tap, name, function))
        undo.append(partial(setattr, dist, name, function))
    if isinstance(network, DistributedDataParallel):
        # DDP's own all_reduce is made in C++, unseen; this hook does the same through the function just wrapped. A DDP
        # that has a hook already takes no second one, and calls the wrapped function from its own.
        with suppress(RuntimeError):
            network.register_comm_hook(None, default_hooks.allreduce_hook)
    return undo


def _wrapped(tap: Tap, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    kind = name.removeprefix("i")
    signature = inspect.signature(function)

    @wraps(function)
    def announced(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options).arguments
        group = given.get("group")
        if group == dist.GroupMember.NON_GROUP_MEMBER:
            return function(*arguments, **options)
        ranks = () if group in (None, dist.group.WORLD) else tuple(dist.get_process_group_ranks(group))
        root = next((given[argument] for argument in ROOT_ARGUMENTS if given.get(argument) is not None), None)
        call = tap.before(kind, _size(kind, given), _root_of(kind, root), ranks)
        result = function(*arguments, **options)
        if call is not None:
            in_background = name in ("isend", "irecv") or bool(given.get("async_op"))
            tap.issued(call, result if in_background else None, background=in_background)
        return result

    return untraced(announced)


def _root_of(kind: str, root: int | None) -> int | None:
    return 0 if root is None and kind in ("gather", "scatter") else root  # which is their default


def _size(kind: str, given: dict[str, Any]) -> int:
    order = reversed(TENSOR_ARGUMENTS) if kind in RECEIVING or kind == "all_gather" else TENSOR_ARGUMENTS
    tensors = next((given[argument] for argument in order if given.get(argument) is not None), ())
    return sum(tensor.nbytes for tensor in ([tensors] if isinstance(tensors, Tensor) else tensors))


def _wrap_wait(tap: Tap) -> Callable[[], None]:
    wait = dist.Work.wait

    @wraps(wait)
    def watched(work: dist.Work, *arguments: Any, **options: Any) -> Any:
        begin = tap.now()
        result = wait(work, *arguments, **options)
        tap.waited(work, begin)
        return result

    setattr(dist.Work, "wait", untraced(watched))  # noqa: B010
    return partial(setattr, dist.Work, "wait", wait)
