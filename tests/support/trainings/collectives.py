"""Calls every collective in every way, outside of, in and after forward, and beside torch DDP in backward. Each rank
writes what came of each call: FOLDER/rank-N.json.

    collectives.py FOLDER
"""

import hashlib
import json
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn  # before there is a group: see late.py
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.distributed_c10d import _coalescing_manager, isend
from torch.nn.parallel import DistributedDataParallel

warnings.filterwarnings("ignore")
dist.init_process_group("gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
OTHER = (RANK + 1) % WORLD
FROM = (RANK - 1) % WORLD
found: dict[str, str] = {}


def digest(value: Any) -> str:
    """Of a value's bits."""
    if isinstance(value, Tensor):
        dense = value.detach().to_dense().contiguous() if value.layout != torch.strided else value.detach().contiguous()
        return f"{dense.dtype} {tuple(dense.shape)} " + hashlib.sha1(pickle.dumps(dense.tolist())).hexdigest()
    return str([digest(each) for each in value]) if isinstance(value, list | tuple) else str(value)


def note(name: str, call: Callable[[], Any]) -> None:
    try:
        found[name] = digest(call())
    except Exception as error:
        found[name] = f"{type(error).__name__}: {str(error).splitlines()[0].partition('] ')[2][:60]}"


def numbers() -> Tensor:
    return torch.arange(8.0) + RANK


TENSORS: dict[str, Callable[[], Tensor]] = {
    "dense": numbers,
    "empty": lambda: numbers()[:0],
    "strided": lambda: torch.stack([numbers(), numbers()], 1).T[:, ::2],
    "complex": lambda: torch.complex(numbers(), numbers()),
    "bool": lambda: numbers() > 4,
    "sparse": lambda: (numbers() * (numbers() % 3 == 0)).to_sparse(),
}


def room(like: Tensor) -> list[Tensor]:
    return [torch.zeros_like(like) for _ in range(WORLD)]


def flat(like: Tensor) -> Tensor:
    return like.new_zeros((WORLD * like.shape[0], *like.shape[1:]))


Op = Callable[[Tensor, bool], tuple[Any, Any]]  # tensor, asynchronous: its work, and what it fills


def op(call: Callable[[Tensor, bool, Any], Any], output: Callable[[Tensor], Any]) -> Op:
    def run(tensor: Tensor, later: bool) -> tuple[Any, Any]:
        filled = output(tensor)
        return call(tensor, later, filled), filled

    return run


def on_root(values: Any) -> Any:
    return values if RANK == 0 else None


OPS: dict[str, Op] = {
    "all_reduce": op(lambda t, a, _: dist.all_reduce(t, async_op=a), lambda t: t),
    "max": op(lambda t, a, _: dist.all_reduce(t, dist.ReduceOp.MAX, async_op=a), lambda t: t),
    "reduce": op(lambda t, a, _: dist.reduce(t, 0, async_op=a), lambda t: t),
    "broadcast": op(lambda t, a, _: dist.broadcast(t, 1, async_op=a), lambda t: t),
    "gather": op(lambda t, a, o: dist.gather(t, on_root(o), async_op=a), room),
    "scatter": op(lambda t, a, o: dist.scatter(o[0], on_root([t, t]), async_op=a), room),
    "all_gather": op(lambda t, a, o: dist.all_gather(o, t, async_op=a), room),
    "all_gather_into": op(lambda t, a, o: dist.all_gather_into_tensor(o, t, async_op=a), flat),
    "reduce_scatter": op(lambda t, a, o: dist.reduce_scatter(o[0], [t, t], async_op=a), room),
    "reduce_scatter_tensor": op(lambda t, a, o: dist.reduce_scatter_tensor(o[0], torch.cat([t, t]), async_op=a), room),
    "all_to_all": op(lambda t, a, o: dist.all_to_all(o, [t, t], async_op=a), room),
    "all_to_all_single": op(lambda t, a, o: dist.all_to_all_single(o, t, async_op=a), torch.zeros_like),
    "barrier": op(lambda t, a, _: dist.barrier(async_op=a), lambda t: 0),
    "no group's": op(lambda t, a, _: dist.all_reduce(5, async_op=a), lambda t: 0),  # type: ignore[arg-type]
}


def point_to_point(tensor: Tensor, later: bool) -> tuple[Any, Any]:
    into = torch.zeros_like(tensor)
    if later:
        works = [dist.isend(tensor, OTHER), dist.irecv(into, FROM)]
        return works, into
    if RANK == 0:
        dist.send(tensor, OTHER)
        dist.recv(into, FROM)
    else:
        dist.recv(into)  # from any rank
        dist.send(tensor, OTHER)
    return None, into


def batched(tensor: Tensor, _: bool) -> tuple[Any, Any]:
    into = torch.zeros_like(tensor)
    pair = [dist.P2POp(isend, tensor, OTHER), dist.P2POp(dist.irecv, into, FROM)]
    return dist.batch_isend_irecv(pair), into


def coalesced(tensor: Tensor, later: bool) -> tuple[Any, Any]:
    second = tensor.clone()
    with _coalescing_manager(async_ops=later) as manager:
        dist.all_reduce(tensor)
        dist.all_reduce(second)
    return manager if later else None, [tensor, second]


OPS |= {"p2p": point_to_point, "batched": batched, "coalesced": coalesced}
FUNCTIONAL: dict[str, Callable[[Tensor], Any]] = {
    "functional all_reduce": lambda t: functional.all_reduce(t, "sum", dist.group.WORLD),
    "functional all_gather": lambda t: functional.all_gather_tensor(t, 0, dist.group.WORLD),
    "functional reduce_scatter": lambda t: functional.reduce_scatter_tensor(t, "sum", 0, dist.group.WORLD),
    "functional broadcast": lambda t: functional.broadcast(t, 0, dist.group.WORLD),
    "autograd all_gather": lambda t: functional.all_gather_tensor_autograd(t, 0, dist.group.WORLD),
    "autograd reduce_scatter": lambda t: functional.reduce_scatter_tensor_autograd(t, "sum", 0, dist.group.WORLD),
}


def call_all(place: str, kinds: tuple[str, ...] = ("dense",)) -> None:
    for kind in kinds:
        for name, run in OPS.items():
            for later in (False, True):

                def called(run: Op = run, kind: str = kind, later: bool = later) -> Any:
                    work, filled = run(TENSORS[kind](), later)
                    for each in work if isinstance(work, list) else [work]:
                        if each is not None:
                            each.wait()
                    return filled

                hangs = kind == "empty" and name in ("p2p", "batched")  # in gloo
                if not hangs and (kind != "sparse" or name in ("all_reduce", "barrier")):
                    note(f"{place} {kind} {name} {later}", called)
        for name, function in FUNCTIONAL.items():
            if kind != "sparse":
                note(f"{place} {kind} {name}", lambda function=function, kind=kind: function(TENSORS[kind]()) + 0)


class Between(torch.autograd.Function):
    """Calls them all in forward, and in backward beside the buckets of torch DDP."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, step: int, kinds: tuple[str, ...]) -> Tensor:
        context.step, context.kinds = step, kinds
        call_all(f"{step} forward", kinds)
        return tensor.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        call_all(f"{context.step} backward", context.kinds)
        return gradient, None, None


def late_hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    return default_hooks.allreduce_hook(dist.group.WORLD, bucket)


def learn(name: str, model: nn.Module, inputs: Callable[[], Tensor], *, late: Any = None, **options: Any) -> None:
    network = DistributedDataParallel(model, bucket_cap_mb=0.001, **options)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(4):
        if step == 2 and late == "fp16":
            network._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
        elif step == 2 and late:
            network.register_comm_hook(None, late)
        outputs = network(inputs())
        if name == "all":
            outputs = Between.apply(outputs, step, tuple(TENSORS) if step == 3 else ("dense",))
        if name == "contrastive":
            every = functional.all_gather_tensor_autograd(outputs.contiguous(), 0, dist.group.WORLD)
            loss = (outputs @ every.T).square().mean()
        else:
            loss = outputs.abs().square().mean()
        optimizer.zero_grad(set_to_none=name != "kept")
        loss.backward()
        optimizer.step()
    note(f"learnt {name}", lambda: list(network.parameters()))
    note(f"hooks {name}", lambda: [hook.__qualname__ for hook, _ in network._comm_hooks])


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Linear(32, 4))


torch.manual_seed(RANK)
call_all("outside", tuple(TENSORS))
dense = lambda: torch.randn(6, 8)  # noqa: E731
learn("all", small(), dense)
call_all("between", tuple(TENSORS))
learn("contrastive", small(), dense)
learn("late", small(), dense, late=late_hook)
learn("late fp16", small(), dense, late="fp16")
learn("kept", small(), dense, gradient_as_bucket_view=True)
learn("static", small(), dense, static_graph=True)
learn("sparse", nn.EmbeddingBag(10, 4, sparse=True), lambda: torch.randint(0, 10, (3, 5)))
dist.destroy_process_group()
Path(sys.argv[1], f"rank-{RANK}.json").write_text(json.dumps(found))
