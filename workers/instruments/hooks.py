"""Attaches a tap to torch.distributed, and detaches it again. There are two ways, which record the same.

From torch 2.14 on, process groups take hooks, which report every call, including those that torch DDP makes in C++. In
older versions, we wrap the methods by which Python calls a process group, and the method by which DDP's forward sends
its buffers (as one collective, however many buffers there are); DDP gets a communication hook (buckets.py). In both
cases we wrap `Work.wait`, by which Python waits for asynchronous operations. We replace no function of
torch.distributed, since torch compares some by identity.

Every function of ddptui that torch calls is shielded: an error in the tap stops the tap, but never reaches training.

torch.compile traces all Python code that it meets in a forward, even hooks that C++ calls, and would make our events
part of its graphs. So if anything may be compiled, all functions of ddptui that torch calls are excluded from tracing.
Otherwise they are not, since that takes 1 µs per collective with torch 2.14, and 14 µs with 2.11.
"""

import atexit
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from .buckets import show_buckets
from .gpu import carrier_between_gpus, carrier_of
from .records import POINT_TO_POINT, Call
from .shield import shielded

HOOK_ID = 0x0DD9  # an arbitrary number that no other user of the hooks takes; we also use the next one
# By kind of collective. Methods that differ only in how tensors are passed are one kind: hooks cannot distinguish them.
METHODS = {
    **{kind: (kind,) for kind in ("reduce", "broadcast", "barrier", "scatter", "send")},
    "recv": ("recv", "recv_anysource"),
    "all_reduce": ("allreduce", "allreduce_coalesced"),
    "gather": ("gather", "gather_single", "gather_into_tensor"),
    "all_gather": (
        *("allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced"),
        *("all_gather_single", "all_gather_single_coalesced"),  # names from torch 2.13 on; likewise below
    ),
    "reduce_scatter": (
        *("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced"),
        *("reduce_scatter_single", "reduce_scatter_single_coalesced"),
    ),
    "all_to_all": ("alltoall", "alltoall_base", "all_to_all_single"),
}
OUTPUT_FIRST = ("gather", "all_gather", "reduce_scatter", "all_to_all")  # then comes what the rank contributes
KIND_OF_HOOK = {  # if a hook's name is not the kind in capitals
    "ALLREDUCE": "all_reduce",
    **dict.fromkeys(("ALLGATHER", "ALLGATHER_BASE"), "all_gather"),
    "REDUCE_SCATTER_BASE": "reduce_scatter",
    **dict.fromkeys(("ALLTOALL", "ALLTOALL_BASE"), "all_to_all"),
}
ROOTED = ("reduce", "broadcast", "gather", "scatter")
RECEIVING = ("scatter", "recv")  # their size is that of the received tensor
MOST_OPEN = 100  # calls in progress per group; there are more only if calls have failed in torch

Undo = Callable[[], None]
Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


class Recorder(Protocol):
    """The interface that the hooks call: that of a `Tap`."""

    device: torch.device | None  # the device of its clock; None for the host's clock

    def before(self, kind: str, size: int, root: int | None, group: tuple[int, ...], by: str = "") -> Call | None:
        """A collective is called. by: gpu.carrier_of, if there is a device. Returns the record of the call, or None
        between two steps."""

    def issued(self, call: Call, work: dist.Work | None, *, background: bool) -> None:
        """The call has returned."""

    def issued_together(self, work: dist.Work) -> None:
        """The group of sends and receives that was just called shares this work."""

    def waits(self, work: dist.Work) -> Call | None:
        """Python is about to wait for a work. Returns the call that has issued it, or None if it is not recorded."""

    def waited(self, call: Call) -> None:
        """Python has waited for the work that this call has issued."""

    def begins_to_wait(self, stream: Any) -> Any:
        """A stream of the device is about to wait for an event. Returns the moment if it is of interest, else None."""

    def has_waited(self, begin: Any) -> None:
        """The stream's wait, which began at that moment, has been issued."""

    def settle(self) -> None:
        """torch DDP has waited for all operations that it had issued."""

    def fail(self, error: Exception) -> None:
        """One of the above methods has raised this error."""


def group_takes_hooks() -> bool:
    """Whether this torch's process groups take hooks."""
    return hasattr(dist.ProcessGroup, "register_pre_hook")


def attach(tap: Recorder, *, compiles: bool) -> list[Undo]:
    """Have torch call the tap for every collective. Returns functions that undo this. compiles: torch.compile may trace
    these calls."""
    keep: Wrapper = untraced if compiles else as_it_is
    undo = [] if group_takes_hooks() else _wrap_groups(tap, keep)
    undo += [] if tap.device is None else _wrap_streams(tap, keep)
    return [*undo, _wrap_wait(tap, keep), _wrap_forward_of_ddp(tap, keep)]


