"""Trainings that are right, though something in each looks odd. Argument: NAME, a function below with "-" for "_".

Each function's docstring says what looks odd. It returns tensors, whose absolute values its rank adds up and prints.
These sums agree between the ranks, unless the docstring says that they differ. All names run on 2 ranks, except
hierarchical and hsdp, which run on 4.
"""

import contextlib
import gc
import sys
import time
from itertools import chain

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see late.py
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, Subset, TensorDataset

NAME = sys.argv[1]
SAMPLES, BATCH, EPOCHS, LR = 1280, 16, 2, 0.05
TRAININGS = {}


def training(function):
    TRAININGS[function.__name__.replace("_", "-")] = function
    return function


def samples(number=SAMPLES):
    inputs = torch.randn(number, 32, generator=torch.Generator().manual_seed(1))
    return TensorDataset(inputs, inputs[:, :10].argmax(1))


def network():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))


def sharded(data=None, batch=BATCH, epochs=EPOCHS):
    """Yields the batches of this rank: its own shard of the samples, in another order each epoch."""
    data = data or samples()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        yield from loader


def alike():
    """Yields the same batches on all ranks, as model-parallel ranks need them."""
    loader = DataLoader(samples(), 2 * BATCH, shuffle=True, generator=torch.Generator().manual_seed(0))
    for _ in range(EPOCHS):
        yield from loader


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=LR)


def broadcast(net):
    for parameter in net.parameters():
        dist.broadcast(parameter.detach(), 0)


def average(tensors, group=None):
    for tensor in tensors:
        dist.all_reduce(tensor, group=group)
        tensor /= dist.get_world_size(group)


def fit(model, optimizer, batches, before_step=None, after_step=None):
    for step, (inputs, labels) in enumerate(batches):
        optimizer.zero_grad()
        cross_entropy(model(inputs), labels).backward()
        if before_step:
            before_step()
        optimizer.step()
        if after_step:
            after_step(step)
    return model.parameters()


# Sharded by torch


@training
def fsdp2(rank, world):
    """fully_shard: each rank has its own shard of the parameters, gradients and optimizer state."""
    from torch.distributed.device_mesh import init_device_mesh

    return fit_sharded(init_device_mesh("cpu", (world,)))


@training
def hsdp(rank, world):
    """fully_shard over 2 × 2 ranks: shards differ within a pair of ranks, and replicas agree across the pairs."""
    from torch.distributed.device_mesh import init_device_mesh

    return fit_sharded(init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")), epochs=4)


def fit_sharded(mesh, epochs=EPOCHS):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = network()
    for layer in (model[0], model[-1]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    fit(model, torch.optim.AdamW(model.parameters(), lr=0.003), sharded(epochs=epochs))
    return [parameter.full_tensor() for parameter in model.parameters()]


@training
def fsdp1(rank, world):
    """FullyShardedDataParallel: each rank has its own shard of one flat parameter. The sums differ."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.manual_seed(0)
    model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
    return fit(model, torch.optim.AdamW(model.parameters(), lr=0.003), sharded())


@training
def zero(rank, world):
    """Each rank updates its own part of the parameters, which it then broadcasts: optimizer states differ."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(network())
    return fit(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.003), sharded())


# Averages parameters


@training
def averaged_parameters(rank, world):
    """Averages the parameters after each step, and never the gradients."""
    net = network()
    broadcast(net)
    parameters = [parameter.detach() for parameter in net.parameters()]
    return fit(net, sgd(net), sharded(), after_step=lambda step: average(parameters))


@training
def local_sgd(rank, world):
    """Each rank trains alone; parameters are averaged every 8 steps, the last one included."""
    net = network()
    broadcast(net)
    parameters = [parameter.detach() for parameter in net.parameters()]
    return fit(net, sgd(net), sharded(), after_step=lambda step: step % 8 == 7 and average(parameters))


# Model-parallel


@training
def pipeline_alike(rank, world):
    """A pipeline whose stages have the same names, shapes and first values. The sums differ."""
    torch.manual_seed(0)
    return run_stages(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)), rank)


