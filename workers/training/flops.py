"""Counts the floating-point operations of a training step on a GPU, and names the dtype in which the GPU computes."""

import contextlib
import copy
import os
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from workers.rank.process import Rank
from workers.training.data import Data
from workers.training.evaluate import samples_at_once

META = torch.device("meta")  # its tensors have shapes and dtypes, but no data
NAMES = {torch.float64: "float64", torch.float32: "float32", torch.bfloat16: "bf16", torch.float16: "fp16"}
FIRST_WITH_TF32 = (8, 0)  # compute capability: Ampere
TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"  # 0: NVIDIA's libraries use no TF32, even if torch allows it


class SampleWork(NamedTuple):
    """The work of one sample. flops: operations of forward, loss and backward; None if not counted."""

    flops: float | None = None
    precision: str = ""  # as in wire.messages.Ready; empty if not counted


class Counted(NamedTuple):
    """The floating-point operations of a batch, and how many of them are in convolutions."""

    total: int
    of_convolutions: int


def count_work(me: Rank, model: nn.Module, data: Data) -> SampleWork:
    """The work of one sample, counted on the model without wrappers. Without a GPU, nothing is counted or imported."""
    if me.device.type != "cuda":
        return SampleWork()
    samples = samples_at_once(me.trial)
    counted = count_batch(model, (samples, *data.shape))
    if counted is None or counted.total == 0:
        return SampleWork()
    mostly_convolutions = counted.of_convolutions > counted.total / 2
    return SampleWork(counted.total / samples, me.trial.amp or precision(model, me.device, mostly_convolutions))


def count_batch(model: nn.Module, shape: tuple[int, ...]) -> Counted | None:
    """The operations of forward, loss and backward for a batch of this shape (n, *shape of a sample). A multiplication
    and an addition count as two. Only matrix products and convolutions are counted.

    They are counted on a copy of the model on torch's meta device, where tensors only have shapes: nothing is computed,
    and parameters, buffers and torch's random generators stay as they are. Hooks of the modules are not called. But
    side effects of a forward, such as appending to a global list, do happen, with tensors without data.

    Returns None if the model does not run there, because its forward depends on values, or computes with a tensor that
    is neither parameter nor buffer, such as a plain attribute of a module.
    """
    from torch.utils.flop_counter import FlopCounterMode  # here: ranks on the CPU do not need it

    with unnoticed():
        try:
            on_meta = without_data(model)
            inputs, labels = torch.empty(shape, device=META), torch.empty(shape[0], dtype=torch.long, device=META)
            with FlopCounterMode(display=False, custom_mapping=CORRECTED) as counter:
                F.cross_entropy(on_meta(inputs), labels, reduction="sum").backward()
        except Exception:  # a forward may raise anything, and a missing figure must not end the training
            return None
    operations = {str(name): number for name, number in counter.get_flop_counts().get("Global", {}).items()}
    convolutions = sum(number for name, number in operations.items() if "convolution" in name)
    return Counted(counter.get_total_flops(), convolutions)


@contextlib.contextmanager
def unnoticed() -> Iterator[None]:
    """Suppress output and warnings of the user's model while the context is open; they appear in its first step.
    Restores torch's random generators."""
    gpus = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(OfOtherThreads(sys.stdout)),
        torch.random.fork_rng(devices=gpus),
    ):
        warnings.simplefilter("ignore")
        yield


class OfOtherThreads:
    """A stream that drops what the thread writes that made this object. Other threads still write: the reporter's
    thread may print why it ends the rank."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._silent = threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._silent else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def convolution_backward(
    gradient: Sequence[int], inputs: Sequence[int], weights: Sequence[int], *options: Any, out_shape: Any
) -> int:
    """The operations of a convolution's backward, from the shapes: the gradients of inputs and weights each take as
    many as the forward."""
    transposed, (of_inputs, of_weights, _) = options[4], options[7]
    positions = inputs if transposed else gradient  # each position is multiplied by all weights
    return int(2 * positions[0] * prod(positions[2:]) * prod(weights) * (of_inputs + of_weights))


# Torch's own formula overcounts grouped convolutions: MobileNet's sevenfold (github.com/pytorch/pytorch/pull/183405).
CORRECTED = {torch.ops.aten.convolution_backward: convolution_backward}


def without_data(model: nn.Module) -> nn.Module:
    """A copy of the model on the meta device. Its parameters and buffers take no memory, not even temporarily. It has
    no hooks, since the model's hooks may be closures that keep what they receive."""
    # deepcopy takes objects in its memo as copied already.
    memo: dict[int, Any] = {id(hooks): OrderedDict() for module in model.modules() for hooks in hooks_of(module)}
    memo |= {id(buffer): buffer.to(META) for buffer in model.buffers()}
    memo |= {
        id(parameter): nn.Parameter(parameter.detach().to(META), requires_grad=parameter.requires_grad)
        for parameter in model.parameters()
    }
    return copy.deepcopy(model, memo)


def hooks_of(module: nn.Module) -> list[dict[Any, Any]]:
    """The module's dictionaries of hooks, one for each kind of hook."""
    return [value for name, value in vars(module).items() if name.endswith("_hooks") and isinstance(value, dict)]


def precision(model: nn.Module, device: torch.device, mostly_convolutions: bool) -> str:
    """The dtype in which a GPU multiplies without autocast: that of the parameters, or TF32 if torch allows it."""
    dtype = next((parameter.dtype for parameter in model.parameters()), torch.get_default_dtype())
    if dtype == torch.float32 and has_tf32(device) and allows_tf32(mostly_convolutions):
        return "tf32"
    return NAMES.get(dtype, "")


def has_tf32(device: torch.device) -> bool:
    """Whether the GPU supports TF32, and the environment does not forbid it."""
    return torch.cuda.get_device_capability(device) >= FIRST_WITH_TF32 and os.environ.get(TF32_OVERRIDE) != "0"


def allows_tf32(convolutions: bool) -> bool:
    """Whether torch computes float32 convolutions (else matrix products) in TF32; by default, only convolutions."""
    matmul: Any = torch.backends.cuda.matmul
    cudnn: Any = torch.backends.cudnn
    settings: Any = getattr(cudnn, "conv", None) if convolutions else matmul
    if hasattr(settings, "fp32_precision"):  # since torch 2.9; if it is set, the older names may raise
        return bool(settings.fp32_precision == "tf32")
    return bool(cudnn.allow_tf32 if convolutions else matmul.allow_tf32)
