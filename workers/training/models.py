"""The models: the MNIST net of torch's tutorials, an MLP, three small layers, torchvision's, and the user's own."""

import math
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ddptui.config.trial import SHAPES, Trial, in_short, is_own, parsed
from workers.own_code import load_own

WANTED: dict[str, tuple[int, ...] | None] = {**SHAPES, "mlp": None}  # an mlp takes any shape
WANTED_BY_TORCHVISION = (3, 32, 32)


class Net(nn.Module):
    """Two convolutions and two linear layers, with dropout: 21,840 parameters."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)  # cross_entropy of log-probabilities is nll_loss


class Linears(nn.Module):
    """Three 3 × 3 layers without bias, to demonstrate how a batch is split."""

    def __init__(self) -> None:
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(3, 3, bias=False) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for linear in self.linears:
            x = linear(x)
        return x


class Layers(nn.Sequential):
    """nn.Sequential whose `forward` torch.compile compiles."""

    # The same as in nn.Sequential, but in our file: torch.compile skips modules that torch itself defines, and would
    # compile nothing under torch DDP.
    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer(x)
        return x


def mlp(shape: tuple[int, ...], width: int, depth: int, classes: int, *, batch_norm: bool = False) -> nn.Module:
    """An MLP with `depth` hidden layers of `width` units, each followed by BatchNorm (if `batch_norm`) and ReLU."""
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise([math.prod(shape), *[width] * depth]):
        layers += [nn.Linear(before, after), *([nn.BatchNorm1d(after)] if batch_norm else []), nn.ReLU()]
    return Layers(*layers, nn.Linear(width, classes))


def input_shape(trial: Trial) -> tuple[int, ...] | None:
    """The shape of a sample that the trial's model takes; None if it takes any."""
    return None if is_own(trial.model) else WANTED.get(trial.model, WANTED_BY_TORCHVISION)


def make_model(trial: Trial, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The trial's model, for samples of this shape. Raises ValueError for an unknown name, TypeError if the user's
    function returns no model."""
    match trial.model:
        case "net":
            return Net(classes)
        case "mlp":
            return mlp(shape, trial.width, trial.depth, classes, batch_norm=trial.batch_norm)
        case "linears":
            return Linears()
        case name if is_own(name):
            return own_model(name, classes)
        case name:
            from torchvision.models import get_model  # here: ranks with another model start sooner without it

            model: nn.Module = get_model(name, weights=None, num_classes=classes)
            return model


def own_model(name: str, classes: int) -> nn.Module:
    """The model that the user's function returns. Raises ValueError without such a function, TypeError if it returns no
    model."""
    make = load_own("model", name)
    call = f"model {in_short(name)!r}: {parsed(name).name}(num_classes={classes})"
    try:
        model = make(num_classes=classes)
    except TypeError as error:
        if error.__traceback__ and error.__traceback__.tb_next:  # in the user's code: its own line says more
            raise
        raise TypeError(f"{call}: {error}") from error
    if not isinstance(model, nn.Module):
        raise TypeError(f"{call} must return an nn.Module, but returned {type(model).__name__}")
    return model


def with_sync_batchnorm(model: nn.Module) -> nn.Module:
    """The model with SyncBatchNorm, whose statistics are over the global batch. Raises RuntimeError on the CPU."""
    if any(parameter.device.type == "cpu" for parameter in model.parameters()):
        raise RuntimeError("sync_batchnorm: torch's SyncBatchNorm runs on GPUs only, and this rank is on the CPU")
    synced: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return synced


def memory_format(trial: Trial) -> torch.memory_format:
    """The memory format of 4-dimensional tensors, i.e. images and weights of convolutions."""
    return torch.channels_last if trial.channels_last else torch.preserve_format


def compiled(trial: Trial, network: nn.Module) -> Callable[[Tensor], Tensor]:
    """The function that the loop calls as forward: the network, or torch.compile of it, with the same parameters.

    We compile the network that the strategy has prepared, as torch recommends for DDP. DDP's buckets then split the
    graph: backward is compiled in as many parts, and one part's gradients are sent while the next part runs. Without
    DDP, backward is one part, and all gradients arrive at its end, so the lab's own strategies overlap nothing.

    The first step compiles, and so does the first smaller batch, at the end of an epoch. Include both in the warm-up,
    or choose a batch size that divides the number of samples.
    """
    forward: Callable[[Tensor], Tensor] = torch.compile(network) if trial.compile else network
    return forward


def set_dtype(trial: Trial) -> None:
    """Make the trial's dtype, float32 or float64, torch's default in this process."""
    torch.set_default_dtype(getattr(torch, trial.dtype))
