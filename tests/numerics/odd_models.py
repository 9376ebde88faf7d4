"""What ranks do with models that are not like ours: scalars, tied, frozen and unused parameters, two dtypes, gradients
that are zeroed where they lie; and with the ring on tensors of every awkward length."""

import copy

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddptui.config.catalog import STRATEGIES
from ddptui.config.trial import Trial
from workers.aggregate import ring, strategy_of

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
        dist.all_reduce(own.grad)
        scale = 1e-7 if parameter.dtype == torch.float32 else 1e-15
        apart = (parameter.grad - own.grad / dist.get_world_size()).abs().max() / own.grad.abs().max()
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
        others = [torch.empty_like(summed) for _ in range(dist.get_world_size())]
        dist.all_gather(others, summed)
        found.append((summed - true).abs().max().item() if all(torch.equal(summed, it) for it in others) else 1.0)
    return found


def name_of(strategy: str, unused: bool, keep: bool) -> str:
    return f"{strategy}{'-unused' * unused}{'-keep' * keep}"


CASES = [
    (strategy, unused, keep)
    for strategy in EXACT
    for unused in (False, True)
    for keep in (False, True)
    if not (unused and STRATEGIES[strategy].is_ddp)  # which then wants find_unused_parameters
]


def all_errors(rank: int) -> dict[str, list[float]]:
    torch.set_default_dtype(torch.float64)
    return {name_of(*case): errors(rank, case[0], unused=case[1], keep=case[2]) for case in CASES}
