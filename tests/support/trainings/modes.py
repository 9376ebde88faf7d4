"""Modes, and classes of tensors, of the script's own: what they see of a training."""

import contextlib

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see late.py
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

SEEN = []
FAKE = FakeTensorMode()


class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        SEEN.append(str(function))
        return function(*arguments, **(options or {}))


class Called(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), options=None):
        SEEN.append(getattr(function, "__name__", str(function)))
        return function(*arguments, **(options or {}))


class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        SEEN.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, arguments, options or {})


def train(name, mode, device="cpu", data=(), kind=torch.Tensor):
    SEEN.clear()
    with mode:
        weight = torch.ones(4, device=device, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.01)
        for batch in data or [torch.ones(4, device=device)] * 10:
            loss = (weight * batch).sum().as_subclass(kind)
            loss.backward()
            if mode is not FAKE and device == "cpu":
                dist.all_reduce(weight.grad)
            optimizer.step()
            optimizer.zero_grad()
    print(name, *SEEN, flush=True)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
own = [torch.ones(4).as_subclass(Own) for _ in range(40)]
train("fake", FAKE)
train("meta", contextlib.nullcontext(), device="meta")
train("dispatch", Dispatched(), data=DataLoader([torch.ones(4)] * 40, 4))
with Called():
    train("function", contextlib.nullcontext(), data=DataLoader([torch.ones(4)] * 40, 4))
train("class", contextlib.nullcontext(), data=DataLoader(own, None), kind=Own)
dist.destroy_process_group()
