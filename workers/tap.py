"""Sees every collective from outside, so that the strategies stay plain.

Where torch's process group takes hooks (2.15 does), they see every call, those that torch DDP makes in C++ among them.
Elsewhere the public functions are wrapped, and DDP is given a communication hook.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

COLLECTIVES = (
    "all_reduce", "reduce", "broadcast", "gather", "all_gather", "scatter", "reduce_scatter", "all_to_all",
    "send", "recv", "isend", "irecv",
)  # fmt: skip
HOOK_ID = 0x0DD9


def group_takes_hooks() -> bool:
    return hasattr(dist.ProcessGroup, "register_pre_hook")


def before_each_collective(call: Callable[[], None], network: nn.Module) -> Callable[[], None]:
    """Have `call()` called before each collective of the default group, if there is one. Returns what undoes it."""
    if not dist.is_initialized():
        return lambda: None
    return _hook_the_group(call) if group_takes_hooks() else _wrap_the_functions(call, network)


def _hook_the_group(call: Callable[[], None]) -> Callable[[], None]:
    group: Any = dist.group.WORLD
    group.register_pre_hook(HOOK_ID, lambda _: call())
    return partial(group.unregister_pre_hook, HOOK_ID)


def _wrap_the_functions(call: Callable[[], None], network: nn.Module) -> Callable[[], None]:
    plain = {name: getattr(dist, name) for name in COLLECTIVES}

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def announced(*arguments: Any, **options: Any) -> Any:
            call()
            return function(*arguments, **options)

        return announced

    for name, function in plain.items():
        setattr(dist, name, wrapped(function))
    if isinstance(network, DistributedDataParallel):
        # DDP's own all_reduce is made in C++, unseen; this hook does the same through the function just wrapped. A DDP
        # that has a hook already takes no second one, and calls the wrapped function from its own.
        with suppress(RuntimeError):
            network.register_comm_hook(None, default_hooks.allreduce_hook)

    def undo() -> None:
        for name, function in plain.items():
            setattr(dist, name, function)

    return undo
