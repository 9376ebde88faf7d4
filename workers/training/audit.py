"""Does the strategy leave the mean? Asked once, after the training, of the real strategy with real gradients.

The answer is worked out another way: a copy of the model, which no strategy has touched, computes each rank's own
gradient of the same samples; all ranks gather all of these and take the mean in float64.

Both compute in the parameters' own type and uncompiled, whatever the training did: a strategy gets gradients of that
type in any case, and two kernels that round differently would look like a mistake of its.
"""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from ddptui.wire.messages import Audit
from workers.aggregate.strategy import Strategy, broadcast_flat, gradients_of
from workers.rank.process import Rank
from workers.training.data import Samples

Batch = tuple[Tensor, Tensor]
Tensors = dict[str, Tensor]  # of a model, by the parameter's name
PIECE = 2**18  # numbers
MOST_STEPS = 3  # of a round
MOST_SAMPLES = 32  # of a rank in a step: in float32 more might not fit where the training's did


def audit(me: Rank, strategy: Strategy, network: nn.Module, model: nn.Module, train: Samples) -> Audit | None:
    """One more round, with samples of the training set, and what came of it. The model is left as it was.

    None for one process without a group. All ranks must call it. It sees what the strategy always does, not what it
    does now and then.
    """
    if me.trial.strategy is None:
        return None
    with restoring(model):
        if me.trial.average == "parameters":
            return compare("parameters", *average_parameters(strategy, model))
        in_parts = me.trial.gpus_per_rank > 1
        return compare("gradients", *average_gradients(strategy, network, model, shares(me, train), in_parts=in_parts))


def shares(me: Rank, train: Samples) -> list[Batch]:
    """This rank's part of the batches of a round, a few at most."""
    size = min(me.trial.batch_size, len(train))
    size -= max(0, math.ceil(size / me.world_size) - MOST_SAMPLES) * me.world_size  # who has one less, still has
    found = []
    for number in range(min(me.trial.every, MOST_STEPS)):
        first = number * size % (len(train) - size + 1)
        found.append(train[list(range(first + me.rank, first + size, me.world_size))])
    return found


def average_gradients(
    strategy: Strategy, network: nn.Module, model: nn.Module, batches: list[Batch], *, in_parts: bool
) -> tuple[Tensors, Tensors]:
    """The gradients that the strategy leaves on this rank, and this rank's own.

    in_parts: the network cuts a batch into parts, whose dropout and statistics are others than the whole batch's: so
    there is no dropout then, and the statistics are those of the training.
    """
    broadcast_flat(list(model.buffers()))  # as before each round; torch DDP's forward would, and the copy's not
    alone = copy.deepcopy(model)
    device = next(model.parameters()).device
    weight = 1 / max(1, sum(len(labels) for _, labels in batches))  # gradients as large as in the training
    for one, pause in ((network, strategy.no_sync), (alone, nullcontext)):
        one.train(not in_parts)
        one.zero_grad()
        with torch.random.fork_rng([device] if device.type == "cuda" else []):  # the same dropout in both
            for batch in batches[:-1]:
                with pause():
                    backward(one, batch, weight)
            backward(one, batches[-1], weight)
    strategy.average(gradients_of(model))
    return gradients(model), gradients(alone)


def average_parameters(strategy: Strategy, model: nn.Module) -> tuple[Tensors, Tensors]:
    """The parameters that the strategy leaves on this rank, and this rank's own: noise, so that ranks are far apart."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
        own = {name: parameter.clone() for name, parameter in model.named_parameters()}
        strategy.average(list(model.parameters()))
        return {name: parameter.detach() for name, parameter in model.named_parameters()}, own


def compare(of: Literal["gradients", "parameters"], left: Tensors, own: Tensors) -> Audit:
    """How far what was left is from the true mean; and what else it might be. See wire.Audit."""
    ranks = dist.get_world_size()
    distances, sizes = dict.fromkeys(own, 0.0), dict.fromkeys(own, 0.0)  # squared
    left_mean = mean_mean = left_own = own_own = left_left = 0.0
    for name in own:
        for mine, here in zip(pieces(own[name]), pieces(left[name]), strict=True):
            everybodys = [torch.empty_like(mine) for _ in range(ranks)]
            dist.all_gather(everybodys, mine)
            parts = torch.stack(everybodys).double()
            mean, mine, here = parts.mean(0), mine.double(), here.double()
            distances[name] += square(here - mean)
            sizes[name] += square(parts) / ranks
            left_mean += float(here @ mean)
            mean_mean += square(mean)
            left_own += float(here @ mine)
            own_own += square(mine)
            left_left += square(here)
    size = sum(sizes.values())
    errors = {name: ratio(distances[name], sizes[name]) ** 0.5 for name in own}
    worst = max(errors, key=lambda name: errors[name])
    scale, own_scale = ratio(left_mean, mean_mean), ratio(left_own, own_own)
    return Audit(
        of=of,
        error=finite(ratio(sum(distances.values()), size) ** 0.5),
        worst=worst,
        worst_error=finite(errors[worst]),
        scale=finite(scale),
        scaled_error=finite(ratio(max(left_left - scale * left_mean, 0.0), size) ** 0.5),
        own_scale=finite(own_scale),
        own_error=finite(ratio(max(left_left - own_scale * left_own, 0.0), size) ** 0.5),
    )


def backward(network: nn.Module, batch: Batch, weight: float) -> None:
    device = next(network.parameters()).device
    inputs, labels = (tensor.to(device) for tensor in batch)  # one batch at a time: memory is full of the training
    (F.cross_entropy(network(inputs), labels, reduction="sum") * weight).backward()


def gradients(model: nn.Module) -> Tensors:
    """Of all parameters; zeros for those that got none."""
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach()
        for name, parameter in model.named_parameters()
    }


def pieces(tensor: Tensor) -> tuple[Tensor, ...]:
    """Cut where it no longer fits into the caches: ten passes in float64 are made over each piece."""
    cut: tuple[Tensor, ...] = tensor.reshape(-1).split(PIECE)
    return cut


def square(tensor: Tensor) -> float:
    return float(tensor.reshape(-1) @ tensor.reshape(-1))


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


@contextmanager
def restoring(model: nn.Module) -> Iterator[None]:
    """Put the model's parameters and buffers back afterwards."""
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    yield
    model.load_state_dict(before)
