"""How batches reach a rank's device: loaded by the rank itself, or ahead of it by worker processes."""

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
    """Yields a rank's share of each global batch, whether the rank or `num_workers` processes load it."""
    # They are spawned. A rank has threads (its reporter's, gloo's, CUDA's), and a fork copies the locks that they hold,
    # but not the threads. A forkserver may be the one that started the rank, and the rank must not end that one.
    workers = trial.num_workers
    return DataLoader(
        samples,
        sampler=share,
        batch_size=None,  # the sampler's items are batches already
        num_workers=workers,
        multiprocessing_context="spawn" if workers else None,
        persistent_workers=workers > 0,  # from epoch to epoch: spawning takes seconds
        worker_init_fn=partial(start_worker, trial.dtype),
        pin_memory=pins_memory(trial, device),
        generator=torch.Generator(),  # not the rank's: its dropout would depend on the workers
    )


def first_epoch(loader: Batches) -> Iterator[Batch]:
    """The first epoch's batches."""
    batches = iter(loader)
    # With workers, wait for the first batch: the seconds until they run belong to the rank's start, not its first step.
    return chain([next(batches)], batches) if loader.num_workers else batches


def on_device(trial: Trial, batch: Batch, device: torch.device) -> Batch:
    """The batch on the model's device, images in the memory format of its weights."""
    # torch does not wait for the copy; from page-locked memory, neither does the driver.
    inputs, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
    if trial.channels_last and inputs.dim() == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return inputs, labels


def pins_memory(trial: Trial, device: torch.device) -> bool:
    """Whether batches go through page-locked memory."""
    return trial.pin_memory and device.type == "cuda"  # on the CPU nothing is copied


def start_worker(dtype: str, _number: int) -> None:
    """Prepare a worker, before its first batch."""
    guard.die_with_parent()
    rank = multiprocessing.parent_process()
    if rank is not None and not rank.is_alive():  # it died while this process was starting
        os._exit(1)
    torch.set_default_dtype(getattr(torch, dtype))  # the worker turns pixels into numbers