def run_stages(stage, rank):
    optimizer = sgd(stage)
    for inputs, labels in alike():
        optimizer.zero_grad()
        if rank == 0:
            hidden = stage(inputs)
            sending = dist.isend(hidden.detach(), 1)
            gradient = torch.empty_like(hidden)
            dist.recv(gradient, 1)
            sending.wait()
            hidden.backward(gradient)
        else:
            width = next(stage.parameters()).shape[1]
            hidden = torch.empty(len(labels), width)
            dist.recv(hidden, 0)
            cross_entropy(stage(hidden.requires_grad_()), labels).backward()
            dist.isend(hidden.grad, 0).wait()
        optimizer.step()
    return stage.parameters()


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(context, part):
        total = part.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(context, gradient):
        return gradient


class TensorParallel(nn.Module):
    """Two layers, the first split by its columns, the second by its rows."""

    def __init__(self, world, dropout):
        super().__init__()
        self.first, self.dropout = nn.Linear(32, 64 // world), nn.Dropout(dropout)
        self.last = nn.Linear(64 // world, 10, bias=False)
        self.bias = nn.Parameter(torch.zeros(10))  # all ranks have the same

    def forward(self, inputs):
        return SumOverRanks.apply(self.last(self.dropout(self.first(inputs).relu()))) + self.bias


@training
def tensor(rank, world):
    """Tensor-parallel shards that start equal; each rank's own dropout then makes them differ. The sums differ.

    Without dropout, shards that start equal would stay equal for ever.
    """
    torch.manual_seed(0)
    net = TensorParallel(world, dropout=0.2)
    torch.manual_seed(rank)
    return fit(net, sgd(net), alike())


# Averages gradients by hand


@training
def hooks(rank, world):
    """A hook starts an asynchronous all-reduce as soon as a gradient is complete; step waits for all of them."""
    torch.manual_seed(0)
    net = network()
    works = []

    def start(parameter):
        parameter.grad /= world
        works.append(dist.all_reduce(parameter.grad, async_op=True))

    def wait():
        while works:
            works.pop().wait()

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(start)
    return fit(net, sgd(net), sharded(), before_step=wait)


@training
def weight_scaled(rank, world):
    """The loss is multiplied by 4, and the averaged gradients are divided by 4 before the step."""
    net = network()
    broadcast(net)
    optimizer = sgd(net)
    for inputs, labels in sharded():
        optimizer.zero_grad()
        (4 * cross_entropy(net(inputs), labels)).backward()
        average(parameter.grad for parameter in net.parameters())
        for parameter in net.parameters():
            parameter.grad /= 4
        optimizer.step()
    return net.parameters()


@training
def hierarchical(rank, world):
    """4 ranks in 2 groups: gradients are averaged within a group, then across the groups."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2))
    net = network()
    broadcast(net)

    def exchange():
        for group in (mesh.get_group(1), mesh.get_group(0)):
            average((parameter.grad for parameter in net.parameters()), group)

    return fit(net, sgd(net), sharded(epochs=4), before_step=exchange)


# DDP with another model or optimizer


@training
def gan(rank, world):
    """Two DDP models with an optimizer each; the discriminator has two backward passes before its step."""
    generator = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32)))
    discriminator = DistributedDataParallel(nn.Sequential(nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)))
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.001) for model in (generator, discriminator)]
    criterion = nn.functional.binary_cross_entropy_with_logits
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    for real, _ in sharded():
        fake = generator(torch.randn(BATCH, 8))
        optimizers[1].zero_grad()
        criterion(discriminator(real), ones).backward()
        criterion(discriminator(fake.detach()), zeros).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        criterion(discriminator(fake), ones).backward()
        optimizers[0].step()
    return chain(generator.parameters(), discriminator.parameters())


class Adapted(nn.Module):
    """A frozen layer and a low-rank adapter."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, 4, bias=False)
        self.up = nn.Linear(4, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs):
        return self.layer(inputs) + self.up(self.down(inputs))


@training
def lora(rank, world):
    """Only the low-rank adapters of a frozen model are trained, and the optimizer has nothing else."""
    net = network()
    model = DistributedDataParallel(nn.Sequential(Adapted(net[0]), nn.ReLU(), Adapted(net[2])))
    adapters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fit(model, torch.optim.AdamW(adapters, lr=0.01), sharded())
    return model.parameters()


class Tied(nn.Module):
    """Predicts a token from those before it, with one weight for the embedding and the output."""

    def __init__(self):
        super().__init__()
        self.embedding, self.body, self.output = nn.Embedding(50, 32), nn.Linear(32, 32), nn.Linear(32, 50, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens):
        return self.output(self.body(self.embedding(tokens).mean(1)).tanh())


@training
def tied(rank, world):
    """The embedding and the output are one parameter."""
    tokens = torch.randint(0, 50, (SAMPLES, 8), generator=torch.Generator().manual_seed(1))
    model = DistributedDataParallel(Tied())
    return fit(model, sgd(model), sharded(TensorDataset(tokens, tokens[:, 0])))


@training
def lbfgs(rank, world):
    """One step of the optimizer makes several forward and backward passes."""
    model = DistributedDataParallel(network())
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    for inputs, labels in sharded():

        def closure(inputs=inputs, labels=labels):
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs), labels)
            loss.backward()
            mean = loss.detach().clone()
            average([mean])  # the optimizer decides by it, so it has to be the same on all ranks
            return mean

        optimizer.step(closure)
    return model.parameters()


