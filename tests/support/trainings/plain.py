"""A training as users write them: it knows nothing of ddptui. Arguments: WAY WHERE, and options as KEY=VALUE.

WAY: ddp, by_hand or alone. WHERE: none, data, forward, backward, core or checkpoint: what makes a rank late.
"""

import gc
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see late.py
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WAY, WHERE = sys.argv[1:3]
OPTIONS = dict(option.split("=") for option in sys.argv[3:])
LATE_S = float(OPTIONS.get("late_ms", 20)) / 1000
EPOCHS, SAMPLES, BATCH = (
    int(OPTIONS.get(key, usual)) for key, usual in (("epochs", 2), ("samples", 1024), ("batch", 16))
)
WIDTH, ACCUMULATE = int(OPTIONS.get("width", 128)), int(OPTIONS.get("accumulate", 1))
FAILS_AT = int(OPTIONS.get("fails_at", 0))  # step
EVERY = 10  # steps between two checkpoints
WARM_UP = 10


class Samples(Dataset):
    def __init__(self, rank: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(SAMPLES, 32, generator=generator)
        self.labels = torch.randint(0, 10, (SAMPLES,), generator=generator)
        self.is_late, self.fetched = WHERE == "data" and rank == 1, 0

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.fetched += 1
        if self.is_late and self.fetched % BATCH == 0:
            time.sleep(LATE_S)
        return self.inputs[index], self.labels[index]


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(context, inputs):
        return inputs.clone()

    @staticmethod
    def backward(context, gradients):
        time.sleep(LATE_S)
        return gradients


class Net(nn.Module):
    def __init__(self, late: bool) -> None:
        super().__init__()
        self.first, self.last, self.late = nn.Linear(32, WIDTH), nn.Linear(WIDTH, 10), late

    def forward(self, inputs):
        outputs = self.last(torch.relu(self.first(inputs)))
        if self.late and WHERE == "forward":
            time.sleep(LATE_S)
        return SlowBackward.apply(outputs) if self.late and WHERE == "backward" else outputs


def average_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main() -> None:
    rank = 0
    if WAY != "alone":
        dist.init_process_group("gloo")
        rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if "batch_class" in OPTIONS:  # where a woken rank does not wait for the scheduler's tick
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    late = rank == 1
    if WHERE == "core" and late:  # shares its core with a process that never sleeps
        core = min(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
        if os.fork() == 0:
            until = time.monotonic() + float(OPTIONS.get("busy_s", 3600))
            while time.monotonic() < until and os.getppid() != 1:
                pass
            os._exit(0)
    data = Samples(rank)
    sampler = DistributedSampler(data) if WAY != "alone" else None
    loader = DataLoader(data, BATCH, sampler=sampler, num_workers=int(OPTIONS.get("workers", 0)))
    net = Net(late)
    model = DistributedDataParallel(net) if WAY == "ddp" else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step, began = 0, 0.0
    for epoch in range(EPOCHS):
        if sampler:
            sampler.set_epoch(epoch)
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels) / ACCUMULATE
            loss.backward()
            step += 1
            if step == FAILS_AT and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                os._exit(1)
            began = time.perf_counter() if step == WARM_UP else began
            if step % ACCUMULATE:
                continue
            if WAY == "by_hand":
                average_gradients(model)
            optimizer.step()
            optimizer.zero_grad()
            if WHERE == "checkpoint" and rank == 0 and step % EVERY == 0:
                time.sleep(LATE_S)
        took_s = time.perf_counter() - began
        if "evaluate" in OPTIONS:
            model.eval()
            with torch.no_grad():
                right = sum((model(inputs).argmax(1) == labels).sum() for inputs, labels in DataLoader(data, 64))
            model.train()
            print(f"rank {rank} epoch {epoch} right {right}", flush=True)
    if "save" in OPTIONS:
        torch.save(net.state_dict(), f"{OPTIONS['save']}-{rank}.pth")
    if WAY != "alone" and "leave" not in OPTIONS:
        dist.destroy_process_group()
    print(f"rank {rank} loss {loss.item():.6f} took {took_s:.6f} s for {step - WARM_UP} steps", flush=True)


main()
gc.collect()  # torch aborts now and then where a DDP, which is in a cycle, is left until Python ends
