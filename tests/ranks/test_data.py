"""The samples, and whose they are."""

import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ddptui.config.trial import Trial
from workers.training.data import Samples, Share, load, resize


def flat(parts: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(parts))


CPU = torch.device("cpu")


def numbered(count: int) -> Samples:
    return Samples(torch.arange(count).float(), torch.arange(count))


def shares(count: int, batch_size: int, world_size: int) -> list[list[list[int]]]:
    """For each rank, its part of each batch."""
    ranks = [
        Share(numbered(count), batch_size=batch_size, rank=rank, world_size=world_size, seed=5)
        for rank in range(world_size)
    ]
    for share in ranks:
        share.set_epoch(0)
    return [list(share) for share in ranks]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 5))
def test_all_ranks_together_see_each_sample_once_in_the_order_of_one_process(
    count: int, batch_size: int, world_size: int
) -> None:
    [alone] = shares(count, batch_size, 1)
    together = shares(count, batch_size, world_size)
    assert {len(own) for own in together} == {len(alone)}
    for number, batch in enumerate(alone):
        parts = [own[number] for own in together]
        assert sorted(flat(parts)) == sorted(batch)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert sorted(flat(alone)) == list(range(count))


def test_it_shuffles_as_torchs_sampler_does() -> None:
    from torch.utils.data import DistributedSampler

    theirs = [list(DistributedSampler(numbered(40), num_replicas=2, rank=rank, seed=5)) for rank in range(2)]
    ours = [flat(own) for own in shares(40, 10, 2)]
    assert ours == theirs


def test_the_digits_are_all_there() -> None:
    data = load(Trial(), None, CPU)
    assert (len(data.train), len(data.test)) == (1437, 360)
    assert data.shape == (1, 8, 8)
    assert sorted(set(data.train.labels.tolist())) == list(range(10))
    inputs, labels = data.train[list(range(1437))]
    assert inputs.mean().abs() < 0.05
    assert abs(inputs.std() - 1) < 0.05
    assert labels.shape == (1437,)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8)])
def test_images_are_fitted_to_what_the_model_wants(shape: tuple[int, ...]) -> None:
    images = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8)
    fitted = resize(images, shape)
    assert fitted.shape == (5, *shape)
    assert fitted.dtype == torch.uint8


def test_random_samples_follow_from_the_seed_and_take_any_shape() -> None:
    trial = Trial(dataset="random", shape=(2, 3), samples=10, classes=4)
    first, again = load(trial, None, CPU), load(trial, None, CPU)
    assert first.train.inputs.shape == (10, 2, 3)
    assert torch.equal(first.train.inputs, again.train.inputs)
    assert first.classes == 4


@pytest.mark.parametrize("fields", [{"num_workers": 2}, {"pin_memory": True}])
def test_what_has_a_way_to_the_device_is_made_on_the_host(fields: dict[str, Any]) -> None:
    """Elsewhere than asked for: the meta device makes no random numbers, and would say so."""
    trial = Trial(dataset="random", shape=(2,), samples=10)
    with pytest.raises(RuntimeError):
        load(trial, None, torch.device("meta"))
    data = load(msgspec.structs.replace(trial, **fields), None, torch.device("meta"))
    assert {data.train.inputs.device, data.train.labels.device, data.test.inputs.device} == {CPU}


OWN = """
import torch
def made(dtype=torch.float32, first=0, labels=None):
    y = torch.arange(8) % 4 + first if labels is None else labels
    return (torch.ones(8, 3, dtype=dtype), y), (torch.ones(2, 3, dtype=dtype), y[:2])
def of_numpy(): return made(torch.float64)
def of_integers(): return made(torch.int64)
def negative(): return made(first=-1)
def one_hot(): return made(labels=torch.eye(8))
def too_few(): return made(labels=torch.arange(3))
def nothing(): pass
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The user's own file of datasets."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path}/own.py"


def test_a_dataset_of_ones_own_has_the_models_type_unless_it_has_integers(own: str) -> None:
    data = load(Trial(dataset=f"{own}:of_numpy"), None, CPU)
    assert (data.train.inputs.dtype, data.shape, data.classes) == (torch.float32, (3,), 4)
    assert load(Trial(dataset=f"{own}:of_integers"), None, CPU).train.inputs.dtype == torch.int64


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("negative", "labels must count from 0; one is -1"),
        ("one_hot", "with a label for each sample"),
        ("too_few", "with a label for each sample"),
        ("nothing", "which are tensors: cannot unpack"),
    ],
)
def test_what_is_no_dataset_is_refused_with_its_name(own: str, name: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"own.py:{name}.*{why}"):
        load(Trial(dataset=f"{own}:{name}"), None, CPU)
