"""Checks whether the strategy leaves the mean: once, after the training, with the real strategy and real gradients.

The right mean is computed another way. A copy of the model, which no strategy has touched, computes each rank's own
gradient of the same samples. All ranks gather these and take the mean in float64.

Both compute in the parameters' own type and uncompiled, whatever the training did, and on a GPU with the same kernels.
A strategy gets gradients of that type in any case, and two kernels that round differently would look like a mistake of
the strategy: an H100's convolutions in TF32 put a ResNet's gradients 0.5% apart.
"""

import copy
import math
from collections.abc import Iterator
from contextlib import nullcontext
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
Tensors = dict[str, Tensor]  # by the parameter's name
PIECE = 2**18  # numbers: 2 MB in float64
MOST_STEPS = 3  # of a window
MOST_SAMPLES = 32  # of a rank in a step: in float32 more might not fit where the training's batch did


def audit(me: Rank, strategy: Strategy, network: nn.Module, model: nn.Module, train: Samples) -> Audit | None:
    """Average once more, with samples of the training set, and compare. It finds what a strategy always does wrong, not
    what it does now and then. All ranks must call this."""
    if me.trial.strategy is None:  # one process without a group
        return None
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if me.trial.average == "parameters":
        audited = compare("parameters", *average_parameters(strategy, model))
    else:
        in_parts = me.trial.gpus_per_rank > 1
        left_and_own = average_gradients(strategy, network, model, shares(me, train), in_parts=in_parts)
        audited = compare("gradients", *left_and_own)
    model.load_state_dict(before)
    return audited


def shares(me: Rank, train: Samples) -> list[Batch]:
    """This rank's part of a window's batches, MOST_STEPS at most."""
    size = min(me.trial.batch_size, len(train))
    # All ranks drop the same number of samples. A rank that has one less than the others still has some left.
    size -= max(0, math.ceil(size / me.world_size) - MOST_SAMPLES) * me.world_size
    batches = []
    for number in range(min(me.trial.every, MOST_STEPS)):
        first = number * size % (len(train) - size + 1)
        batches.append(train[list(range(first + me.rank, first + size, me.world_size))])
    return batches


def average_gradients(
    strategy: Strategy, network: nn.Module, model: nn.Module, batches: list[Batch], *, in_parts: bool
) -> tuple[Tensors, Tensors]:
    """The gradients that the strategy leaves on this rank, and this rank's own. in_parts: the network cuts batches."""
    broadcast_flat(list(model.buffers()))  # as before each window; DDP's forward would do it, the copy's not
    untouched = copy.deepcopy(model)
    device = next(model.parameters()).device
    weight = 1 / max(1, sum(len(labels) for _, labels in batches))  # gradients as large as in the training
    for net, pause in ((network, strategy.no_sync), (untouched, nullcontext)):
        # Parts would have dropout and BatchNorm statistics of their own. In eval mode all have those of the training.
        net.train(not in_parts)
        net.zero_grad()
        with torch.random.fork_rng([device] if device.type == "cuda" else []):  # the same dropout in both
            for batch in batches[:-1]:
                with pause():
                    backward(net, batch, weight)
            backward(net, batches[-1], weight)
    strategy.average(gradients_of(model))
    return gradients(model), gradients(untouched)


def average_parameters(strategy: Strategy, model: nn.Module) -> tuple[Tensors, Tensors]:
    """The parameters that the strategy leaves on this rank, and this rank's own."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()  # noise, so that ranks differ a lot
        own = {name: parameter.clone() for name, parameter in model.named_parameters()}
        strategy.average(list(model.parameters()))
        return {name: parameter.detach() for name, parameter in model.named_parameters()}, own


def compare(of: Literal["gradients", "parameters"], left: Tensors, own: Tensors) -> Audit:
    """How far the strategy's result `left` is from the true mean, as wire.Audit has it."""
    ranks = dist.get_world_size()
    distances, sizes = dict.fromkeys(own, 0.0), dict.fromkeys(own, 0.0)  # squared
    left_mean = mean_mean = left_own = own_own = left_left = 0.0  # inner products
    for piece in pieces(own, left):
        own_piece = torch.cat([own_part for _, own_part, _ in piece])
        gathered = [torch.empty_like(own_piece) for _ in range(ranks)]
        dist.all_gather(gathered, own_piece)
        all_parts = torch.stack(gathered).split([len(own_part) for _, own_part, _ in piece], dim=1)
        for (name, *own_and_left), parts in zip(piece, all_parts, strict=True):
            own_part, left_part = (part.double() for part in own_and_left)
            mean = parts.mean(0, dtype=torch.float64)  # not parts.double(): of many ranks that is a large copy
            distances[name] += square(left_part - mean)
            sizes[name] += float(torch.linalg.vector_norm(parts, dtype=torch.float64)) ** 2 / ranks
            left_mean += float(left_part @ mean)
            mean_mean += square(mean)
            left_own += float(left_part @ own_part)
            own_own += square(own_part)
            left_left += square(left_part)
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
        # |left - s mean|² = |left|² - s (left · mean) for the nearest s; rounding may leave it a little below 0.
        scaled_error=finite(ratio(max(left_left - scale * left_mean, 0.0), size) ** 0.5),
        own_scale=finite(own_scale),
        own_error=finite(ratio(max(left_left - own_scale * left_own, 0.0), size) ** 0.5),
    )


def pieces(own: Tensors, left: Tensors) -> Iterator[list[tuple[str, Tensor, Tensor]]]:
    """Flat parts of both, by name, PIECE numbers at most at a time: that fits into the caches, where ten passes in
    float64 go over it, and small tensors travel together. Among many ranks, a collective takes as long as a step."""
    piece: list[tuple[str, Tensor, Tensor]] = []
    for name in own:
        parts = (tensors[name].reshape(-1).split(PIECE) for tensors in (own, left))
        for own_part, left_part in zip(*parts, strict=True):
            if piece and sum(len(part) for _, part, _ in piece) + len(own_part) > PIECE:
                yield piece
                piece = []
            piece.append((name, own_part, left_part))
    yield piece


def backward(network: nn.Module, batch: Batch, weight: float) -> None:
    """Add the batch's gradients, times the weight, to those of the network."""
    device = next(network.parameters()).device
    inputs, labels = (tensor.to(device) for tensor in batch)  # one batch at a time: the training still takes memory
    # Of cuDNN's ways to convolve, always the same one, and in float32.
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        (F.cross_entropy(network(inputs), labels, reduction="sum") * weight).backward()


def gradients(model: nn.Module) -> Tensors:
    """The gradients of all parameters; zeros for those that have none."""
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach()
        for name, parameter in model.named_parameters()
    }


def square(tensor: Tensor) -> float:
    """The sum of the squares."""
    return float(tensor.reshape(-1) @ tensor.reshape(-1))


def ratio(part: float, whole: float) -> float:
    """part / whole; 0 of nothing."""
    return part / whole if whole else 0.0


def finite(number: float) -> float | None:
    """The number, or None for NaN and infinity."""
    return number if math.isfinite(number) else None
