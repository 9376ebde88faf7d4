"""Attaches a tap to torch.distributed, and detaches it again. There are two ways, which record the same.

Process groups that take hooks (from torch 2.14 on) report every call, also those that torch DDP makes in C++. Elsewhere
the public functions are wrapped, and the one by which DDP's forward sends its buffers, however many there are; DDP gets
a communication hook. In both cases `Work.wait` is wrapped: there Python waits for what it has issued.

torch.compile traces all Python that it meets in a forward, hooks that C++ calls included. It would make our events a
part of its graphs. So where anything may be compiled, all that torch calls here is excluded from tracing. Elsewhere it
is not: that would take 1 µs a collective with torch 2.14, and 14 µs with 2.11.
"""

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from types import ModuleType
from typing import Any, Protocol
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from .records import Call

HOOK_ID = 0x0DD9  # any number that no other user of the hooks takes
# Functions that differ only in how tensors are passed are one kind: hooks of torch 2.14 cannot tell them apart.
KIND_OF_FUNCTION = {
    **{name: name for name in ("all_reduce", "reduce", "broadcast", "barrier", "scatter", "send", "recv")},
    "isend": "send",
    "irecv": "recv",
    **dict.fromkeys(("gather", "gather_into_tensor", "gather_single"), "gather"),
    **dict.fromkeys(("all_gather", "all_gather_into_tensor", "all_gather_single"), "all_gather"),
    **dict.fromkeys(("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single"), "reduce_scatter"),
    **dict.fromkeys(("all_to_all", "all_to_all_single"), "all_to_all"),
}
KIND_OF_HOOK = {  # where a hook's name is not the kind in capitals
    "ALLREDUCE": "all_reduce",
    **dict.fromkeys(("ALLGATHER", "ALLGATHER_BASE"), "all_gather"),
    "REDUCE_SCATTER_BASE": "reduce_scatter",
    **dict.fromkeys(("ALLTOALL", "ALLTOALL_BASE"), "all_to_all"),
}
# The names of the tensor that a rank passes (or, where it passes none, receives), and of the root or partner.
TENSOR_ARGUMENTS = ("input_tensor", "input_tensor_list", "input_list", "input", "tensor")
ROOT_ARGUMENTS = ("src", "dst")
RECEIVING = ("scatter", "recv")  # here the tensor that comes in counts

Undo = Callable[[], None]
Shield = Callable[[Callable[..., Any]], Callable[..., Any]]


class Recorder(Protocol):
    """What the hooks call: a `Tap`."""

    def before(self, kind: str, size: int, root: int | None, group: tuple[int, ...]) -> Call | None:
        """A collective is called. Returns its record, unless the rank is between two steps."""

    def issued(self, call: Call, work: dist.Work | None, *, background: bool) -> None:
        """The call has returned."""

    def waits(self, work: dist.Work) -> Call | None:
        """Python is about to wait for a work. Returns the call that has issued it, unless it is not recorded."""

    def waited(self, call: Call) -> None:
        """Python has waited for what this call has issued."""

    def settle(self) -> None:
        """torch DDP has waited for all that it had issued."""


def group_takes_hooks() -> bool:
    """Whether this torch's process groups take hooks."""
    return hasattr(dist.ProcessGroup, "register_pre_hook")


def attach(tap: Recorder, *, compiles: bool) -> list[Undo]:
    """Have torch call the tap for every collective. Returns the calls that undo it. compiles: torch.compile may come
    upon these calls."""
    shield: Shield = untraced if compiles else lambda function: function
    undo = [] if group_takes_hooks() else _wrap_functions(tap, shield)
    return [*undo, _wrap_wait(tap, shield), _wrap_forward_of_ddp(tap, shield)]


def attach_to_new_groups(tap: Recorder, known: set[str], *, compiles: bool) -> list[Undo]:
    """Have the process groups call an attached tap whose names are not among the known ones, and add these. Returns the
    calls that undo it."""
    names = dist.distributed_c10d._world.pg_names
    if len(names) <= len(known) or not group_takes_hooks():
        return []
    new = [group for group, name in names.items() if name not in known]
    known.update(names.values())
    shield: Shield = untraced if compiles else lambda function: function
    return [undo for group in new for undo in _hook(group, tap, shield)]


