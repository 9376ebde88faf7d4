"""Several devices under one rank: the same outputs and gradients as one device gives, from parts of the batch."""

import pytest
import torch
from torch import nn

from ddptui.config.trial import Trial
from workers.instruments.delays import RankDelays
from workers.instruments.reporter import Reporter
from workers.rank.process import Rank
from workers.replicas.replicas import replicate_over_devices

CPU = torch.device("cpu")


def rank(trial: Trial) -> Rank:
    return Rank(trial, 0, 2, CPU, Reporter(0), RankDelays((), 0, seed=0, warmup_steps=0))


@pytest.mark.parametrize("several", [2, 3])
def test_a_batch_in_parts_is_the_batch(several: int) -> None:
    torch.manual_seed(0)
    model, inputs = nn.Linear(5, 3, dtype=torch.float64), torch.randn(7, 5, dtype=torch.float64)
    expected = model(inputs)
    expected.square().sum().backward()
    gradient = model.weight.grad
    model.weight.grad = None
    network = replicate_over_devices(rank(Trial(gpus_per_rank=several)), model)
    outputs = network(inputs)
    outputs.square().sum().backward()
    assert torch.allclose(outputs, expected, rtol=0, atol=1e-12)
    assert gradient is not None
    assert model.weight.grad is not None
    assert torch.allclose(model.weight.grad, gradient, rtol=0, atol=1e-12)
    assert len(list(network.parameters())) == len(list(model.parameters()))
    network._pool.shutdown()  # type: ignore[operator, union-attr]


def test_one_device_is_left_as_it_is() -> None:
    model = nn.Linear(2, 2)
    assert replicate_over_devices(rank(Trial()), model) is model
