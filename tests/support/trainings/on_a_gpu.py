"""Two ranks, each on a GPU that is simulated: the host queues its work there and goes on, and that is over by the
GPU's own clock. An all_reduce waits for the GPU, as gloo's does.

Arguments: on which rank, and in which phase (none, forward or backward), the GPU takes longer, by how many ms; and how
many graphs are captured. Each capture outlasts the interval at which ddptui reads events.
"""

import gc
import os
import sys
import time
from collections import Counter
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see late.py
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.support.simulated_gpu import RealTimeGpu, put_in

LATE, WHERE, LATE_MS, CAPTURES = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
WORK_MS = {"forward": 4.0, "backward": 6.0}
CAPTURE_S = 0.3
MS = 1e6
GPU = RealTimeGpu()


def watch_it_there():
    """Have the one who watches take this for a training on a GPU."""
    from ddptui_injected.instruments import cuda_clock, hooks, page_locked
    from ddptui_injected.watch import patches

    put_in(GPU, setattr, cuda_clock, page_locked)
    torch.cuda.set_device = lambda _: None
    patches.device_of = lambda _: torch.device("cuda", 0)
    hooks.carrier_of = lambda *_: "another"


def compute(phase):
    longer = LATE_MS if (dist.get_rank(), phase) == (LATE, WHERE) else 0.0
    GPU.main.push((WORK_MS[phase] + longer) * MS)


def average(model):
    for parameter in model.parameters():
        while GPU.main.free_ns > time.monotonic_ns():
            time.sleep(1e-4)
        dist.all_reduce(parameter.grad)


if "DDPTUI_WATCHED" in os.environ:
    watch_it_there()
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step():
    outputs = model(torch.randn(16, 32))
    outputs.register_hook(lambda _: compute("backward"))
    compute("forward")
    loss = outputs.square().mean()
    loss.backward()
    average(model)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def capture():
    with GPU.captures():
        step()
        time.sleep(CAPTURE_S)


def fork():
    """A process of a loader's: it has no GPU, and whatever it did to one would fail, or worse."""
    before, given_back = Counter(GPU.calls), GPU.given_back
    if (child := os.fork()) == 0:
        gc.collect()
        print(
            f"calls from a fork: {sorted(GPU.calls - before)}, events given back: {GPU.given_back - given_back}",
            flush=True,
        )
        os._exit(0)
    os.waitpid(child, 0)


for _ in range(30):
    loss = step()
if CAPTURES:
    fork()
for _ in range(CAPTURES):
    capture()
for _ in range(30):
    loss = step()
print(f"loss {loss}, captures that were spoiled: {GPU.spoiled}")
dist.destroy_process_group()