def mean_as_ddp(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Do what DDP does in C++ without a hook, but by the function that is wrapped, so that the tap sees it."""
    gradients = bucket.buffer()
    gradients.mul_(1 / group.size())  # as DDP does: a division would give other bits
    work = dist.all_reduce(gradients, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, excluded from what torch.compile traces."""
    disabled: Callable[..., Any] = torch.compiler.disable(function)
    return disabled


# Hooks of the process groups


def _hook(group: Any, tap: Recorder, shield: Shield) -> list[Undo]:
    names = torch._C._distributed_c10d.HookOpName.__members__
    kind_of = {member.value: KIND_OF_HOOK.get(name, name.lower()) for name, member in names.items()}
    ranks = _ranks(group)
    open_calls: dict[int, Call] = {}
    group.register_pre_hook(HOOK_ID, shield(partial(_before_hook, tap, kind_of, ranks, open_calls)))
    group.register_post_hook(HOOK_ID, shield(partial(_after_hook, tap, open_calls)))
    return [partial(group.unregister_pre_hook, HOOK_ID), partial(group.unregister_post_hook, HOOK_ID)]


def _before_hook(
    tap: Recorder, kind_of: dict[int, str], ranks: tuple[int, ...], open_calls: dict[int, Call], hook: Any
) -> None:
    kind, root = kind_of[hook.name.value], hook.root
    size = sum(tensor.nbytes for tensor in (hook.output_tensors if kind in RECEIVING else hook.input_tensors))
    call = tap.before(kind, size, None if root < 0 else root, ranks)
    if call is not None:
        open_calls[hook.op_id] = call


def _after_hook(tap: Recorder, open_calls: dict[int, Call], hook: Any) -> None:
    call = open_calls.pop(hook.op_id, None)
    if call is not None:
        tap.issued(call, hook.work, background=hook.async_op)


# Wrapped functions


def _wrap_functions(tap: Recorder, shield: Shield) -> list[Undo]:
    wrapped = {
        id(function): shield(_wrapped(tap, name, function))
        for name in KIND_OF_FUNCTION
        if (function := getattr(dist, name, None))  # an older torch lacks the newer names
    }
    undo: list[Undo] = []
    for module in [dist, *_modules_outside_torch()]:
        for name, function in list(vars(module).items()):
            if id(function) in wrapped:  # modules import them by name, too
                setattr(module, name, wrapped[id(function)])
                undo.append(partial(setattr, module, name, function))
    return [*undo, _wrap_broadcast_of_buffers(tap, shield)]


def _modules_outside_torch() -> list[ModuleType]:
    modules = list(sys.modules.items())
    return [module for name, module in modules if isinstance(module, ModuleType) and name.partition(".")[0] != "torch"]


def _wrapped(tap: Recorder, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    kind = KIND_OF_FUNCTION[name]
    parameters = tuple(inspect.signature(function).parameters)

    @wraps(function)
    def recorded(*arguments: Any, **options: Any) -> Any:
        passed = dict(zip(parameters, arguments, strict=False)) | options  # to bind the signature takes 5 µs
        group = passed.get("group")
        if group == dist.GroupMember.NON_GROUP_MEMBER:  # torch does nothing then, and so there is nothing to record
            return function(*arguments, **options)
        root = next((passed[argument] for argument in ROOT_ARGUMENTS if passed.get(argument) is not None), None)
        if root is None and kind in ("gather", "scatter"):
            root = 0  # their default
        call = tap.before(kind, _size(kind, passed), root, _ranks(group))
        result = function(*arguments, **options)
        if call is not None:
            in_background = name in ("isend", "irecv") or bool(passed.get("async_op"))
            tap.issued(call, result if in_background else None, background=in_background)
        return result

    return recorded


def _wrap_broadcast_of_buffers(tap: Recorder, shield: Shield) -> Undo:
    function: Any = dist._broadcast_coalesced

    @wraps(function)
    def recorded(group: dist.ProcessGroup, tensors: Any, size: int, root: int = 0) -> None:
        call = tap.before("broadcast", sum(tensor.nbytes for tensor in tensors), root, _ranks(group))
        function(group, tensors, size, root)
        if call is not None:
            tap.issued(call, None, background=False)

    dist._broadcast_coalesced = shield(recorded)
    return partial(setattr, dist, "_broadcast_coalesced", function)


def _ranks(group: Any) -> tuple[int, ...]:
    """The ranks of a group; none stand for all."""
    return () if group in (None, dist.group.WORLD) else tuple(dist.get_process_group_ranks(group))


def _size(kind: str, passed: dict[str, Any]) -> int:
    order = reversed(TENSOR_ARGUMENTS) if kind in RECEIVING or kind == "all_gather" else TENSOR_ARGUMENTS
    tensors = next((passed[argument] for argument in order if passed.get(argument) is not None), ())
    return sum(tensor.nbytes for tensor in ([tensors] if isinstance(tensors, Tensor) else tensors))


def _wrap_wait(tap: Recorder, shield: Shield) -> Undo:
    wait = dist.Work.wait

    @wraps(wait)
    def timed(work: dist.Work, *arguments: Any, **options: Any) -> Any:
        call = tap.waits(work)
        result = wait(work, *arguments, **options)
        if call is not None:
            tap.waited(call)
        return result

    setattr(dist.Work, "wait", shield(timed))  # noqa: B010  (mypy allows no assignment to a method)
    return partial(setattr, dist.Work, "wait", wait)


def _wrap_forward_of_ddp(tap: Recorder, shield: Shield) -> Undo:
    """torch DDP's forward broadcasts buffers first, and calls the model then. (A hook of the model would show
    this, too; but then it could not be pickled.)"""
    run = DistributedDataParallel._run_ddp_forward
    known: WeakSet[DistributedDataParallel] = WeakSet()

    def before_model(network: DistributedDataParallel) -> None:
        tap.settle()
        if not group_takes_hooks() and torch.is_grad_enabled() and network not in known:
            # Not sooner: a DDP takes one hook only, and refuses the user's own after ours. That one calls the wrapped
            # functions, too.
            known.add(network)
            with suppress(RuntimeError):
                network.register_comm_hook(network.process_group, mean_as_ddp)

    before = shield(before_model)

    @wraps(run)
    def told(network: DistributedDataParallel, *arguments: Any, **options: Any) -> Any:
        before(network)
        return run(network, *arguments, **options)

    setattr(DistributedDataParallel, "_run_ddp_forward", told)  # noqa: B010
    return partial(setattr, DistributedDataParallel, "_run_ddp_forward", run)
