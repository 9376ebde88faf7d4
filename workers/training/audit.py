"""Checks whether the strategy's result is the mean: once, after the training, with the real strategy and gradients.

The true mean is computed independently. On each rank, a copy of the model that no strategy has touched computes the
rank's own gradient of the same samples. All ranks gather these gradients and compute the mean in float64.

Both computations use the parameters' own dtype, no torch.compile, and on a GPU the same kernels, whatever the training
used. A strategy receives gradients of that dtype in any case. Kernels that round differently would look like a mistake
of the strategy: with an H100's convolutions in TF32, a ResNet's gradients differ by 0.5%.
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

from ddptui.config.catalog import EXACT
from ddptui.wire.messages import Audit
from workers.aggregate.strategy import Strategy, broadcast_flat, gradients_of
from workers.rank.process import Rank
from workers.training.data import Samples

Batch = tuple[Tensor, Tensor]
Tensors = dict[str, Tensor]  # by the parameter's name
PIECE = 2**18  # numbers compared at a time: 2 MB in float64
MOST_WEIGHED = 16  # ranks whose weights are computed: the memory for it grows with their number
MOST_NAMED = 64  # wrong tensors that are named
MOST_STEPS = 3  # steps of an accumulation window that are used
MOST_SAMPLES = 32  # samples per rank and step: more may not fit in memory in float32, even if they did in training


def audit(me: Rank, strategy: Strategy, network: nn.Module, model: nn.Module, train: Samples) -> Audit | None:
    """Average once more, with samples of the training set, and compare with the true mean. This finds systematic
    mistakes of a strategy, not occasional ones. All ranks must call it. None without a process group."""
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
    """This rank's part of the batches of an accumulation window, at most MOST_STEPS."""
    size = min(me.trial.batch_size, len(train))
    # All ranks drop the same number of samples. A rank that has one sample less than the others keeps some.
    size -= max(0, math.ceil(size / me.world_size) - MOST_SAMPLES) * me.world_size
    batches = []
    for number in range(min(me.trial.every, MOST_STEPS)):
        first = number * size % (len(train) - size + 1)
        batches.append(train[list(range(first + me.rank, first + size, me.world_size))])
    return batches


def average_gradients(
    strategy: Strategy, network: nn.Module, model: nn.Module, batches: list[Batch], *, in_parts: bool
) -> tuple[Tensors, Tensors]:
    """The gradients that the strategy leaves on this rank, and this rank's own. in_parts: the network splits
    batches."""
    broadcast_flat(list(model.buffers()))  # as before each window; DDP's forward would do it, but not the copy's
    untouched = copy.deepcopy(model)
    device = next(model.parameters()).device
    weight = 1 / max(1, sum(len(labels) for _, labels in batches))  # gradients as large as in the training
    for net, pause in ((network, strategy.no_sync), (untouched, nullcontext)):
        # Split batches would get different dropout and BatchNorm statistics; in eval mode all use the training's.
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
            parameter.normal_()  # random numbers, so that ranks differ a lot
        own = {name: parameter.clone() for name, parameter in model.named_parameters()}
        strategy.average(list(model.parameters()))
        return {name: parameter.detach() for name, parameter in model.named_parameters()}, own


