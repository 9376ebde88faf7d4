"""Both ways of seeing collectives see the same calls: the group's hooks, and wrapping torch's functions."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ddptui.preset import Trial
from workers import tap
from workers.aggregate import STRATEGIES

BOTH_WAYS = [
    pytest.param(
        True, marks=pytest.mark.skipif(not tap.group_takes_hooks(), reason="this torch's groups take no hooks")
    ),
    False,
]


@pytest.fixture(autouse=True)
def group_of_one(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("hooks", BOTH_WAYS)
@pytest.mark.parametrize(
    ("strategy", "calls"),
    [
        ("none", 0), ("all_reduce", 4), ("all_reduce_async", 4), ("reduce_broadcast", 8), ("gather_scatter", 8),
        ("all_gather", 4), ("reduce_scatter_all_gather", 8), ("ring", 0), ("flat", 1), ("bucketed", 1), ("ddp", 1),
        ("ddp_fp16", 1), ("ddp_bf16", 1),
    ],
)  # fmt: skip
def test_sees_the_collectives_of_every_strategy(
    strategy: str, calls: int, hooks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tap, "group_takes_hooks", lambda: hooks)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    ours = STRATEGIES[strategy](Trial())
    network = ours.prepare(model)
    seen: list[int] = []
    untap = tap.before_each_collective(lambda: seen.append(1), network)
    for step in range(3):
        network.zero_grad()
        loss = network(torch.ones(5, 3)).sum()
        seen.clear()  # DDP broadcasts the layout of its buckets in its second forward: no aggregation
        loss.backward()
        ours.average([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
        agreed_on_buckets = strategy == "bucketed" and step == 0  # the order in which gradients arrive
        assert len(seen) == calls + agreed_on_buckets
    untap()
    dist.all_reduce(torch.ones(1))
    assert len(seen) == calls


def test_without_a_group_there_is_nothing_to_see() -> None:
    dist.destroy_process_group()
    untap = tap.before_each_collective(lambda: pytest.fail("called"), nn.Linear(1, 1))
    untap()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
