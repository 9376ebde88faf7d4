"""Batches are the same with and without workers; no worker outlives its rank; how much a loader yields."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler, TensorDataset

from ddptui.config.trial import Trial
from tests.support.runner import ENOUGH_S, survivors
from tests.support.worlds import start_rank
from workers import single
from workers.rank import guard
from workers.training.data import Samples, Share, first_epoch, load, make_loader, on_device, pins_memory, start_worker
from workers.watch.batches import batches_of, samples_in

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than there are cores

CPU = torch.device("cpu")
EPOCHS = 2
# Dropout draws from the rank's random numbers, and the last batch of an epoch is smaller.
TRIAL = Trial(model="net", launch="single", strategy=None, epochs=EPOCHS, batch_size=256, dtype="float64")
ENDLESS = ("model=mlp", "width=8", "depth=1", "steps=1000000", "num_workers=1", "threads=1")


def batches(num_workers: int) -> list[tuple[Tensor, Tensor]]:
    """Of two epochs, as the loop takes them: it leaves off before the loader says that there are no more."""
    train = load(TRIAL, (1, 28, 28), CPU).train
    share = Share(train, batch_size=256, rank=1, world_size=3, seed=0)
    loader = make_loader(Trial(num_workers=num_workers, dtype="float64"), train, share, CPU)
    found = []
    for epoch in range(EPOCHS):
        share.set_epoch(epoch)
        each = iter(loader) if epoch else first_epoch(loader)
        found += [next(each) for _ in range(len(share))]
    return found


@pytest.fixture
def in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("in_float64")
def test_workers_fetch_the_same_batches_in_the_same_order_and_draw_nothing() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    alone, fetched = batches(0), batches(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(alone) == len(fetched) == EPOCHS * 6
    for (inputs, labels), (theirs, their_labels) in zip(alone, fetched, strict=True):
        assert theirs.dtype == torch.float64
        assert torch.equal(inputs, theirs)
        assert torch.equal(labels, their_labels)
    assert not torch.equal(alone[0][0], alone[6][0])  # each epoch has an order of its own


class Loader:
    """Counts what has been asked of it."""

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self.fetched = 0

    def __iter__(self) -> Iterator[int]:
        for number in range(3):
            self.fetched += 1
            yield number


@pytest.mark.parametrize("workers", [0, 2])
def test_the_first_batch_is_waited_for_where_others_fetch_it(workers: int) -> None:
    loader: Any = Loader(workers)
    batches: Any = first_epoch(loader)
    assert loader.fetched == (1 if workers else 0)
    assert list(batches) == [0, 1, 2]


def train_without_end(said: str) -> None:
    """A rank, as `python -m workers.single` starts it."""
    sys.stdout = open(said, "w", buffering=1)  # noqa: SIM115 (for as long as the rank lives)
    sys.argv = ["single", *ENDLESS]
    single.main()


def test_no_worker_outlives_its_rank(tmp_path: Path) -> None:
    said = tmp_path / "said"
    rank = start_rank(train_without_end, str(said))
    deadline = time.monotonic() + ENOUGH_S
    while not (said.exists() and said.read_text().startswith("rank 0  epoch 0  step 0")):
        assert rank.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    family = psutil.Process(rank.pid).children(recursive=True)
    workers = [process for process in family if "spawn_main" in " ".join(process.cmdline())]
    os.kill(rank.pid, signal.SIGKILL)
    rank.join()
    assert rank.exitcode == -signal.SIGKILL
    assert len(workers) == 1
    assert not survivors(family, timeout_s=30)


def test_a_worker_whose_rank_died_while_it_started_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells nobody of a parent that is gone already."""
    ended: list[int] = []
    monkeypatch.setattr(guard, "die_with_parent", lambda: None)
    monkeypatch.setattr(os, "_exit", ended.append)
    for alive in (True, False):
        parent = SimpleNamespace(is_alive=lambda alive=alive: alive)
        monkeypatch.setattr(multiprocessing, "parent_process", lambda parent=parent: parent)
        start_worker("float32", 0)
        assert bool(ended) is not alive


def test_memory_is_pinned_for_gpus_only() -> None:
    trial = Trial(pin_memory=True)
    assert pins_memory(trial, torch.device("cuda"))
    assert not pins_memory(trial, CPU)
    assert not pins_memory(Trial(), torch.device("cuda"))
    share = Share(Samples(torch.zeros(4), torch.zeros(4)), batch_size=2, rank=0, world_size=1, seed=0)
    assert not make_loader(trial, Samples(torch.zeros(4), torch.zeros(4)), share, CPU).pin_memory


def test_images_get_the_layout_of_the_weights_and_nothing_else_does() -> None:
    images, vectors, labels = torch.randn(2, 3, 4, 5), torch.randn(2, 3), torch.zeros(2)
    trial = Trial(channels_last=True)
    assert on_device(trial, (images, labels), CPU)[0].stride() == (60, 1, 15, 3)
    assert torch.equal(on_device(trial, (images, labels), CPU)[0], images)
    assert on_device(Trial(), (images, labels), CPU)[0].stride() == (60, 20, 5, 1)
    assert on_device(trial, (vectors, labels), CPU)[0].stride() == (3, 1)
    assert on_device(trial, (images[:0], labels[:0]), CPU)[0].shape == (0, 3, 4, 5)


# How much a loader gives, as far as it can be told without the help of the training's own code

DATA: Dataset[Any] = TensorDataset(torch.zeros(10, 2))


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(100))


class Own(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))

    def __len__(self) -> int:
        raise AssertionError("it draws all its batches to count them")


class OwnBatches(BatchSampler):
    """As accelerate has one: without a sampler."""

    def __init__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("loader", "batches"),
    [
        (DataLoader(DATA, 4), 3),
        (DataLoader(DATA, 4, drop_last=True), 2),
        (DataLoader(DATA, 4, shuffle=True), 3),
        (DataLoader(DATA, batch_size=None), 10),
        (DataLoader(DATA, batch_sampler=BatchSampler(RandomSampler(range(6)), 2, drop_last=False)), 3),
        (DataLoader(Endless(), 4), None),
        (DataLoader(DATA, 4, sampler=Own()), None),
        (DataLoader(DATA, batch_sampler=Own()), None),  # type: ignore[arg-type]
        (DataLoader(DATA, batch_sampler=OwnBatches()), None),
    ],
)
def test_batches_are_counted_by_samplers_of_torch(loader: "DataLoader[Any]", batches: int | None) -> None:
    assert batches_of(iter(loader)) == batches


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (torch.zeros(3, 2), 3),
        (torch.tensor(1.0), None),
        ([torch.zeros(4), torch.zeros(2)], 4),
        ({"ids": torch.zeros(5, 1)}, 5),
        ((["a"], {"x": [torch.zeros(6)]}), 6),
        ("text", None),
        (7, None),
    ],
)
def test_the_first_tensor_of_a_batch_says_how_many_samples_are_in_it(batch: Any, samples: int | None) -> None:
    assert samples_in(batch) == samples


def test_a_batch_within_itself_has_an_end() -> None:
    batch: list[Any] = []
    batch.append(batch)
    assert samples_in(batch) is None