class Branches(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.body, self.heads, self.rank = nn.Linear(32, 64), nn.ModuleList(nn.Linear(64, 10) for _ in range(2)), rank

    def forward(self, inputs):
        return self.heads[self.rank % 2](self.body(inputs).relu())


@training
def unused(rank, world):
    """Each rank uses its own head, and finds the other one unused."""
    model = DistributedDataParallel(Branches(rank), find_unused_parameters=True)
    return fit(model, sgd(model), sharded())


# DDP with another backward or step


@training
def powersgd(rank, world):
    """DDP sends low-rank approximations: the result is not exactly the mean, and errors are kept by rank."""
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

    model = DistributedDataParallel(network())
    model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook)
    parameters = fit(model, sgd(model), sharded())
    time.sleep(0.3)  # gloo's thread drops what the last callback held: if it were the last to hold the group, it aborts
    return parameters


@training
def accumulate(rank, world):
    """Only the last of 4 micro-batches is averaged, as it should be."""
    model = DistributedDataParallel(network())
    optimizer = sgd(model)
    for number, (inputs, labels) in enumerate(sharded(batch=BATCH // 4)):
        is_last = number % 4 == 3
        with contextlib.nullcontext() if is_last else model.no_sync():
            (cross_entropy(model(inputs), labels) / 4).backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
    return model.parameters()


@training
def clip(rank, world):
    """Gradients are clipped after DDP has averaged them, so the optimizer gets less than the mean."""
    model = DistributedDataParallel(network())

    def shorten():
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)

    return fit(model, sgd(model), sharded(), before_step=shorten)


@training
def scaler(rank, world):
    """The loss is scaled up by 65536, and the averaged gradients down before the step."""
    model = DistributedDataParallel(network())
    optimizer, scaling = sgd(model), torch.amp.GradScaler("cpu")
    for inputs, labels in sharded():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = cross_entropy(model(inputs), labels)
        scaling.scale(loss).backward()
        scaling.step(optimizer)
        scaling.update()
    return model.parameters()


@training
def schedule(rank, world):
    """The learning rate rises and falls, alike on all ranks."""
    model = DistributedDataParallel(network())
    optimizer = sgd(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=80)
    return fit(model, optimizer, sharded(), after_step=lambda step: schedule.step())


@training
def skip_nan(rank, world):
    """In step 40 the loss of rank 1 is not finite: all ranks skip that step together."""
    model = DistributedDataParallel(network())
    optimizer = sgd(model)
    for step, (inputs, labels) in enumerate(sharded()):
        if rank == 1 and step == 40:
            inputs[0, 0] = torch.inf
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), labels)
        finite = loss.isfinite().float()
        dist.all_reduce(finite, dist.ReduceOp.MIN)
        if finite:
            loss.backward()
            optimizer.step()
    return model.parameters()


