"""Shows the tap the gradient buckets that torch DDP sends, if this torch's process groups take no hooks.

Python sees the buckets only through a communication hook, of which a DDP accepts one. Ours does what DDP does without a
hook. Only C++ has a reference to it, so neither the DDP nor a copy of it holds any of our objects. If the training
registers a hook of its own later, ours passes every bucket on to it.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from .shield import pass_on

Future = torch.futures.Future[Tensor]


class BucketHook:
    """The communication hook of one DDP."""

    def __init__(self, network: DistributedDataParallel) -> None:
        self._network = ref(network)  # weak, since the DDP holds this object
        self.own: tuple[Any, Callable[..., Future]] | None = None  # state and function of the training's own hook
        self.joined: dist.Work | None = None  # counts the ranks still training (DDP's join); None: divide by all ranks

    def run(self, _: None, bucket: dist.GradBucket) -> Future:
        """Average a bucket over the ranks. Returns a future of the averaged gradients."""
        if self.own is not None:
            state, hook = self.own
            return hook(state, bucket)
        network = self._network()
        assert network is not None  # it is calling us
        gradients, ranks = bucket.buffer(), self._ranks(network.process_group)
        if gradients.is_sparse:
            gradients.div_(ranks)
        else:
            gradients.mul_(1 / ranks)  # as DDP does: a division would give different bits
        work: Any = dist.all_reduce(gradients, group=network.process_group, async_op=True)
        averaged: Future = work.get_future().then(lambda done: done.value()[0])
        return averaged

    def _ranks(self, group: dist.ProcessGroup) -> int:
        if self.joined is None:
            return group.size()
        self.joined.wait()
        [ranks] = self.joined.get_future().value()
        return int(ranks.item())


_hooks: WeakKeyDictionary[Any, BucketHook | None] = WeakKeyDictionary()  # by DDP's reducer; None if it has another hook


def show_buckets(network: DistributedDataParallel, keep: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Have a DDP send its buckets through a function that the tap sees. keep: wraps every function that torch calls."""
    reducer = getattr(network, "reducer", None)  # some DDPs have none
    if reducer is None or reducer in _hooks:
        return
    _hooks[reducer] = None
    if not _may_divide_first(network):
        return
    _see_registrations()
    hook = BucketHook(network)
    try:
        dist._register_comm_hook(reducer, None, keep(hook.run))
        _hooks[reducer] = hook
    except RuntimeError as error:  # the DDP already has a hook
        pass_on(error)


def _may_divide_first(network: DistributedDataParallel) -> bool:
    """Whether dividing a whole bucket gives the same bits as DDP, which divides each gradient as it arrives. If
    gradients are views of the bucket, DDP multiplies new ones by 1/n, but divides accumulated ones by n."""
    ranks = network.process_group.size()
    return not network.gradient_as_bucket_view or ranks & (ranks - 1) == 0


@cache
def _see_registrations() -> None:
    """Let the training register its own hook on a DDP that has ours. Never undone, like our hooks."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    built_in = {  # Python functions equivalent to the built-in hooks in C++
        dist.BuiltinCommHookType.ALLREDUCE: default_hooks.allreduce_hook,
        dist.BuiltinCommHookType.FP16_COMPRESS: default_hooks.fp16_compress_hook,
    }
    module: Any = dist
    reducers: Any = dist.Reducer
    register, register_built_in = module._register_comm_hook, module._register_builtin_comm_hook
    count = reducers._set_forward_pass_work_handle

    @wraps(register)
    def register_or_pass_on(reducer: Any, state: Any, hook: Callable[..., Future]) -> None:
        if not _is_passed_on(reducer, state, hook):
            register(reducer, state, hook)

    @wraps(register_built_in)
    def register_built_in_or_pass_on(reducer: Any, kind: Any) -> None:
        if not _is_passed_on(reducer, None, built_in[kind]):
            register_built_in(reducer, kind)

    @wraps(count)
    def count_and_note(reducer: Any, work: dist.Work, is_over_all: bool) -> None:
        if (ours := _hooks.get(reducer)) is not None:
            ours.joined = None if is_over_all else work
        count(reducer, work, is_over_all)

    module._register_comm_hook, module._register_builtin_comm_hook = register_or_pass_on, register_built_in_or_pass_on
    reducers._set_forward_pass_work_handle = count_and_note


def _is_passed_on(reducer: Any, state: Any, hook: Callable[..., Future]) -> bool:
    """Have our hook pass its buckets on to `hook`, if the DDP has our hook and no other. Returns whether it does."""
    ours = _hooks.get(reducer)
    if ours is None or ours.own is not None:  # the latter: torch will reject a second hook of the training's
        return False
    ours.own = state, hook
    return True