def compare(of: Literal["gradients", "parameters"], left: Tensors, own: Tensors) -> Audit:
    """Compare the strategy's result `left` with the true mean of all ranks' `own` tensors. Collective call."""
    ranks = dist.get_world_size()
    distances, sizes, from_own = (dict.fromkeys(own, 0.0) for _ in range(3))  # squared
    weighed = ranks if ranks <= MOST_WEIGHED else 0
    products = torch.zeros(3 + weighed, 3 + weighed, dtype=torch.float64)  # inner products of the vectors below
    for piece in pieces(own, left):
        own_piece = torch.cat([own_part for _, own_part, _ in piece])
        gathered = [torch.empty_like(own_piece) for _ in range(ranks)]
        dist.all_gather(gathered, own_piece)
        all_parts = torch.stack(gathered).split([len(own_part) for _, own_part, _ in piece], dim=1)
        for (name, *own_and_left), parts in zip(piece, all_parts, strict=True):
            own_part, left_part = (part.double() for part in own_and_left)
            mean = parts.mean(0, dtype=torch.float64)  # not parts.double(), a large copy with many ranks
            distances[name] += square(left_part - mean)
            sizes[name] += float(torch.linalg.vector_norm(parts, dtype=torch.float64)) ** 2 / ranks
            from_own[name] += square(left_part - own_part)
            vectors = torch.stack([left_part, own_part, mean, *parts[:weighed].double()])
            products += (vectors @ vectors.T).cpu()
    left_left, left_own, left_mean = products[0, :3].tolist()
    own_own, mean_mean = products.diagonal()[1:3].tolist()
    size = sum(sizes.values())
    errors = {name: ratio(distances[name], sizes[name]) ** 0.5 for name in own}
    worst = max(errors, key=lambda name: errors[name])
    exact = EXACT.get(str(own[worst].dtype).removeprefix("torch."), torch.finfo(own[worst].dtype).eps)
    wrong = [name for name in own if not errors[name] <= exact]
    kept = [name for name in wrong if ratio(from_own[name], sizes[name]) ** 0.5 <= exact]
    weights, rest = weigh(products[3:, 3:], products[3:, 0], left_left)
    scale, own_scale = ratio(left_mean, mean_mean), ratio(left_own, own_own)
    return Audit(
        of=of,
        error=finite(ratio(sum(distances.values()), size) ** 0.5),
        worst=worst,
        worst_error=finite(errors[worst]),
        scale=finite(scale),
        # |left - s mean|² = |left|² - s (left · mean) for the nearest s; rounding may make it slightly negative.
        scaled_error=finite(ratio(max(left_left - scale * left_mean, 0.0), size) ** 0.5),
        own_scale=finite(own_scale),
        own_error=finite(ratio(max(left_left - own_scale * left_own, 0.0), size) ** 0.5),
        bytes=sum(tensor.nbytes for tensor in own.values()),
        tensors=len(own),
        wrong=tuple(wrong[:MOST_NAMED]),
        wrong_tensors=len(wrong),
        kept_tensors=len(kept),
        weights=weights,
        weighted_error=finite(ratio(max(rest, 0.0), size) ** 0.5),
    )


def weigh(products: Tensor, with_left: Tensor, left_left: float) -> tuple[tuple[float, ...], float]:
    """The weights of the ranks: those of the sum of weight × tensors over the ranks that is nearest to the result, as
    the normal equations of least squares give them; and the squared distance of that sum from the result. Empty, and 0,
    if there are no products, or not all are finite.

    products (ranks, ranks): inner products of the ranks' tensors. with_left (ranks): those of each rank's tensors and
    the result. left_left: the squared norm of the result.
    """
    if not len(products) or not (math.isfinite(left_left) and products.isfinite().all()):
        return (), 0.0
    weights = torch.linalg.pinv(products, hermitian=True) @ with_left
    rest = left_left - 2 * float(weights @ with_left) + float(weights @ products @ weights)
    return tuple(weights.tolist()), rest


def pieces(own: Tensors, left: Tensors) -> Iterator[list[tuple[str, Tensor, Tensor]]]:
    """Yield lists of (name, flat part of own, flat part of left) with at most PIECE numbers in total. That fits into
    the caches for ten passes in float64. Small tensors share a piece, since a collective of many ranks takes as long as
    a step."""
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
    """Add the gradients of a batch, times `weight`, to the network's gradients."""
    device = next(network.parameters()).device
    inputs, labels = (tensor.to(device) for tensor in batch)  # one at a time: the training still holds memory
    # Make cuDNN always use the same convolution algorithm, in float32.
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        (F.cross_entropy(network(inputs), labels, reduction="sum") * weight).backward()


def gradients(model: nn.Module) -> Tensors:
    """The gradients of all parameters by name; zeros for a parameter without one."""
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach()
        for name, parameter in model.named_parameters()
    }


def square(tensor: Tensor) -> float:
    """The sum of squares of a tensor."""
    return float(tensor.reshape(-1) @ tensor.reshape(-1))


def ratio(part: float, whole: float) -> float:
    """part / whole, or 0 if whole is 0."""
    return part / whole if whole else 0.0


def finite(number: float) -> float | None:
    """The number, or None for NaN and infinity."""
    return number if math.isfinite(number) else None
