"""The loop's own arithmetic: which steps share an average, how many samples are behind it, and what a phase takes."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ddptui.config.trial import Trial
from tests.support.worlds import one_rank, tiny_trial
from workers.aggregate import strategy_of
from workers.instruments.clock import Clock
from workers.instruments.progress import Progress
from workers.instruments.records import StepRecord
from workers.instruments.reporter import Reporter
from workers.train import accumulation_window, train
from workers.training.audit import shares
from workers.training.data import Samples
from workers.training.evaluate import evaluate
from workers.training.models import make_model, with_sync_batchnorm
from workers.training.optimizer import make_optimizer, optimize


def test_batchnorm_goes_into_every_hidden_layer_and_synchronised_refuses_the_cpu() -> None:
    model = make_model(Trial(model="mlp", depth=3, batch_norm=True), (4,), 2)
    assert sum(isinstance(module, torch.nn.BatchNorm1d) for module in model.modules()) == 3
    with pytest.raises(RuntimeError, match="SyncBatchNorm runs on GPUs only, and this rank is on the CPU"):
        with_sync_batchnorm(model)


@pytest.mark.parametrize(("amp", "fused"), [(None, None), ("bf16", None), ("fp16", True)])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_only_a_fused_optimizer_skips_a_step_without_being_asked(kind: Any, amp: Any, fused: bool | None) -> None:
    optimizer = make_optimizer(Trial(optimizer=kind, amp=amp), torch.nn.Linear(2, 2))
    assert type(optimizer).__name__.lower() == kind
    assert optimizer.defaults["fused"] is fused
    assert getattr(optimizer, "_step_supports_amp_scaling", False) is bool(fused)


@pytest.fixture
def nan_where_nobody_wrote() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("nan_where_nobody_wrote")
def test_a_first_step_that_overflows_leaves_no_momentum() -> None:
    """The steps after it are those of a training that begins with them."""
    assert torch.empty(1).isnan()
    trial = Trial(amp="fp16", momentum=0.9, lr=0.1)
    model, plain = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    plain.load_state_dict(model.state_dict())
    scaler, unscaled = torch.amp.GradScaler("cpu", init_scale=4.0), torch.amp.GradScaler("cpu", enabled=False)
    optimizer = make_optimizer(trial, model)
    sgd = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for size in (float("inf"), 1.0, 2.0):
        scaler.scale(model(torch.ones(2)).sum() * size).backward()
        optimize(scaler, optimizer, trial, model)
    for size in (1.0, 2.0):
        (plain(torch.ones(2)).sum() * size).backward()
        optimize(unscaled, sgd, Trial(), plain)
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-6)


# What a step tells is there by its last mark: it is read when the device has come to that.


class Log(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.words.append("computes")
        return func(*args, **kwargs or {})


class Marking(Clock):
    def __init__(self, log: Log) -> None:
        self._log = log

    def now(self) -> int:
        self._log.words.append("marks")
        return len(self._log.words)


class Ends(Progress):
    """Notes what came last when a step is told."""

    def __init__(self, log: Log) -> None:
        super().__init__(0, 0, Reporter(0))
        self.last: list[str] = []
        self._log = log

    def step(self, mark: StepRecord, clock: Clock) -> None:
        self.last.append(self._log.words[-1])


@pytest.mark.parametrize("options", [{}, {"every": 2}, {"amp": "fp16"}], ids=str)
def test_nothing_is_computed_after_the_last_mark_of_a_step(options: dict[str, Any]) -> None:
    trial = tiny_trial(**options)
    log = Log()
    ends = Ends(log)
    with log:
        train(one_rank(trial), strategy_of(trial), ends, Marking(log))
    assert ends.last == ["marks"] * 4
    assert "computes" in log.words


# What is asked after the training fits where the training did: few samples of each rank, and few at once.

SAMPLES = Samples(torch.arange(600.0).unsqueeze(1), torch.zeros(600, dtype=torch.long))


def audited(trial: Trial) -> list[list[list[float]]]:
    """The samples of each rank, batch by batch."""
    ranks = range(trial.world_size)
    return [[inputs.flatten().tolist() for inputs, _ in shares(one_rank(trial, number), SAMPLES)] for number in ranks]


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
        (Trial(launch="dp", strategy=None, world_size=4, batch_size=64), 16),
    ],
)
def test_no_more_is_evaluated_at_once_than_was_trained(trial: Trial, together: int) -> None:
    me, model = one_rank(trial), Counting()
    done = evaluate(me, model, SAMPLES)
    assert max(model.sizes) == together
    assert sum(model.sizes) == done.evaluated == done.correct == 600 // me.world_size


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
    found = [list(accumulation_window(step, every, batches, steps)) for step in range(steps)]
    assert found == [together for together in rounds for _ in together]
