"""Real ranks that learn in many ways in turn, and what each of them leaves for the test: tensors, and what it said."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
from torch import Tensor

from ddptui.config.trial import Trial
from ddptui.wire.messages import Audit, Done, Fingerprint
from tests.support.leaving import leave
from tests.support.worlds import one_rank, run_ranks
from workers.aggregate.strategy import Strategy
from workers.instruments.progress import Progress
from workers.instruments.reporter import Reporter
from workers.train import train

Learned = dict[str, dict[str, Tensor]]  # by the way to learn, and the tensor's name
Told = TypeVar("Told")


def leave_behind(folder: str, rank: int, learned: Learned, told: object) -> None:
    """A rank's last act."""
    torch.save(learned, Path(folder) / f"rank-{rank}.pth")
    (Path(folder) / f"rank-{rank}.json").write_bytes(msgspec.json.encode(told))
    leave()


def run(
    run_rank: Callable[..., None], arguments: tuple[object, ...], ranks: int, folder: Path, told: type[Told]
) -> tuple[list[Learned], list[Told]]:
    """Start the ranks, and collect what they leave in the folder; `told` is the type of what each of them tells."""
    run_ranks(run_rank, arguments, ranks)
    files = [folder / f"rank-{rank}" for rank in range(ranks)]
    return (
        [torch.load(file.with_suffix(".pth"), weights_only=True) for file in files],
        [msgspec.json.decode(file.with_suffix(".json").read_bytes(), type=told) for file in files],
    )


def apart(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """How far two models are from each other, in the number in which they differ most."""
    return max((a[name] - b[name]).abs().max().item() for name in a)


# One rank's training inside a test, the real loop; what it learned and what it said at the end


class Said(msgspec.Struct):
    """Of all that a rank says: whether it is right."""

    audit: Audit | None
    orders: tuple[str, ...]
    fingerprints: list[Fingerprint]


class Listener(Progress):
    """Keeps what the console would have got."""

    def __init__(self, rank: int, reporter: Reporter) -> None:
        super().__init__(rank, 0, reporter)
        self.fingerprints: list[Fingerprint] = []

    def fingerprint(self, fingerprint: Fingerprint) -> None:
        self.fingerprints.append(fingerprint)

    def done(self, done: Done) -> None:
        self.said = Said(done.audit, done.orders, self.fingerprints)


def learn(rank: int, trial: Trial, strategy: Strategy) -> tuple[dict[str, Tensor], Said]:
    """The model's tensors after one rank's training, and what the rank said of them."""
    reporter = Reporter(rank)
    listener = Listener(rank, reporter)
    model = train(one_rank(trial, rank, reporter=reporter), strategy, listener)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, listener.said