@training
def join(rank, world):
    """Rank 1 has 60 batches and the others have 80, which DDP's join takes care of."""
    model = DistributedDataParallel(network())
    data = samples(60 * BATCH if rank == 1 else 80 * BATCH)
    with model.join():
        fit(model, sgd(model), DataLoader(data, BATCH, shuffle=True))
    return model.parameters()


@training
def early(rank, world):
    """All ranks evaluate between the epochs, each with its own shard in a fixed order."""
    model = DistributedDataParallel(network())
    optimizer, data = sgd(model), samples()
    sampler, held_out = DistributedSampler(data), samples(256)
    evaluation = DataLoader(held_out, 64, sampler=DistributedSampler(held_out, shuffle=False))
    loader = DataLoader(data, BATCH, sampler=sampler)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        fit(model, optimizer, loader)
        model.eval()
        with torch.no_grad():
            correct = sum((model(inputs).argmax(1) == labels).sum() for inputs, labels in evaluation)
        dist.all_reduce(correct)
        model.train()
    return model.parameters()


# DDP with other data


@training
def synthetic(rank, world):
    """All ranks have the same batch of zeros, as benchmarks do."""
    model = DistributedDataParallel(network())
    return fit(model, sgd(model), [(torch.zeros(BATCH, 32), torch.zeros(BATCH, dtype=torch.long))] * 80)


@training
def sequential(rank, world):
    """Every epoch has the same order, by design: shuffle=False."""
    model = DistributedDataParallel(network())
    data = samples(800)
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data, shuffle=False))
    return fit(model, sgd(model), chain(loader, loader, loader))


@training
def subset(rank, world):
    """Each rank shuffles its own subset with the same seed: the same indices, but of other samples."""
    model = DistributedDataParallel(network())
    data = Subset(samples(), range(rank, SAMPLES, world))
    loader = DataLoader(data, BATCH, shuffle=True, generator=torch.Generator().manual_seed(0))
    return fit(model, sgd(model), chain(loader, loader))


class Shard(IterableDataset):
    def __init__(self, data, rank, world):
        self.data, self.rank, self.world = data, rank, world

    def __iter__(self):
        return (self.data[index] for index in range(self.rank, len(self.data), self.world))


@training
def iterable(rank, world):
    """An IterableDataset gives each rank its shard, and has no sampler; every epoch has the same order."""
    model = DistributedDataParallel(network())
    loader = DataLoader(Shard(samples(), rank, world), BATCH)
    return fit(model, sgd(model), chain(loader, loader))


class Augmented(Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        inputs, label = self.data[index]
        return inputs + 0.1 * torch.randn_like(inputs), label


@training
def augmented(rank, world):
    """A sample is another one in each epoch, since the dataset adds noise."""
    model = DistributedDataParallel(network())
    return fit(model, sgd(model), sharded(Augmented(samples())))


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    total = sum(tensor.detach().double().abs().sum().item() for tensor in TRAININGS[NAME](rank, world))
    gc.collect()  # torch aborts now and then where a DDP with a hook, which is in a cycle, outlives its group
    sys.stdout.write(f"rank {rank} parameters {total:.9f}\n")  # at once: under torchrun, print writes word by word
    dist.destroy_process_group()


main()
