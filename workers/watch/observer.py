"""What is seen of a rank: its loop's phases and collectives become the steps that a rank of the lab would report."""

import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ddptui.host.clock import own_clock
from ddptui.wire.connection import TOKEN
from ddptui.wire.messages import VERSION, Done, Hello
from ddptui.wire.watching import WATCHED, WatchingConsole

from ..instruments.clock import clock_of
from ..instruments.delays import RankDelays
from ..instruments.heartbeat import peak_bytes
from ..instruments.progress import Progress
from ..instruments.records import StepRecord
from ..instruments.reporter import Reporter
from ..instruments.tap import Tap
from .loop import MARKED, Cut, Loop

DEEPEST_BATCH = 8  # containers within containers that are looked through for a batch's first tensor


class SilentProgress(Progress):
    """The output of the training is its own."""

    def log(self, record: StepRecord, loss: float) -> None:
        """Print nothing."""


class Observer:
    """Watches the training of this process from its first sign on. The entrances call it, from the thread that trains,
    before and after the calls that they are named after."""

    def __init__(self, seek_forward: Callable[[], None], signs: Callable[[], int], *, has_ddp: bool) -> None:
        """The process belongs to its group, if it will. seek_forward: called after the first step of a loop whose
        calls do not show where forward begins. signs: how many signs of steps there were so far. has_ddp: there is a
        torch DDP already. Raises whatever fails."""
        self._seek_forward, self._signs = seek_forward, signs
        self._signs_before: int | None = None  # the first whole step
        self._first: int | None = None if signs() else 0  # number of the first step; None: not known yet
        in_group = dist.is_available() and dist.is_initialized()
        self._rank, world_size = (dist.get_rank(), dist.get_world_size()) if in_group else (0, 1)
        on_gpu = torch.cuda.is_initialized()
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        self.is_over = False  # nothing more is to be seen
        self._is_let_go = False  # the console is gone, or wants no more: the thread of the reporter says so
        console = WatchingConsole.read(Path(os.environ[WATCHED]).read_bytes())
        self._asked = console.watching
        self._reporter = Reporter(self._rank, stop=self._let_go, console=console.pid, way=console.way)
        self._reporter.send(
            Hello(
                version=VERSION,
                token=console.way[TOKEN],
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
        if has_ddp:
            self.ddp_is_made()
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
        self._marks: list[tuple[str, bool]] = []  # the marked phases under way; and whether they train
        self._unscaled: tuple[Tensor, Tensor] | None = None

    def _let_go(self, why: str) -> None:
        self._is_let_go = self.is_over = True
        self._reporter.give_up()

    def data_ends(self, iterator: Any, batch: Any, trains: bool) -> None:
        """batch: None where there was none left."""
        is_first = getattr(iterator, "_num_yielded", 0) == 1
        self._data_ends(None if batch is None else samples_in(batch) or 0, trains, is_first=is_first)

    def _data_ends(self, samples: int | None, trains: bool, *, is_first: bool) -> None:
        if samples is not None and trains and self._loop.depth("data") == 1:
            self._delays.at("data")
        self._loop.data_ends(samples, trains, is_first=is_first)

    def loss_is_scaled(self, loss: Any, scaled: Any) -> None:
        """A GradScaler has made the one out of the other."""
        if isinstance(loss, Tensor):
            self._unscaled = scaled, loss

    def backward_begins(self, tensors: Any = None) -> None:
        """tensors: those that backward is called on; None: that is not known."""
        self._tap.attach_to_new_groups()
        if not self._loop.depth("backward"):
            self._delays.at("forward")
        self._loop.backward_begins(None if tensors is None else self._loss_of(tensors))

    def backward_ends(self) -> None:
        if self._loop.depth("backward") == 1:
            self._tap.settle()  # torch DDP waits at the end of backward, in C++, where the tap sees nothing
            self._delays.at("backward")
        self._loop.backward_ends()

    def _loss_of(self, tensors: Any) -> Tensor | float:
        loss = tensors[0] if isinstance(tensors, Sequence) and len(tensors) == 1 else tensors
        scaled, unscaled = self._unscaled or (None, None)
        self._unscaled = None
        return self._kept(unscaled if loss is scaled else loss)

    def _kept(self, loss: Any) -> Tensor | float:
        """What to hold of a loss until it is read; NaN if it is no number."""
        if isinstance(loss, Tensor):
            return self._clock.keep(loss) if loss.numel() == 1 else math.nan
        return float(loss) if isinstance(loss, int | float) else math.nan

    def phase_begins(self, name: str) -> None:
        """The training marks a phase."""
        trains = torch.is_grad_enabled()
        self._marks.append((name, trains))
        match name:
            case "data":
                self._loop.data_begins(trains)
            case "forward":
                self._loop.forward_begins(trains)
            case "backward":
                self.backward_begins()
            case "aggregate":
                self._loop.aggregate_begins()
            case "optimizer":
                self._loop.optimizer_begins(MARKED)

    def phase_ends(self) -> None:
        """The phase ends that the training has marked last."""
        name, trains = self._marks.pop() if self._marks else (None, False)  # none: it began before this loop was seen
        match name:
            case "data":
                self._data_ends(0, trains, is_first=False)
            case "forward":
                self._loop.forward_ends(trains)
            case "backward":
                self.backward_ends()
            case "aggregate":
                self._loop.aggregate_ends()
            case "optimizer":
                self._loop.optimizer_ends(MARKED)

    def step_ends(self, loss: Any, samples: int) -> None:
        """The training marks the end of a step."""
        self._loop.step_ends(None if loss is None else self._kept(loss), samples)

    def ddp_is_made(self) -> None:
        self._tap.expect_ddp()

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
        if self._first is None and not self._is_numbered(step):
            return
        number = step.timer.step
        record = StepRecord(
            step=number,
            epoch=step.epoch,
            timer=step.timer,
            samples=step.samples,
            loss=step.losses,
            calls=calls,
            buckets=self._tap.buckets,
            slept=self._delays.taken(),
        )
        done = number - (self._first or 0)
        if done < self._asked.skip or number % self._asked.every == 0:
            self._progress.step(record, self._clock)
        if not self._loop.shows_forward and done == 0:
            self._seek_forward()
        if self._reporter.command is not None:
            self._delays.set(self._reporter.command.bottleneck)
            self._reporter.command = None
        self._delays.begin(number + 1)
        if self._asked.steps is not None and done + 1 >= self._asked.steps:
            self.is_over = True

    def _is_numbered(self, step: Cut) -> bool:
        """Give the steps of a training that had begun unseen the same numbers on all ranks, from the second one on: the
        first was perhaps seen in part. Returns whether this step has its number. Raises ValueError."""
        signs = self._signs()
        if self._signs_before is None:
            self._signs_before = signs
            return False
        steps, rest = divmod(self._signs_before, signs - self._signs_before)
        if rest:
            raise ValueError("its steps do not all call backward equally often: those of its ranks cannot be matched")
        self._first = step.timer.step = steps
        step.following.step = steps + 1
        self._progress.warmup_steps += steps
        self._delays.warmup_steps += steps
        return True


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
