"""Shows the tap the buckets of gradients that torch DDP sends, where process groups take no hooks.

Python sees them only by a communication hook, and a DDP takes one. Ours does what DDP does without any. It is known to
C++ alone, so neither the DDP nor a copy of it holds anything of ours. Where the training registers a hook of its own
later, ours passes every bucket on to that.
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
        self._network = ref(network)  # which holds us
        self.own: tuple[Any, Callable[..., Future]] | None = None  # the training's own hook, after its state
        self.joined: dist.Work | None = None  # counts the ranks that have not joined yet; None: the mean is over all

    def run(self, _: None, bucket: dist.GradBucket) -> Future:
        """Average a bucket."""
        if self.own is not None:
            state, hook = self.own
            return hook(state, bucket)
        network = self._network()
        assert network is not None  # it calls us
        gradients, ranks = bucket.buffer(), self._ranks(network.process_group)
        if gradients.is_sparse:
            gradients.div_(ranks)
        else:
            gradients.mul_(1 / ranks)  # as DDP does: a division would give other bits
        work: Any = dist.all_reduce(gradients, group=network.process_group, async_op=True)
        averaged: Future = work.get_future().then(lambda done: done.value()[0])
        return averaged

    def _ranks(self, group: dist.ProcessGroup) -> int:
        if self.joined is None:
            return group.size()
        self.joined.wait()
        [ranks] = self.joined.get_future().value()
        return int(ranks.item())


_hooks: WeakKeyDictionary[Any, BucketHook | None] = WeakKeyDictionary()  # by DDP's reducer; None: it has another hook


def show_buckets(network: DistributedDataParallel, keep: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Have a DDP send its buckets by a function that the tap sees. keep: wraps what torch calls."""
    reducer = getattr(network, "reducer", None)  # some have none
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
    except RuntimeError as error:  # it has a hook already
        pass_on(error)


def _may_divide_first(network: DistributedDataParallel) -> bool:
    """Whether to divide a bucket gives the same bits as to divide the gradients as they come. With a view of the bucket
    as its gradient, DDP multiplies by 1/n where that is new, and divides by n where it adds to the one before."""
    ranks = network.process_group.size()
    return not network.gradient_as_bucket_view or ranks & (ranks - 1) == 0


@cache
def _see_registrations() -> None:
    """Have a DDP that holds our hook take one of the training's. This stays, as our hooks do."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    built_in = {  # what C++ does for these
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
    """Have our hook, if the DDP has that alone, pass its buckets on to this one."""
    ours = _hooks.get(reducer)
    if ours is None or ours.own is not None:  # torch refuses a second one of the training's
        return False
    ours.own = state, hook
    return True
