"""The stand-in for nn.DataParallel: threads that together are the big batch."""

import pytest
import torch
from torch import nn

from ddptui.preset import Bottleneck
from workers.bottleneck import Delays
from workers.replicas import ReplicaDelays, ThreadedDataParallel, Watch
from workers.reporter import Reporter


def watches(count: int, *bottlenecks: Bottleneck) -> list[Watch]:
    return [Watch(Reporter(rank), Delays(bottlenecks, rank, seed=0, warmup_steps=0)) for rank in range(count)]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()


@pytest.mark.parametrize(("replicas", "samples"), [(2, 8), (3, 8), (4, 3)])
def test_gradients_equal_those_of_the_big_batch(replicas: int, samples: int) -> None:
    alone, model = net(), net()
    inputs = torch.randn(samples, 6, dtype=torch.float64)
    network = ThreadedDataParallel(model, watches(replicas), threads=1)
    outputs = network(inputs)
    assert torch.allclose(outputs, alone(inputs), rtol=0, atol=1e-12)
    outputs.square().sum().backward()
    alone(inputs).square().sum().backward()
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert torch.allclose(ours.grad, theirs.grad, rtol=0, atol=1e-12)
    network._pool.shutdown()


def test_each_replica_sees_its_part_of_the_batch() -> None:
    seen = watches(3)
    network = ThreadedDataParallel(net(), seen, threads=1)
    network(torch.randn(8, 6, dtype=torch.float64))
    assert [watch.seen.samples for watch in seen] == [3, 3, 2]
    network._pool.shutdown()


def test_the_running_statistics_are_those_of_replica_0_and_go_out_to_the_others() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2))
    network = ThreadedDataParallel(model, watches(2), threads=1)
    inputs = torch.tensor([[0.0, 0.0], [2.0, 2.0], [10.0, 10.0], [30.0, 30.0]])
    network(inputs)
    assert torch.allclose(model[0].running_mean, torch.full((2,), 0.1 * 1.0))  # of the first half: mean 1
    network(inputs)
    second = network.replicas[1].module[0].running_mean
    assert torch.allclose(second, 0.9 * model[0].running_mean.new_tensor(0.1) + 0.1 * 20)
    network._pool.shutdown()


def test_a_delayed_replica_is_late_alone() -> None:
    seen = watches(2, Bottleneck(at="forward", ranks=(1,), sleep_ms=20))
    network = ThreadedDataParallel(net(), seen, threads=1)
    delays = ReplicaDelays(seen)
    delays.begin(0)
    network(torch.randn(8, 6, dtype=torch.float64))
    delays.end()
    assert [watch.delays.fired for watch in seen] == [0, 1]
    assert seen[1].seen.computed_ns - seen[1].seen.fetched_ns >= 20e6
    network._pool.shutdown()
