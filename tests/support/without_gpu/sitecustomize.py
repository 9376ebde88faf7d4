"""On PYTHONPATH, this has a script that wants GPUs train on the CPU: its devices are numbers, or the accelerator's."""

import functools

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def on_cpu(function):
    @functools.wraps(function)
    def moved(what, *arguments, **options):
        return function(what, *("cpu" if type(argument) is int else argument for argument in arguments), **options)

    return moved


def join(init=dist.init_process_group):
    dist.init_process_group = lambda backend=None, **options: init("gloo", **options)


def wrap(make=DistributedDataParallel.__init__):
    def on_no_device(network, module, device_ids=None, **options):
        make(network, module, **options)

    DistributedDataParallel.__init__ = on_no_device


torch.Tensor.to, torch.nn.Module.to = on_cpu(torch.Tensor.to), on_cpu(torch.nn.Module.to)
torch.Tensor.pin_memory = lambda tensor, *_: tensor
torch.cuda.set_device = torch.accelerator.set_device_index = lambda device: None
torch.accelerator.is_available, torch.accelerator.device_count = lambda: True, lambda: 2
torch.accelerator.current_accelerator = lambda check_available=False: None if check_available else torch.device("cpu")
join()
wrap()
