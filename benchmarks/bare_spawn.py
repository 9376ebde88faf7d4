"""What one would write without ddptui: mp.spawn, 2 ranks, the MNIST net on the digits, gradients all_reduced.

Prints, in ns of the monotonic clock, when each rank finished each step: one, or as many as its argument says. As in
ddptui the parent, which trains nothing, does not import what only the ranks need.
"""

import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run_rank(rank: int, world_size: int, port: int, steps: int) -> None:
    import torch.nn.functional as F
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    from ddptui.config.trial import Trial
    from workers.training.data import load
    from workers.training.models import input_shape, make_model

    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    torch.manual_seed(0)
    trial = Trial()
    data = load(trial, input_shape(trial), torch.device("cpu"))
    dataset = TensorDataset(*data.train[list(range(len(data.train)))])
    loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset))
    model = make_model(trial, data.shape, data.classes)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for _, (inputs, labels) in zip(range(steps), loader, strict=False):
        F.cross_entropy(model(inputs), labels).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        optimizer.step()
        print(f"{time.monotonic_ns()}\n", end="", flush=True)  # in one piece: both ranks write here
    dist.destroy_process_group()


if __name__ == "__main__":
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    mp.spawn(run_rank, (2, store.port, int(sys.argv[1]) if len(sys.argv) > 1 else 1), nprocs=2)
