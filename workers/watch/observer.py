"""What is seen of a rank: its loop's phases and collectives become the steps that a rank of the lab would report."""

import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ddptui.host.clock import own_clock
from ddptui.wire.connection import CONSOLE_PID, HUB, TOKEN
from ddptui.wire.messages import VERSION, Done, Hello
from ddptui.wire.watching import Watching

from ..instruments.clock import clock_of
from ..instruments.delays import RankDelays
from ..instruments.heartbeat import peak_bytes
from ..instruments.progress import Progress
from ..instruments.records import StepRecord
from ..instruments.reporter import Reporter
from ..instruments.tap import Tap
from .loop import Cut, Loop

DEEPEST_BATCH = 8  # containers within containers that are looked through for a batch's first tensor


class SilentProgress(Progress):
    """The output of the training is its own."""

    def log(self, record: StepRecord, loss: float) -> None:
        """Print nothing."""


class Observer:
    """Watches the training of this process from its first sign on. The entrances call it, from the thread that trains,
    before and after the calls that they are named after."""

    def __init__(self) -> None:
        """The process belongs to its group, if it will. Raises whatever fails."""
        in_group = dist.is_available() and dist.is_initialized()
        self._rank, world_size = (dist.get_rank(), dist.get_world_size()) if in_group else (0, 1)
        on_gpu = torch.cuda.is_initialized()
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        self.is_over = False  # nothing more is to be seen
        self._is_let_go = False  # the console is gone, or wants no more: the thread of the reporter says so
        self._asked = Watching.read(os.environ)
        self._reporter = Reporter(self._rank, stop=self._let_go, console=console_here(os.environ))
        self._reporter.send(
            Hello(
                version=VERSION,
                token=os.environ.get(TOKEN, ""),
                rank=self._rank,
                world_size=world_size,
                at_ns=time.monotonic_ns(),
                host=socket.gethostname(),
                pid=os.getpid(),
                device=str(self._device),
                threads=torch.get_num_threads(),
                torch=str(torch.__version__),
                backend=dist.get_backend() if in_group else None,
                clock=own_clock(),
            )
        )
        self._reporter.set_device(self._device)
        self._clock = clock_of(self._device)
        first = self._asked.skip
        self._delays = RankDelays(self._asked.bottleneck, self._rank, seed=0, warmup_steps=first, device=self._device)
        self._tap = Tap(
            self._clock,
            None,
            before_collective=self._delays.before_collective,
            is_asleep=lambda: self._delays.asleep,
        )
        self._reporter.position = self._tap.position
        self._progress = SilentProgress(self._rank, first, self._reporter)
        self._progress.ready(None, 0, 0)
        self._loop = Loop(self._clock, lambda: self._tap.called, self._step_ended)
        # What only the loop has to know, it is told at once: a call less, several times a step.
        self.data_begins = self._loop.data_begins
        self.forward_begins, self.forward_ends = self._loop.forward_begins, self._loop.forward_ends
        self.optimizer_begins, self.optimizer_ends = self._loop.optimizer_begins, self._loop.optimizer_ends
        self.stepped_unseen = self._loop.stepped_unseen
        self._tap.begin(self._loop.timer)
        self._delays.begin(0)
        self._losses: list[Tensor | float] = []
        self._unscaled: tuple[Tensor, Tensor] | None = None

    def _let_go(self, why: str) -> None:
        self._is_let_go = self.is_over = True
        self._reporter.give_up()

    def data_ends(self, iterator: Any, batch: Any, trains: bool) -> None:
        """batch: None where there was none left."""
        if batch is not None and trains:
            self._delays.at("data")
        is_first = getattr(iterator, "_num_yielded", 0) == 1
        self._loop.data_ends(None if batch is None else samples_in(batch) or 0, trains, is_first=is_first)

    def loss_is_scaled(self, loss: Any, scaled: Any) -> None:
        """A GradScaler has made the one out of the other."""
        if isinstance(loss, Tensor):
            self._unscaled = scaled, loss

    def backward_begins(self, tensors: Any) -> None:
        """tensors: those that backward is called on."""
        self._tap.attach_to_new_groups()
        self._delays.at("forward")
        self._loop.backward_begins()  # it may cut a step, to which this loss does not belong
        loss = tensors[0] if isinstance(tensors, Sequence) and len(tensors) == 1 else tensors
        scaled, unscaled = self._unscaled or (None, None)
        self._unscaled = None
        loss = unscaled if loss is scaled else loss
        is_scalar = isinstance(loss, Tensor) and loss.numel() == 1
        self._losses.append(self._clock.keep(cast(Tensor, loss)) if is_scalar else math.nan)

    def backward_ends(self) -> None:
        self._tap.settle()  # torch DDP waits at the end of backward, in C++, where the tap sees nothing
        self._delays.at("backward")
        self._loop.backward_ends()

    def ddp_is_made(self, network: DistributedDataParallel) -> None:
        self._tap.attach_to(network)

    def give_up(self) -> None:
        """Detach, and send nothing more."""
        self._tap.close()
        self._reporter.give_up()

    def close(self) -> None:
        """Report the last step, and detach."""
        if not self.is_over:
            self._loop.close()
        self._tap.close()
        if not self._is_let_go:
            done = Done(
                rank=self._rank,
                at_ns=time.monotonic_ns(),
                correct=0,
                evaluated=0,
                parameters={},
                buffers={},
                bottleneck_fired=self._delays.fired,
                bottleneck_ns=self._delays.slept_ns,
                peak_gpu_bytes=peak_bytes(self._device),
                dropped=self._reporter.dropped,
            )
            self._progress.done(done)
        self._reporter.close()

    def _step_ended(self, step: Cut) -> None:
        calls = self._tap.cut(step.timer, step.calls, step.following)
        number = step.timer.step
        losses, self._losses = self._losses[: step.backwards], self._losses[step.backwards :]
        record = StepRecord(
            step=number,
            epoch=step.epoch,
            timer=step.timer,
            samples=step.samples,
            loss=losses,
            calls=calls,
            buckets=self._tap.buckets,
            slept=self._delays.taken(),
        )
        if number < self._asked.skip or number % self._asked.every == 0:
            self._progress.step(record, self._clock)
        if self._reporter.command is not None:
            self._delays.set(self._reporter.command.bottleneck)
            self._reporter.command = None
        self._delays.begin(number + 1)
        if self._asked.steps is not None and number + 1 >= self._asked.steps:
            self.is_over = True


def console_here(environ: Mapping[str, str]) -> int | None:
    """The console's process, if it is on this host: a Unix socket leads nowhere else."""
    return int(environ[CONSOLE_PID]) if environ.get(HUB, "").startswith("ipc:") and CONSOLE_PID in environ else None


def samples_in(batch: Any, depth: int = 0) -> int | None:
    """The length of a batch's first tensor, whatever it is in. None: it has none."""
    if isinstance(batch, Tensor):
        return batch.shape[0] if batch.dim() else None
    if depth < DEEPEST_BATCH:
        parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, list | tuple) else ()
        for part in parts:
            if (samples := samples_in(part, depth + 1)) is not None:
                return samples
    return None
