"""The loop that every rank runs: data, forward, backward, aggregate, optimizer."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ddptui.preset import Trial
from workers.aggregate import Strategy
from workers.clock import clock_of
from workers.data import Share, load
from workers.evaluate import evaluate
from workers.models import build, set_dtype, wanted_shape
from workers.progress import Mark, Progress
from workers.rank import Rank
from workers.tap import before_each_collective


def train(me: Rank, strategy: Strategy, progress: Progress | None = None) -> nn.Module:
    """Train one rank's replica of the model, and say how it went. Returns the bare model."""
    trial, delays, device = me.trial, me.delays, me.device
    set_dtype(trial)

    torch.manual_seed(trial.seed)  # the same on every rank, so that all start from the same parameters
    data = load(trial, wanted_shape(trial), device)
    model = build(trial, data.shape, data.classes).to(device)
    network = strategy.prepare(model)
    torch.manual_seed(trial.seed + 1 + me.rank)  # from here on another one each, or all would drop out alike

    share = Share(data.train, batch_size=trial.batch_size, rank=me.rank, world_size=me.world_size, seed=trial.seed)
    loader = DataLoader(data.train, sampler=share, batch_size=None)
    optimizer = make_optimizer(trial, model)
    steps = trial.steps or trial.epochs * len(share)

    clock = clock_of(device)
    progress = progress or Progress(me.rank, trial.warmup_steps, me.reporter)
    untap = before_each_collective(delays.before_collective, network)
    progress.ready(steps, parameters=sum(parameter.numel() for parameter in model.parameters()))

    for step in range(steps):
        epoch, batch = divmod(step, len(share))
        if batch == 0:
            share.set_epoch(epoch)  # another order each epoch, the same on all ranks
            batches = iter(loader)
        take_new_delays(me)
        delays.begin(step)
        moments = [clock.now()]

        inputs, labels = (tensor.to(device) for tensor in next(batches))
        delays.at("data")
        moments.append(clock.now())

        total = F.cross_entropy(network(inputs), labels, reduction="sum")
        # Divided by the mean share of a rank, not by this rank's own: the mean over ranks is then the mean over the
        # global batch, even where the shares differ by a sample.
        loss = total * me.world_size / share.samples_in(batch)
        delays.at("forward")
        moments.append(clock.now())

        loss.backward()
        delays.at("backward")
        moments.append(clock.now())

        strategy.average(model)
        moments.append(clock.now())

        optimizer.step()
        optimizer.zero_grad()
        moments.append(clock.now())

        progress.step(Mark(step, epoch, moments, len(labels), mean_of_share(total, labels)), clock)

    delays.end()
    untap()
    progress.finish(clock)
    progress.done(evaluate(me, model, data.test))
    return model


def make_optimizer(trial: Trial, model: nn.Module) -> torch.optim.Optimizer:
    if trial.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=trial.lr, weight_decay=trial.weight_decay)
    return torch.optim.SGD(model.parameters(), lr=trial.lr, momentum=trial.momentum, weight_decay=trial.weight_decay)


def mean_of_share(total: Tensor, labels: Tensor) -> Tensor:
    """The mean loss of this rank's own samples; of none, 0."""
    return total.detach() / max(1, len(labels))


def take_new_delays(me: Rank) -> None:
    """Between two steps is when delays that the console sends come into force."""
    if me.reporter.bottleneck is not None:
        me.delays.set(me.reporter.bottleneck)
        me.reporter.bottleneck = None
