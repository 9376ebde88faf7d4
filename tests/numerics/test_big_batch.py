"""Every strategy equals one process with the big batch: float64, to 1e-12, worlds of 3 and 4, uneven batches too.

Worlds of 2 would hide mistakes in the order of a sum (a + b = b + a), float32 mistakes in scale.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

from ddptui.preset import Trial
from workers.aggregate import STRATEGIES, Strategy
from workers.aggregate.all_reduce import AllReduce
from workers.bottleneck import Delays
from workers.rank import Rank
from workers.reporter import Reporter
from workers.train import train

EXACT = ("all_reduce", "reduce_broadcast", "flat", "ddp")
# 11 samples a batch, 102 samples: no share is even in worlds of 3 and 4, and the last batch of an epoch has 3 samples,
# so that in a world of 4 one rank has none.
TRIAL = Trial(
    model="mlp", width=12, depth=2, dataset="random", shape=(5,), samples=102, classes=4, batch_size=11, steps=30,
    dtype="float64", momentum=0.9, weight_decay=0.01, lr=0.1, world_size=1, warmup_steps=0,
)  # fmt: skip


class ForgetsToDivide(AllReduce):
    """A mistake that people make: the sum for the mean."""

    def average(self, model: nn.Module) -> None:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)


class OnlyItself(AllReduce):
    """A mistake that the seeds of this lab make: a group of one."""

    def average(self, model: nn.Module) -> None:
        """Averages over a group that has only this rank in it: does nothing."""


WRONG: dict[str, type[Strategy]] = {"forgets_to_divide": ForgetsToDivide, "only_itself": OnlyItself}


def learn(rank: int, world_size: int, strategy: Strategy) -> dict[str, Tensor]:
    """One rank's training; the model's tensors at its end."""
    reporter = Reporter(rank)
    delays = Delays((), rank, seed=0, warmup_steps=0)
    me = Rank(TRIAL, rank, world_size, torch.device("cpu"), reporter, delays)
    return {name: tensor.clone() for name, tensor in train(me, strategy).state_dict().items()}


def run_rank(rank: int, world_size: int, folder: str) -> None:
    """Learn with every strategy in turn, in one process."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size)
    learned = {name: learn(rank, world_size, strategy()) for name, strategy in {**STRATEGIES, **WRONG}.items()}
    torch.save(learned, Path(folder) / f"rank-{rank}.pth")
    dist.destroy_process_group()


Learned = list[dict[str, dict[str, Tensor]]]


@pytest.fixture(scope="module")
def alone() -> dict[str, Tensor]:
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    try:
        return learn(0, 1, STRATEGIES["none"]())
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=[3, 4])
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    folder = tmp_path_factory.mktemp(f"world-{request.param}")
    start: Callable[..., object] = mp.start_processes
    start(run_rank, (request.param, str(folder)), nprocs=request.param, start_method="spawn")
    return [torch.load(folder / f"rank-{rank}.pth", weights_only=True) for rank in range(request.param)]


def apart(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    return max((a[name] - b[name]).abs().max().item() for name in a)


@pytest.mark.parametrize("strategy", EXACT)
def test_equals_one_process_with_the_big_batch(strategy: str, learned: Learned, alone: dict[str, Tensor]) -> None:
    assert all(apart(rank[strategy], alone) <= 1e-12 for rank in learned)


@pytest.mark.parametrize("strategy", EXACT)
def test_ends_with_the_same_bits_on_all_ranks(strategy: str, learned: Learned) -> None:
    for rank in learned[1:]:
        assert all(torch.equal(rank[strategy][name], learned[0][strategy][name]) for name in rank[strategy])


@pytest.mark.parametrize("strategy", ["none", *WRONG])
def test_a_wrong_strategy_turns_the_light_red(strategy: str, learned: Learned, alone: dict[str, Tensor]) -> None:
    assert all(apart(rank[strategy], alone) > 1e-3 for rank in learned)


@pytest.mark.parametrize("strategy", ["none", "only_itself"])
def test_without_an_agreement_the_ranks_drift_apart(strategy: str, learned: Learned) -> None:
    assert apart(learned[0][strategy], learned[1][strategy]) > 1e-3
