"""A data-parallel training as users write it, with one mistake that no error shows. Argument: NAME.

Right, averaged by hand:
    right            parameters are broadcast, gradients are summed and divided, the sampler gets each epoch's number
Wrong, averaged by hand:
    group-of-one     sums the gradients over a group that only rank 0 is in, and divides them by the world size
    divide-twice     divides the gradients a second time
    no-division      leaves the sum of the gradients
    no-broadcast     each rank starts with parameters of its own
    no-set-epoch     every epoch has the same order
    some-tensors     does not average the gradients of the last layer
Right, with DDP:
    ddp              has no mistake
    average-again    averages what DDP has averaged: only slower
    no-sync-needed   averages each of 4 micro-batches, where the last one would do: only slower
    buffers          has a BatchNorm, whose running statistics differ between the ranks
    evaluates        rank 0 alone evaluates for 0.4 s every 20 steps, and the other ranks wait
Wrong, with DDP:
    tutorial         group-of-one on top of DDP, as in a published tutorial: divides once too often
    same-samples     has no DistributedSampler: with the same seed, all ranks train on the same samples
    same-seed-random-input  draws its inputs with the same seed on all ranks
    learning-rate    rank 1 has twice the learning rate
    eval-mode        rank 1 trains in evaluation mode, without dropout
    nan              rank 1 has one infinite input, in step 40
    never-finite     divides a constant feature by its deviation of 0: each loss is NaN, on all ranks
    no-sync-inverted averages the first of 4 micro-batches, but not the other three
    bypass           calls the wrapped module instead of DDP
    own-parameters-late  rank 1 changes one weight after step 50
Wrong, without averaging:
    unwrapped        has a group and a sampler, but no DDP
    no-group         runs under torchrun but never joins a group: all ranks do the same work
"""

import contextlib
import gc
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see late.py
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

NAME = sys.argv[1]
BY_HAND = {"right", "group-of-one", "divide-twice", "no-division", "no-broadcast", "no-set-epoch", "some-tensors"}
WITHOUT = {"unwrapped", "no-group"}
SAME_SEED = {"same-samples", "same-seed-random-input", "unwrapped", "no-group"}  # the other ranks have their own
SAMPLES, BATCH, EPOCHS, LR = 1280, 16, 2, 0.05
MICRO_BATCHES = 4 if NAME.startswith("no-sync") else 1
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def network():
    between = {"eval-mode": [nn.Dropout(0.5)], "buffers": [nn.BatchNorm1d(64)]}.get(NAME, [])
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), *between, nn.Linear(64, 10))


def samples():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(SAMPLES, 32, generator=generator)
    if NAME == "never-finite":
        inputs[:, 31] = 0
        inputs /= inputs.std(0)
    return TensorDataset(inputs, inputs[:, :10].argmax(1))


def batches():
    if NAME == "same-seed-random-input":
        for _ in range(80):
            inputs = torch.randn(BATCH, 32)
            yield inputs, inputs[:, :10].argmax(1)
        return
    sampler = None
    if NAME in ("same-samples", "no-group"):
        loader = DataLoader(samples(), BATCH * WORLD, shuffle=True)
    else:
        data = samples()
        sampler = DistributedSampler(data)
        loader = DataLoader(data, BATCH // MICRO_BATCHES, sampler=sampler)
    for epoch in range(EPOCHS):
        if sampler and NAME != "no-set-epoch":
            sampler.set_epoch(epoch)
        yield from loader


def average(parameters, group=None):
    for parameter in parameters:
        dist.all_reduce(parameter.grad, group=group)
        if NAME != "no-division":
            parameter.grad /= dist.get_world_size()


def evaluate(net):
    """Evaluates for 0.4 s."""
    inputs, labels = samples().tensors
    until = time.perf_counter() + 0.4
    net.eval()
    with torch.no_grad():
        while time.perf_counter() < until:
            (net(inputs).argmax(1) == labels).float().mean().item()
    net.train()


def main():
    if NAME != "no-group":
        dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0 if NAME in SAME_SEED else RANK)
    net = network()
    if NAME in BY_HAND and NAME != "no-broadcast":
        for parameter in net.parameters():
            dist.broadcast(parameter.detach(), 0)
    model = net if NAME in BY_HAND | WITHOUT else DistributedDataParallel(net)
    averaged = list((net[:-1] if NAME == "some-tensors" else net).parameters())
    group = dist.new_group([0]) if NAME in ("group-of-one", "tutorial") else None
    optimizer = torch.optim.SGD(model.parameters(), lr=2 * LR if NAME == "learning-rate" and RANK == 1 else LR)
    if NAME == "eval-mode" and RANK == 1:
        model.eval()
    for number, (inputs, labels) in enumerate(batches()):
        step, part = divmod(number, MICRO_BATCHES)
        if NAME == "nan" and RANK == 1 and step == 40:
            inputs[0, 0] = torch.inf
        syncs = NAME != "no-sync-inverted" or part == 0  # should be the last part
        with contextlib.nullcontext() if syncs else model.no_sync():
            outputs = model.module(inputs) if NAME == "bypass" else model(inputs)
            loss = nn.functional.cross_entropy(outputs, labels) / MICRO_BATCHES
            loss.backward()
        if part < MICRO_BATCHES - 1:
            continue
        if NAME in BY_HAND or NAME in ("tutorial", "average-again"):
            average(averaged, group)
        if NAME == "divide-twice":
            for parameter in averaged:
                parameter.grad /= WORLD
        optimizer.step()
        optimizer.zero_grad()
        if NAME == "own-parameters-late" and RANK == 1 and step == 50:
            with torch.no_grad():
                net[0].weight[0, 0] += 0.01
        if NAME == "evaluates" and RANK == 0 and step % 20 == 19:
            evaluate(net)
    total = sum(parameter.detach().double().abs().sum().item() for parameter in net.parameters())
    buffers = sum(buffer.double().sum().item() for buffer in net.buffers())
    ends = f"rank {RANK} steps {step + 1} loss {loss.item():.4f} parameters {total:.9f} buffers {buffers:.6f}\n"
    sys.stdout.write(ends)  # at once: under torchrun, print writes word by word
    if NAME != "no-group":
        dist.destroy_process_group()


main()
gc.collect()  # see plain.py