def attach_to_new_groups(tap: Recorder, known: set[str], *, compiles: bool) -> list[Undo]:
    """Have new process groups call an attached tap. known: the names of the groups that already do; new names are
    added. Returns functions that undo this."""
    names = dist.distributed_c10d._world.pg_names
    if known.issuperset(names.values()) or not group_takes_hooks():
        return []
    new = [group for group, name in names.items() if name not in known]
    known.update(names.values())
    hooks = [_hooks_of(group, compiles=compiles) for group in new]
    for each in hooks:
        each.tap = tap
    return [each.detach for each in hooks]


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, excluded from tracing by torch.compile."""
    disabled: Callable[..., Any] = torch.compiler.disable(function)
    return disabled


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, unchanged."""
    return function


# Hooks of the process groups


class GroupHooks:
    """The hooks of one process group. They stay until the process ends, perhaps without a tap: removing a hook during a
    call, which may be in another thread, would crash the process."""

    def __init__(self, group: Any) -> None:
        self.tap: Recorder | None = None
        names = torch._C._distributed_c10d.HookOpName.__members__
        self._kind_of = {member.value: KIND_OF_HOOK.get(name, name.lower()) for name, member in names.items()}
        self._ranks = _ranks(group)
        self._between_gpus = carrier_between_gpus(group)
        self._open: dict[int, Call] = {}

    def before(self, hook: Any) -> None:
        """Record that a call begins."""
        if (tap := self.tap) is None:
            return
        kind = self._kind_of[hook.name.value]
        tensors = hook.output_tensors if kind in RECEIVING else hook.input_tensors
        root = _global_rank(hook.root, self._ranks)
        by = "" if tap.device is None else carrier_of(_first(tensors), self._between_gpus)
        call = tap.before(kind, _size(tensors), root, self._ranks, by)
        if call is not None:
            self._open[hook.op_id] = call
            if len(self._open) > MOST_OPEN:
                del self._open[next(iter(self._open))]

    def after(self, hook: Any) -> None:
        """Record that the call has returned."""
        call = self._open.pop(hook.op_id, None)
        if call is not None and self.tap is not None:
            self.tap.issued(call, hook.work, background=hook.async_op)

    def fail(self, error: Exception) -> None:
        """Pass an error that `before` or `after` has raised to the tap."""
        if self.tap is not None:
            self.tap.fail(error)

    def detach(self) -> None:
        """Record no more calls."""
        self.tap = None
        self._open.clear()


_hooked: WeakKeyDictionary[Any, dict[bool, GroupHooks]] = WeakKeyDictionary()


def _hooks_of(group: Any, *, compiles: bool) -> GroupHooks:
    if not _hooked:
        atexit.register(_unhook_all)  # a process group may outlive the Python interpreter
    hooks = _hooked.setdefault(group, {})
    if compiles not in hooks:
        new = hooks[compiles] = GroupHooks(group)
        keep: Wrapper = untraced if compiles else as_it_is
        group.register_pre_hook(HOOK_ID + compiles, keep(shielded(new.before, new.fail)))
        group.register_post_hook(HOOK_ID + compiles, keep(shielded(new.after, new.fail)))
    return hooks[compiles]


def _unhook_all() -> None:
    while _hooked:
        group, hooks = _hooked.popitem()
        for compiles in hooks:
            group.unregister_pre_hook(HOOK_ID + compiles)
            group.unregister_post_hook(HOOK_ID + compiles)


# Wrapped methods


def _wrap(owner: type, name: str, begin: Callable[..., Any], end: Callable[..., Any], keep: Wrapper) -> Undo:
    """Wrap a method. `begin` receives its arguments first. Unless `begin` returns None, `end` afterwards receives the
    results of `begin` and of the method. Neither may raise."""
    method: Any = vars(owner)[name]

    @wraps(method)
    def call_and_record(self: Any, *arguments: Any, **options: Any) -> Any:
        begun = begin(self, *arguments, **options)
        result = method(self, *arguments, **options)
        if begun is not None:
            end(begun, result)
        return result

    # C++ compares name and first argument: if they differed, it would call this as an override of its own method.
    wrapped: Any = call_and_record
    wrapped.__code__ = wrapped.__code__.replace(co_name=name)
    setattr(owner, name, keep(wrapped))
    return partial(setattr, owner, name, method)


def _wrap_groups(tap: Recorder, keep: Wrapper) -> list[Undo]:
    def issued(begun: tuple[Call, bool], work: dist.Work | None) -> None:
        call, background = begun
        tap.issued(call, work, background=background)

    def sent(call: Call, _: object) -> None:
        tap.issued(call, None, background=False)

    def buffers(network: DistributedDataParallel, tensors: Any, _: int, root: int = 0) -> Call | None:
        group = network.process_group
        return tap.before("broadcast", _size(tensors), root, _ranks(group), _carrier(tap, group, tensors))

    shield = partial(shielded, fail=tap.fail)
    return [
        *(
            _wrap(dist.ProcessGroup, name, shield(partial(_before_method, tap, kind)), shield(issued), keep)
            for kind, names in METHODS.items()
            for name in names
            if name in vars(dist.ProcessGroup)
        ),
        _wrap(DistributedDataParallel, "_distributed_broadcast_coalesced", shield(buffers), shield(sent), keep),
    ]


