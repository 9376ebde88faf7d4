"""Strategies on models that are not like ours: scalars, tied, frozen and unused parameters, two dtypes, gradients that
are zeroed where they lie; and the ring on tensors of every awkward length."""

import copy
from pathlib import Path

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial
from tests.support.leaving import leave
from tests.support.worlds import run_ranks
from workers.aggregate import ring, strategy_of
from workers.aggregate.bucketed import split_by_size
from workers.aggregate.buffer import group_by_dtype, move_into_buffer

RANKS = 3
STEPS = 3
EXACT = [name for name, facts in STRATEGIES.items() if name not in ("none", "ddp_powersgd") and not facts.rounding]
LENGTHS = (1, 2, 3, 4, 31, 32, 33, 1000)
SMALL_BLOCK = 256  # bytes: 32 numbers


class Odd(nn.Module):
    def __init__(self, *, unused: bool) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.first.weight
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.coarse = nn.Parameter(torch.ones(5, dtype=torch.float32))
        if unused:
            self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.frozen(self.tied(self.first(x).relu()))
        result: Tensor = x.sum(1) * self.scale + self.coarse.double().square().sum() * x.mean()
        return result


def errors(rank: int, strategy: str, *, unused: bool, keep: bool) -> list[float]:
    """Step by step: how far the strategy's gradients are from the mean of what each rank computes alone."""
    torch.manual_seed(0)
    model = Odd(unused=unused)
    ours = strategy_of(Trial(strategy=strategy, bucket_mb=0.0001 if STRATEGIES[strategy].buckets else None))
    network = ours.prepare(model)
    torch.manual_seed(rank)
    found = []
    for _ in range(STEPS):
        inputs = torch.randn(6, 4)
        network.zero_grad(set_to_none=not keep)
        network(inputs).square().sum().backward()
        ours.average([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
        alone = copy.deepcopy(model)
        alone.zero_grad()
        alone(inputs).square().sum().backward()
        found.append(farthest(model, alone))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.01 * parameter.grad
    return found


def farthest(model: nn.Module, alone: nn.Module) -> float:
    most = 0.0
    for parameter, own in zip(model.parameters(), alone.parameters(), strict=True):
        if own.grad is None:
            assert parameter.grad is None or not parameter.grad.any()
            continue
        assert parameter.grad is not None
        dist.all_reduce(own.grad)
        scale = 1e-7 if parameter.dtype == torch.float32 else 1e-15
        apart = (parameter.grad - own.grad / RANKS).abs().max() / own.grad.abs().max()
        most = max(most, apart.item() / scale)
    return most


def ring_errors(rank: int) -> list[float]:
    ring.BLOCK = SMALL_BLOCK
    torch.manual_seed(rank)
    found = []
    for length in LENGTHS:
        summed = torch.randn(length)
        true = summed.clone()
        ring.ring_all_reduce(summed, ring.make_buffer(summed))
        dist.all_reduce(true)
        others = [torch.empty_like(summed) for _ in range(RANKS)]
        dist.all_gather(others, summed)
        found.append((summed - true).abs().max().item() if all(torch.equal(summed, it) for it in others) else 1.0)
    return found


class Found(msgspec.Struct):
    gradients: dict[str, list[float]]
    ring: list[float]


def name_of(strategy: str, unused: bool, keep: bool) -> str:
    return f"{strategy}{'-unused' * unused}{'-keep' * keep}"


CASES = [
    (strategy, unused, keep)
    for strategy in EXACT
    for unused in (False, True)
    for keep in (False, True)
    if not (unused and STRATEGIES[strategy].is_ddp)  # which then wants find_unused_parameters
]


def run_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    gradients = {name_of(*case): errors(rank, case[0], unused=case[1], keep=case[2]) for case in CASES}
    found = Found(gradients, ring_errors(rank))
    (Path(folder) / f"rank-{rank}.json").write_bytes(msgspec.json.encode(found))
    leave()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    folder = tmp_path_factory.mktemp("odd")
    run_ranks(run_rank, (str(folder),), RANKS)
    return [msgspec.json.decode((folder / f"rank-{rank}.json").read_bytes(), type=Found) for rank in range(RANKS)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: name_of(*case))
def test_odd_models_get_the_mean(case: tuple[str, bool, bool], found: list[Found]) -> None:
    for rank in found:
        assert all(error < 20 for error in rank.gradients[name_of(*case)])  # in units of the dtype's rounding


def test_the_ring_sums_tensors_of_any_length_to_the_same_bits_everywhere(found: list[Found]) -> None:
    for rank in found:
        assert max(rank.ring) < 1e-14


def test_a_buffer_takes_tensors_in_and_leaves_alone_what_lies_there() -> None:
    tensors = [torch.arange(3.0), torch.arange(4.0).view(2, 2), torch.tensor(7.0)]
    buffer = move_into_buffer(tensors)
    assert buffer.tolist() == [0, 1, 2, 0, 1, 2, 3, 7]
    buffer *= 2
    assert tensors[1].tolist() == [[0, 2], [4, 6]]
    assert move_into_buffer(tensors, buffer) is buffer
    assert buffer.tolist() == [0, 2, 4, 0, 2, 4, 6, 14]
    fresh = [torch.zeros(8)]
    assert move_into_buffer(fresh, buffer) is buffer
    assert fresh[0].data_ptr() == buffer.data_ptr()
    assert not buffer.any()
    assert move_into_buffer([torch.ones(2)], buffer) is not buffer


def test_dtypes_are_told_apart_in_order() -> None:
    tensors = [torch.zeros(1), torch.zeros(1, dtype=torch.int64), torch.ones(2)]
    assert [[len(tensor) for tensor in alike] for alike in group_by_dtype(tensors)] == [[1, 2], [1]]


def test_a_bucket_is_full_when_it_has_crossed_its_size() -> None:
    sizes = [3, 3, 3, 10, 1]
    parameters = [nn.Parameter(torch.zeros(size)) for size in sizes]
    assert [[len(one) for one in bucket] for bucket in split_by_size(parameters, 4 * 4)] == [[3, 3], [3, 10], [1]]
    assert len(split_by_size(parameters, 1)) == 5
    assert len(split_by_size(parameters, 1e9)) == 1
    parameters[2] = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    assert [[len(one) for one in bucket] for bucket in split_by_size(parameters, 1e9)] == [[3, 3], [3], [10, 1]]
