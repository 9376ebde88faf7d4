"""Trains under every strategy while torch refuses calls that wait for the GPU."""

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from ddptui.config.catalog import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.wire.messages import RankMessage
from workers.aggregate import strategy_of
from workers.doctor.answers import last_line
from workers.instruments.clock import Clock
from workers.instruments.delays import Delays
from workers.instruments.progress import Progress
from workers.instruments.records import StepRecord
from workers.instruments.reporter import Deferred, Reporter
from workers.rank.group import leave_group
from workers.rank.process import Rank
from workers.train import train

STEPS = 6
# Where gradients are sent as they come, ranks agree on an order after the first backward, and read it; torch's DDP does
# so, too, and compares values when it is made. PowerSGD compresses from the third step on, and copies what it draws.
FREE_STEPS = 3
AMPS: tuple[Any, ...] = (None, "bf16", "fp16")


class Silent(Reporter):
    """Keeps what the loop reports, and works none of it out: that reads numbers off the device."""

    def __init__(self) -> None:
        super().__init__(0)
        self.kept: list[RankMessage | Deferred] = []

    def send(self, message: RankMessage | Deferred) -> None:
        self.kept.append(message)


class Edges(Progress):
    """Calls `begin` after the free steps, and `end` after the last."""

    def __init__(self, reporter: Reporter, begin: Callable[[], None], end: Callable[[], None]) -> None:
        super().__init__(0, 0, reporter)
        self._calls = {FREE_STEPS: begin, STEPS: end}

    def step(self, record: StepRecord, clock: Clock) -> None:
        super().step(record, clock)
        self._calls.get(record.step + 1, lambda: None)()


def refused(device: torch.device) -> dict[str, str]:
    """By strategy and precision, the first call that torch refused in the loop; empty: it let all pass."""
    return {f"{trial.strategy}, {trial.amp or 'float32'}": refusal(trial, device) for trial in trials()}


def trials() -> Iterator[Trial]:
    """A training of some steps for each strategy and precision that go together."""
    for name, facts in STRATEGIES.items():
        for amp in AMPS:
            if amp == "fp16" and facts.low_rank:  # overflows, and stays infinite: refused everywhere
                continue
            yield Trial(
                strategy=name, world_size=1, model="mlp", width=8, depth=1, batch_norm=True, dataset="random",
                shape=(6,), classes=3, samples=64, batch_size=8, steps=STEPS, warmup_steps=0, amp=amp, clip_norm=1.0,
                bucket_mb=0.0001 if facts.buckets else None,
            )  # fmt: skip


def refusal(trial: Trial, device: torch.device) -> str:
    """What torch refused in the steps of a training, in one line; empty: nothing."""
    reporter = Silent()
    me = Rank(trial, 0, 1, device, reporter, Delays((), 0, seed=0, warmup_steps=0))
    edges = Edges(reporter, begin=lambda: watch("error"), end=lambda: watch("default"))
    with tempfile.TemporaryDirectory() as folder:
        join(device, os.path.join(folder, "meet"))
        try:
            train(me, strategy_of(trial), edges)
        except RuntimeError as error:
            return last_line(error)
        finally:
            watch("default")
            leave_group()
    return ""


def watch(mode: str) -> None:
    """What torch does from now on where a call waits for the GPU."""
    torch.cuda.set_sync_debug_mode(mode)


def join(device: torch.device, meeting: str) -> None:
    """Be the only rank of a group, which meets in this file."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=0, world_size=1)
