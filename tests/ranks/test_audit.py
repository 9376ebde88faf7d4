"""What is asked after the training fits where the training did: few samples of each rank, and few at once."""

import pytest
import torch
from torch import Tensor, nn

from ddptui.config.trial import Trial
from workers.instruments.delays import RankDelays
from workers.instruments.reporter import Reporter
from workers.rank.process import Rank
from workers.training.audit import shares
from workers.training.data import Samples
from workers.training.evaluate import evaluate

SAMPLES = Samples(torch.arange(600.0).unsqueeze(1), torch.zeros(600, dtype=torch.long))


def rank(number: int, trial: Trial) -> Rank:
    delays = RankDelays((), number, seed=0, warmup_steps=0)
    return Rank(trial, number, trial.world_size, torch.device("cpu"), Reporter(number), delays)


def audited(trial: Trial) -> list[list[list[float]]]:
    """The samples of each rank, batch by batch."""
    ranks = range(trial.world_size)
    return [[inputs.flatten().tolist() for inputs, _ in shares(rank(number, trial), SAMPLES)] for number in ranks]


@pytest.mark.parametrize(
    ("batch_size", "sizes"),
    [(130, [32, 32, 31, 31]), (128, [32] * 4), (600, [32] * 4), (11, [3, 3, 3, 2]), (3, [1, 1, 1, 0])],
)
def test_the_audit_takes_few_samples_of_each_rank_and_uneven_shares_stay_uneven(
    batch_size: int, sizes: list[int]
) -> None:
    found = audited(Trial(world_size=4, batch_size=batch_size, every=2))
    assert [[len(batch) for batch in batches] for batches in found] == [[size, size] for size in sizes]
    seen = [sample for batches in found for batch in batches for sample in batch]
    assert len(set(seen)) == len(seen)  # nobody has another one's, and no batch the one before


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.sizes.append(len(inputs))
        return torch.zeros(len(inputs), 2)


@pytest.mark.parametrize(
    ("trial", "together"),
    [
        (Trial(world_size=1, batch_size=600), 512),
        (Trial(world_size=1, batch_size=64), 64),
        (Trial(world_size=4, batch_size=64), 16),
        (Trial(world_size=4, batch_size=65), 17),
        (Trial(world_size=4, batch_size=2), 1),
        (Trial(world_size=2, batch_size=64, gpus_per_rank=2), 16),
    ],
)
def test_no_more_is_evaluated_at_once_than_was_trained(trial: Trial, together: int) -> None:
    model = Counting()
    done = evaluate(rank(0, trial), model, SAMPLES)
    assert max(model.sizes) == together
    assert sum(model.sizes) == done.evaluated == done.correct == 600 // trial.world_size


def test_replicas_of_one_process_have_a_part_of_its_batch_each() -> None:
    trial, model = Trial(launch="dp", strategy=None, world_size=4, batch_size=64), Counting()
    process = Rank(trial, 0, 1, torch.device("cpu"), Reporter(0), RankDelays((), 0, seed=0, warmup_steps=0))
    assert evaluate(process, model, SAMPLES).evaluated == 600
    assert max(model.sizes) == 16
