"""How batches come to a rank's device: fetched by the rank itself, or ahead of it by processes of its own."""

import multiprocessing
import os
from collections.abc import Iterator
from functools import partial
from itertools import chain

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ddptui.config.trial import Trial
from workers.rank import guard
from workers.training.data import Samples, Share

Batch = tuple[Tensor, Tensor]
Batches = DataLoader[Batch]


def make_loader(trial: Trial, samples: Samples, share: Share, device: torch.device) -> Batches:
    """Yields a rank's share of each global batch. With `num_workers`, that many processes fetch ahead, the same batches
    in the same order.

    They are spawned, not forked: a rank has threads (its reporter's, gloo's, CUDA's), and a fork takes none along, but
    whatever locks they hold. And not through a forkserver: that may be the one that has made the rank itself, and is
    not the rank's to end. They stay from epoch to epoch, since spawning takes seconds.
    """
    workers = trial.num_workers
    return DataLoader(
        samples,
        sampler=share,
        batch_size=None,  # the sampler's items are batches already
        num_workers=workers,
        multiprocessing_context="spawn" if workers else None,
        persistent_workers=workers > 0,
        worker_init_fn=partial(start_worker, trial.dtype),
        pin_memory=pins_memory(trial, device),
        generator=torch.Generator(),  # or it draws from the rank's, whose dropout then depends on the workers
    )


def first_epoch(loader: Batches) -> Iterator[Batch]:
    """The first epoch's batches. Where others fetch them, the first one is here: what they need to start, which is
    seconds, is a part of the rank's own start, and no stall of its first step."""
    batches = iter(loader)
    return chain([next(batches)], batches) if loader.num_workers else batches


def on_device(trial: Trial, batch: Batch, device: torch.device) -> Batch:
    """Inputs and labels where the model is, images in the layout of its weights. torch does not wait for the copy; and
    from page-locked memory, the driver does not have to, either."""
    inputs, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
    if trial.channels_last and inputs.dim() == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return inputs, labels


def pins_memory(trial: Trial, device: torch.device) -> bool:
    """On the CPU there is nothing to copy."""
    return trial.pin_memory and device.type == "cuda"


def start_worker(dtype: str, _number: int) -> None:
    """In a worker, before its first batch. It must not outlive the rank, however that ends: from now on the kernel sees
    to it; that the rank has died while this process was starting, the pipe between them tells."""
    guard.die_with_parent()
    rank = multiprocessing.parent_process()
    if rank is not None and not rank.is_alive():
        os._exit(1)
    torch.set_default_dtype(getattr(torch, dtype))  # pixels become numbers here
