"""Real ranks that learn in many ways in turn, and what each of them leaves for the test: tensors, and what it said."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
from torch import Tensor

from tests.support.leaving import leave
from tests.support.worlds import run_ranks

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
