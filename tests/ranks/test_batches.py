"""How much a loader gives, as far as it can be told without the help of the training's own code."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler, TensorDataset

from workers.watch.batches import batches_of, samples_in

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
