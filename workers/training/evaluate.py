"""Evaluates the model after the last step, and hashes it to compare the ranks' replicas."""

import hashlib
import math
import os
import time
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ddptui.config.trial import Trial
from ddptui.wire.connection import LOGS
from ddptui.wire.messages import Done, Fingerprint
from workers.instruments.gpu import memory_of
from workers.rank.process import Rank
from workers.training.data import Samples

MAX_BATCH = 512  # samples evaluated at a time


def evaluate(me: Rank, model: nn.Module, test: Samples) -> Done:
    """Evaluate this rank's share of the held-out samples, hash the model, and save it if the trial says so."""
    # Read the peaks first: evaluation uses other batches than training.
    *_, peak, peak_reserved = memory_of(me.device)
    indices = range(me.rank, len(test), me.world_size)
    batch = min(MAX_BATCH, samples_at_once(me.trial))  # at most as in training, for which the memory sufficed
    correct, evaluated = accuracy(model, test, indices, me.device, batch)
    return Done(
        rank=me.rank,
        at_ns=time.monotonic_ns(),
        correct=correct,
        evaluated=evaluated,
        parameters=hashes(model.named_parameters()),
        buffers=hashes(model.named_buffers()),
        bottleneck_fired=me.delays.fired,
        bottleneck_ns=me.delays.slept_ns,
        peak_gpu_bytes=peak,
        peak_gpu_reserved_bytes=peak_reserved,
        checkpoint=save(model, me.rank) if me.trial.save else None,
        dropped=me.reporter.dropped,
    )


def samples_at_once(trial: Trial) -> int:
    """The maximum number of samples that one device gets in a training step."""
    return math.ceil(trial.batch_size / (trial.world_size * trial.gpus_per_rank))


def fingerprint(model: nn.Module, rank: int, step: int) -> Fingerprint:
    """The hashes of this rank's model after a step."""
    return Fingerprint(
        rank=rank, step=step, parameters=hashes(model.named_parameters()), buffers=hashes(model.named_buffers())
    )


def accuracy(model: nn.Module, test: Samples, indices: range, device: torch.device, batch: int) -> tuple[int, int]:
    """How many of these samples the model classifies correctly, and how many there are. Leaves the model in eval
    mode."""
    model.eval()
    correct = 0
    with torch.no_grad():
        for start in range(0, len(indices), batch):
            inputs, labels = test[list(indices[start : start + batch])]
            correct += int((model(inputs.to(device)).argmax(1) == labels.to(device)).sum())
    return correct, len(indices)


def hashes(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, str]:
    """A short hash of each tensor's bytes, by name. Equal hashes mean that all bits of the tensors are equal."""
    hashed = {}
    for name, tensor in tensors:
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)  # bytes: NumPy has no bfloat16
        hashed[name] = hashlib.blake2b(flat.numpy().tobytes(), digest_size=8).hexdigest()
    return hashed


def save(model: nn.Module, rank: int) -> str:
    """Save the model's state_dict, without wrappers, so that it loads without torch.distributed. Returns the path."""
    path = os.path.join(os.environ.get(LOGS, "."), f"model-rank-{rank}.pth")
    torch.save(model.state_dict(), path)
    return path
