"""The loop's own arithmetic: which steps share an average, how many samples are behind it, and what a phase takes."""

from itertools import count

import pytest
import torch

from ddptui.preset import Trial
from workers.data import Samples, Share
from workers.models import build, synchronised
from workers.progress import Laps
from workers.train import make_optimizer, round_of, samples_behind


@pytest.mark.parametrize(
    ("every", "batches", "steps", "rounds"),
    [
        (1, 3, 5, [[0], [1], [2], [3], [4]]),
        (2, 4, 8, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (2, 3, 6, [[0, 1], [2], [3, 4], [5]]),  # cut at the end of an epoch
        (4, 3, 5, [[0, 1, 2], [3, 4]]),  # and at the end of all
        (100, 1, 2, [[0], [1]]),
    ],
)
def test_rounds_cover_every_step_once(every: int, batches: int, steps: int, rounds: list[list[int]]) -> None:
    found = [list(round_of(step, every, batches, steps)) for step in range(steps)]
    assert found == [together for together in rounds for _ in together]


def test_gradients_that_add_up_are_divided_by_all_their_samples() -> None:
    share = Share(Samples(torch.zeros(10), torch.zeros(10)), batch_size=4, rank=0, world_size=2, seed=0)
    assert len(share) == 3  # batches of 4, 4 and 2
    assert samples_behind(1, range(3), share, Trial(every=3)) == 10
    assert samples_behind(4, range(3, 5), share, Trial(every=2)) == 8
    assert samples_behind(5, range(5, 6), share, Trial(every=2)) == 2


def test_ranks_that_step_alone_divide_by_each_batchs_own() -> None:
    share = Share(Samples(torch.zeros(10), torch.zeros(10)), batch_size=4, rank=0, world_size=2, seed=0)
    found = [samples_behind(step, range(3), share, Trial(every=3, average="parameters")) for step in range(3)]
    assert found == [4, 4, 2]


def test_a_share_keeps_a_hash_of_each_epochs_order() -> None:
    def orders(rank: int, epochs: list[int]) -> list[str]:
        share = Share(Samples(torch.zeros(50), torch.zeros(50)), batch_size=4, rank=rank, world_size=2, seed=0)
        for epoch in epochs:
            share.set_epoch(epoch)
            list(share)
        return share.orders

    assert len(set(orders(0, [0, 1, 2]))) == 3
    assert len(set(orders(0, [0, 0]))) == 1
    assert orders(0, [0, 1]) == orders(1, [0, 1])  # of the global order


def test_laps_name_each_phase_once_it_is_over() -> None:
    class Clock:
        ticks = count()

        def now(self) -> int:
            return next(self.ticks)

        def resolve(self, marks: object) -> None: ...

    laps = Laps(Clock())
    laps.end("data")
    laps.end("optimizer")
    assert (laps.phases, laps.moments) == (["data", "optimizer"], [0, 1, 2])


def test_batchnorm_goes_into_every_hidden_layer_and_synchronised_refuses_the_cpu() -> None:
    model = build(Trial(model="mlp", depth=3, batch_norm=True), (4,), 2)
    assert sum(isinstance(module, torch.nn.BatchNorm1d) for module in model.modules()) == 3
    with pytest.raises(RuntimeError, match="SyncBatchNorm runs on GPUs only, and this rank is on the CPU"):
        synchronised(model)


@pytest.mark.parametrize(("amp", "fused"), [(None, None), ("bf16", None), ("fp16", True)])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_only_a_fused_optimizer_skips_a_step_without_being_asked(
    optimizers: dict[tuple[str, str | None], torch.optim.Optimizer], kind: str, amp: str | None, fused: bool | None
) -> None:
    optimizer = optimizers[kind, amp]
    assert type(optimizer).__name__.lower() == kind
    assert optimizer.defaults["fused"] is fused
    assert getattr(optimizer, "_step_supports_amp_scaling", False) is bool(fused)


@pytest.fixture(scope="module")  # not in the test: with the first optimizer torch sets an environment variable
def optimizers() -> dict[tuple[str, str | None], torch.optim.Optimizer]:
    model = torch.nn.Linear(2, 2)
    trials = [Trial(optimizer=kind, amp=amp) for kind in ("sgd", "adam") for amp in (None, "bf16", "fp16")]
    return {(trial.optimizer, trial.amp): make_optimizer(trial, model) for trial in trials}
