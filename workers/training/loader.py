"""Loads batches, in the rank itself or ahead of time in worker processes, and copies them to the rank's device."""

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
    """A loader of the rank's share of each global batch, in the rank itself or in `num_workers` processes."""
    # Workers are spawned. A rank has threads (of the reporter, gloo and CUDA), and a fork copies the locks that they
    # hold, but not the threads. A forkserver may be the one that started the rank, which the rank must not end.
    workers = trial.num_workers
    return DataLoader(
        samples,
        sampler=share,
        batch_size=None,  # the sampler yields whole batches
        num_workers=workers,
        multiprocessing_context="spawn" if workers else None,
        persistent_workers=workers > 0,  # kept between epochs, since spawning takes seconds
        worker_init_fn=partial(start_worker, trial.dtype),
        pin_memory=pins_memory(trial, device),
        generator=torch.Generator(),  # not the default one, or dropout would depend on the number of workers
    )


def first_epoch(loader: Batches) -> Iterator[Batch]:
    """An iterator over the first epoch's batches."""
    batches = iter(loader)
    # Wait for the workers' first batch: the seconds until they run belong to the rank's start, not to its first step.
    return chain([next(batches)], batches) if loader.num_workers else batches


def on_device(trial: Trial, batch: Batch, device: torch.device) -> Batch:
    """Copy a batch to the model's device, with images in the memory format of the model's weights."""
    # torch does not wait for the copy; nor does the driver if the batch is in page-locked memory.
    inputs, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
    if trial.channels_last and inputs.dim() == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return inputs, labels


def pins_memory(trial: Trial, device: torch.device) -> bool:
    """Whether batches go through page-locked memory."""
    return trial.pin_memory and device.type == "cuda"  # on the CPU, nothing is copied


def start_worker(dtype: str, _number: int) -> None:
    """Prepare a worker process before its first batch."""
    guard.die_with_parent()
    rank = multiprocessing.parent_process()
    if rank is not None and not rank.is_alive():  # the rank died while this process was starting
        os._exit(1)
    torch.set_default_dtype(getattr(torch, dtype))  # the worker converts pixels to this dtype
