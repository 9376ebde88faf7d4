"""The datasets, each rank's share of the samples, and loading batches in the rank itself or ahead of time."""

import hashlib
import math
import multiprocessing
import os
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ddptui.config.trial import Trial, in_short, is_own
from workers.own_code import load_own
from workers.rank import guard

DIGITS = Path(__file__).parent / "datasets" / "digits.npz"
HELD_OUT = 5  # in datasets without a test set, every fifth sample is held out
NORMAL = {  # mean and standard deviation of the pixels of the training set, on a scale from 0 to 1
    "digits": (0.305, 0.376),
    "mnist": (0.1307, 0.3081),
    "fashion_mnist": (0.2860, 0.3530),
    "cifar10": (0.4734, 0.2516),
}
OWN_DATA = "((inputs, labels), (test_inputs, test_labels)), which are tensors"
MOST_ORDERS = 1000  # epochs whose order is reported, so that the rank's last message stays short
RESIZED_AT_ONCE = 4096  # images resized at a time: a float copy of all would take four times their memory


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """Inputs (count, *shape) and labels (count). Indexing with n indices gives a batch: (n, *shape) and (n)."""

    def __init__(self, inputs: Tensor, labels: Tensor, mean: float = 0.0, std: float = 1.0) -> None:
        self.inputs = inputs
        self.labels = labels
        self._mean = mean
        self._std = std

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        # Indexing with the list itself would make the host wait for its copy to the device.
        rows = torch.tensor(indices, dtype=torch.long).to(self.inputs.device, non_blocking=True)
        inputs = self.inputs[rows]
        if inputs.dtype == torch.uint8:  # images stay bytes: a quarter of float32's memory, an eighth of float64's
            inputs = inputs.to(torch.get_default_dtype()).div_(255).sub_(self._mean).div_(self._std)
        return inputs, self.labels[rows]


class Data(NamedTuple):
    """A dataset, split into training and test samples."""

    train: Samples
    test: Samples
    shape: tuple[int, ...]  # shape of one sample
    classes: int