def _before_method(tap: Recorder, kind: str, group: Any, *arguments: Any, **options: Any) -> tuple[Call, bool] | None:
    """Record a call of a method. Returns its record, and whether it runs in the background; None between two steps."""
    passed = (*arguments, *options.values())
    settings = passed[-1] if passed else None
    root = -1
    if kind in POINT_TO_POINT:
        root = passed[1] if len(passed) == 3 else -1  # receiving from any rank takes only tensors and a tag
    elif kind in ROOTED:
        root = settings if isinstance(settings, int) else getattr(settings, "rootRank", 0)
    ranks = _ranks(group)
    tensors = passed[1:2] if kind in OUTPUT_FIRST else passed[:1]
    call = tap.before(kind, _size(tensors), _global_rank(root, ranks), ranks, _carrier(tap, group, tensors))
    return None if call is None else (call, bool(getattr(settings, "asyncOp", True)))


def _ranks(group: Any) -> tuple[int, ...]:
    """The ranks of a group; empty for the group of all ranks."""
    return () if group is dist.group.WORLD else tuple(dist.distributed_c10d._world.pg_group_ranks.get(group, ()))


def _global_rank(rank: int, ranks: tuple[int, ...]) -> int | None:
    """The global number of a rank, or None if `rank` is negative. rank: its number in the group `ranks`."""
    if rank < 0:
        return None
    return ranks[rank] if ranks else rank


def _carrier(tap: Recorder, group: Any, tensors: Any) -> str:
    """What carries a collective with these tensors; empty if the clock is the host's."""
    return "" if tap.device is None else carrier_of(_first(tensors), carrier_between_gpus(group))


def _first(tensors: Any) -> Tensor | None:
    """The first tensor in nested lists; None if there is none."""
    if isinstance(tensors, Tensor):
        return tensors
    within = tensors if isinstance(tensors, list | tuple) else ()
    return next((first for each in within if (first := _first(each)) is not None), None)


def _size(tensors: Any) -> int:
    """The total size in bytes of tensors in nested lists; for sparse tensors, the stored bytes."""
    with torch._C.DisableTorchFunction():  # hides this access from the training's tensor subclasses and modes
        return _sum_bytes(tensors)


def _sum_bytes(tensors: Any) -> int:
    if not isinstance(tensors, Tensor):
        return sum(map(_sum_bytes, tensors)) if isinstance(tensors, list | tuple) else 0
    if not tensors.is_sparse:
        return tensors.nbytes
    with torch._C._DisableTorchDispatch():
        return tensors._indices().nbytes + tensors._values().nbytes


def _wrap_wait(tap: Recorder, keep: Wrapper) -> Undo:
    def before(work: dist.Work, *_: Any, **_options: Any) -> Call | None:
        return tap.waits(work)

    def after(call: Call, _: object) -> None:
        tap.waited(call)

    return _wrap(dist.Work, "wait", shielded(before, tap.fail), shielded(after, tap.fail), keep)


def _wrap_streams(tap: Recorder, keep: Wrapper) -> list[Undo]:
    """Wrap the methods of torch.cuda by which a stream or the host waits for a stream (those of the generic
    torch.Stream are in C++, and cannot be wrapped), and the end of a group of sends and receives, which share a
    work."""

    def before(_: Any, stream: Any = None) -> Any:
        return tap.begins_to_wait(stream)

    def after(begin: Any, _: object) -> None:
        tap.has_waited(begin)

    def begins(*_: Any, **_options: Any) -> bool:
        return True

    def together(_: bool, work: dist.Work | None) -> None:
        if work is not None:
            tap.issued_together(work)

    shield = partial(shielded, fail=tap.fail)
    cuda = torch.cuda
    waits = (cuda.Event, "wait"), (cuda.Event, "synchronize"), (cuda.Stream, "synchronize")
    wrapped = (
        *((owner, name, shield(before), shield(after)) for owner, name in waits),
        (dist.ProcessGroup, "_end_coalescing", begins, shield(together)),
    )
    return [_wrap(*each, keep) for each in wrapped if each[1] in vars(each[0])]


def _wrap_forward_of_ddp(tap: Recorder, keep: Wrapper) -> Undo:
    """Wrap the method by which torch DDP's forward calls the model, after it has broadcast the buffers. (A hook of the
    model would show this, too, but the model could not be pickled then.)"""

    def before_model(network: DistributedDataParallel, *_: Any, **_options: Any) -> None:
        tap.settle()
        if not group_takes_hooks() and torch.is_grad_enabled():
            show_buckets(network, keep)

    def nothing(*_: object) -> None:
        pass

    # Only `before_model` is excluded from tracing: the model itself may be compiled.
    return _wrap(DistributedDataParallel, "_run_ddp_forward", keep(shielded(before_model, tap.fail)), nothing, as_it_is)