class Share(DistributedSampler[list[int]]):
    """A rank's share of every global batch: each item is a list of indices.

    It shuffles like torch's DistributedSampler, and assigns the samples of every global batch to the ranks in turn. But
    it pads and drops nothing: all ranks together see each sample once per epoch, in the same order at any world size.
    So the last batch may be uneven, even empty for some ranks.
    """

    def __init__(self, dataset: Samples, *, batch_size: int, rank: int, world_size: int, seed: int) -> None:
        super().__init__(dataset, num_replicas=world_size, rank=rank, seed=seed)
        self._samples = len(dataset)
        self._batch_size = batch_size
        self.orders = deque[str](maxlen=MOST_ORDERS)  # a short hash of the order in each of the last epochs

    def __len__(self) -> int:
        return math.ceil(self._samples / self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        permutation = torch.randperm(self._samples, generator=generator)
        self.orders.append(hashlib.blake2b(permutation.numpy().tobytes(), digest_size=8).hexdigest())
        order = permutation.tolist()
        for start in range(0, self._samples, self._batch_size):
            yield order[start : start + self._batch_size][self.rank :: self.num_replicas]

    def samples_in(self, batch: int) -> int:
        """The size of the global batch, over all ranks, with this number in the epoch."""
        return min(self._batch_size, self._samples - batch * self._batch_size)


def load(trial: Trial, wanted: tuple[int, ...] | None, device: torch.device) -> Data:
    """The trial's dataset. wanted: the shape of a sample that the model takes; None to keep the dataset's shape.

    Raises ValueError if the dataset is in files and the trial has no data_dir.
    """
    if trial.dataset == "random":
        # Made on the device, unless the trial loads batches through worker processes or page-locked memory.
        where = torch.device("cpu") if trial.num_workers or trial.pin_memory else device
        return _random(trial, trial.shape or wanted or (3, 32, 32), where)
    if is_own(trial.dataset):
        return _own(trial.dataset, wanted)
    parts = _images(trial)
    shape = wanted or tuple(parts[0][0].shape[1:])
    train, test = (Samples(resize(images, shape), labels, *NORMAL[trial.dataset]) for images, labels in parts)
    return Data(train, test, shape, classes=10)


def _own(name: str, wanted: tuple[int, ...] | None) -> Data:
    """The data that the user's function returns: (inputs, labels) for training, and for the test. Raises ValueError for
    other data, or for samples that the model does not take."""
    parts = load_own("dataset", name)()
    try:
        (inputs, labels), (test_inputs, test_labels) = parts
        train, test = (Samples(_floats(x), y.long()) for x, y in ((inputs, labels), (test_inputs, test_labels)))
        shape, every = tuple(inputs.shape[1:]), torch.cat([train.labels, test.labels])
        fits = every.dim() == 1 and len(inputs) == len(labels) > 0 and len(test_inputs) == len(test_labels)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(f"dataset {in_short(name)!r}: it must return {OWN_DATA}: {error}") from error
    if not fits:
        raise ValueError(f"dataset {in_short(name)!r}: it must return {OWN_DATA}, with a label for each sample")
    if every.min() < 0:
        raise ValueError(f"dataset {in_short(name)!r}: its labels must count from 0; one is {int(every.min())}")
    if wanted not in (None, shape):
        raise ValueError(f"dataset {in_short(name)!r}: it has samples of shape {shape}; the model takes {wanted}")
    return Data(train, test, shape, classes=int(every.max()) + 1)


def _floats(inputs: Tensor) -> Tensor:
    """The inputs in the type of the model, since numpy's are float64; integers, as of an embedding, as they are."""
    return inputs.to(torch.get_default_dtype()) if inputs.is_floating_point() else inputs


def resize(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Resize byte images (n, c, h, w) to (n, *shape). Gray is repeated into channels; colors are averaged into gray."""
    channels, *size = shape
    if images.shape[1] != channels:
        images = images.float().mean(1, keepdim=True).round().to(torch.uint8).expand(-1, channels, -1, -1)
    if list(images.shape[2:]) == size:
        return images.contiguous()
    parts = (F.interpolate(part.float(), size=size, mode="bilinear") for part in images.split(RESIZED_AT_ONCE))
    return torch.cat([part.round().to(torch.uint8) for part in parts])


def _images(trial: Trial) -> list[tuple[Tensor, Tensor]]:
    """Images and labels of the training set, then of the test set: bytes (n, c, h, w) and int64 (n)."""
    if trial.dataset == "digits":
        return _digits()
    from torchvision import datasets  # here: it is slow to import, and loader workers do not need it

    factory = {"mnist": datasets.MNIST, "fashion_mnist": datasets.FashionMNIST, "cifar10": datasets.CIFAR10}
    if trial.data_dir is None:
        raise ValueError(f"dataset {trial.dataset} is read from files: name their folder with data_dir=FOLDER")
    parts = []
    for train in (True, False):
        part = factory[trial.dataset](trial.data_dir, train=train, download=trial.download)
        images = torch.as_tensor(part.data)  # gray (n, h, w), or colors (n, h, w, c)
        images = images.unsqueeze(1) if images.dim() == 3 else images.permute(0, 3, 1, 2)
        parts.append((images, torch.as_tensor(part.targets)))
    return parts


def _digits() -> list[tuple[Tensor, Tensor]]:
    """The 1,797 UCI digits of 8 × 8 pixels, scaled from 0..16 to 0..255."""
    with numpy.load(DIGITS, allow_pickle=False) as archive:  # a pickle could run code
        images = (torch.from_numpy(archive["images"]).unsqueeze(1).float() * (255 / 16)).round().to(torch.uint8)
        labels = torch.from_numpy(archive["labels"]).long()
    held_out = torch.arange(len(labels)) % HELD_OUT == 0
    return [(images[~held_out], labels[~held_out]), (images[held_out], labels[held_out])]


def _random(trial: Trial, shape: tuple[int, ...], device: torch.device) -> Data:
    """Random inputs with random labels: there is nothing to learn."""
    generator = torch.Generator(device).manual_seed(trial.seed)

    def samples(count: int) -> Samples:
        inputs = torch.randn(count, *shape, generator=generator, device=device)
        return Samples(inputs, torch.randint(trial.classes, (count,), generator=generator, device=device))

    return Data(samples(trial.samples), samples(max(1, trial.samples // HELD_OUT)), shape, trial.classes)


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
