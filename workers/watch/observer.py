"""What is seen of a rank: its loop's phases and collectives become the steps that a rank of the lab would report."""

import math
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from ddptui.config.trial import Site
from ddptui.host.clock import own_clock
from ddptui.wire.connection import TOKEN
from ddptui.wire.messages import VERSION, Done, Failed, Hello, Ready
from ddptui.wire.watching import WATCHED, WatchingConsole

from ..instruments.cuda_clock import clock_of
from ..instruments.delays import RankDelays
from ..instruments.gpu import nccl_in_use, own_gpus
from ..instruments.heartbeat import peak_bytes, peak_reserved_bytes
from ..instruments.progress import Progress
from ..instruments.records import PhaseTimer, StepRecord
from ..instruments.reporter import Reporter
from ..instruments.tap import Tap
from .batches import batches_of
from .loop import MARKED
from .steps import MOST_NOTES, Steps

READ_QUEUE_EVERY_S = 0.004  # a reading takes 8 us, in a training


class SilentProgress(Progress):
    """The output of the training is its own."""

    def log(self, record: StepRecord, loss: float) -> None:
        """Print nothing."""


def first_ready(rank: int, device: torch.device) -> Ready:
    """What is known of a training before its first step that is seen: neither its length nor its model."""
    return Ready(
        rank=rank,
        at_ns=time.monotonic_ns(),
        steps=None,
        parameters=0,
        nccl=nccl_in_use(device),
        gpus=own_gpus(device),
    )


class Observer:
    """Watches the training of this process from its first sign on. The entrances call it, from the thread that trains,
    before and after the calls that they are named after."""

    def __init__(
        self, seek_forward: Callable[[], None], over: Callable[[], None], signs: int, *, has_ddp: bool
    ) -> None:
        """The process belongs to its group, if it will. seek_forward: called after the first steps of a loop whose
        calls do not show where forward begins. over: called, from any thread, once `is_over`. signs: how many signs of
        steps there were before. has_ddp: there is a torch DDP already. Raises whatever fails."""
        self._seek_forward, self._over = seek_forward, over
        in_group = dist.is_available() and dist.is_initialized()
        self._rank, world_size = (dist.get_rank(), dist.get_world_size()) if in_group else (0, 1)
        on_gpu = torch.cuda.is_initialized()
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        self.is_over = False  # nothing more is to be seen
        self._is_let_go = False  # the console is gone, or wants no more: the thread of the reporter says so
        console = WatchingConsole.read(Path(os.environ[WATCHED]).read_bytes())
        asked = console.watching
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
        first = asked.skip
        self._delays = RankDelays(asked.bottleneck, self._rank, seed=0, warmup_steps=first, device=self._device)
        self._progress = SilentProgress(self._rank, first, self._reporter)
        self._progress.ready(first_ready(self._rank, self._device))
        self._steps = Steps(
            self._clock,
            asked,
            self._reporter,
            self._progress,
            self._delays,
            over=self._see_no_more,
            signs=signs,
        )
        self._loop, self._note, self._now = self._steps.loop, self._steps.notes.extend, self._clock.now
        self._tap = Tap(
            self._clock,
            None,
            before_collective=self._before_collective,
            is_asleep=lambda: self._delays.asleep,
            record=self._steps.notes.append,
        )
        if has_ddp:
            self.ddp_is_made()
        self._flags = PhaseTimer(self._clock)  # of which the tap only asks whether forward is over
        self._tap.begin(self._flags)
        self._delays.begin(0)
        self._first_steps = 2  # still to come
        self._read_queue_at = 0.0
        self._backwards = 0  # under way, one within the other
        self._batches: WeakKeyDictionary[Any, int | None] = WeakKeyDictionary()  # by the loader's iterator
        self._marks: list[tuple[str, bool]] = []  # the marked phases under way; and whether they train
        self._unscaled: tuple[Tensor, Tensor] | None = None
        self._reporter.position, self._reporter.before_sending = self._steps.position, self._steps.read

    def _see_no_more(self) -> None:
        self.is_over = True
        self._over()

    def _delay(self, site: Site, *, within: str, depth: int) -> None:
        """Put in a delay that is due here, if so many calls of that phase are under way."""
        self._steps.read()  # for the number of the step
        if self._loop.depth(within) == depth:
            self._delays.at(site)

    def _before_collective(self) -> bool:
        if not self._delays.are_any:
            return False
        self._steps.read()
        return self._delays.before_collective()

    def _let_go(self, why: str) -> None:
        self._is_let_go = True
        self._see_no_more()
        self._reporter.give_up()

    # Each call writes its note itself. A function for that would be called ten times a step, and a call in the loop's
    # thread costs several times what it does elsewhere: the training's data have displaced our code from the caches.

    def data_begins(self, trains: bool) -> None:
        self._note(("data_begins", self._now(), trains))

    def data_ends(self, samples: int | None, trains: bool, iterator: Any) -> None:
        """iterator: of the loader; None: the training itself says that it has fetched something."""
        if self._delays.are_any and samples is not None and trains:
            self._delay("data", within="data", depth=1)
        self._flags.forward_is_over = False
        number = getattr(iterator, "_num_yielded", 0)
        if trains and samples is not None and number:
            if number == 1 or iterator not in self._batches:
                self._batches[iterator] = batches_of(iterator)
            self._steps.place = number, self._batches[iterator]
        self._note(("data_ends", self._now(), (samples, trains, number == 1)))

    def forward_begins(self, trains: bool) -> None:
        self._note(("forward_begins", self._now(), trains))

    def forward_ends(self, trains: bool) -> None:
        self._note(("forward_ends", self._now(), trains))

    def loss_is_scaled(self, loss: Any, scaled: Any) -> None:
        """A GradScaler has made the one out of the other."""
        if isinstance(loss, Tensor):
            self._unscaled = scaled, loss

    def backward_begins(self, tensors: Any = None) -> None:
        """tensors: those that backward is called on; None: that is not known."""
        self._tap.attach_to_new_groups()
        if self._delays.are_any:
            self._delay("forward", within="backward", depth=0)
        loss = None if tensors is None else self._loss_of(tensors)
        self._backwards += 1
        self._flags.forward_is_over = True
        self._note(("backward_begins", self._now(), loss))

    def backward_ends(self) -> None:
        self._backwards -= 1
        if not self._backwards:
            self._tap.settle()  # torch DDP waits at the end of backward, in C++, where the tap sees nothing
        if self._delays.are_any:
            self._delay("backward", within="backward", depth=1)
        self._note(("backward_ends", self._now(), ()))

    def optimizer_begins(self, optimizer: int) -> None:
        self._note(("optimizer_begins", self._now(), optimizer))

    def optimizer_ends(self, optimizer: int) -> None:
        self._note(("optimizer_ends", self._now(), optimizer))
        self._between_steps()

    def stepped_unseen(self) -> None:
        self._note(("stepped_unseen", self._now(), ()))
        self._between_steps()

    def _between_steps(self) -> None:
        self._tap.renew()
        if self._first_steps:
            self._first_steps -= 1
            self._steps.read()  # one of them is known to have ended by now
            if not self._first_steps and not self._loop.shows_forward:
                self._seek_forward()
        if (now := time.monotonic()) - self._read_queue_at > READ_QUEUE_EVERY_S:
            self._read_queue_at = now
            self._note(("queued", self._now(), self._progress.queued_ns()))
            if len(self._steps.notes) > MOST_NOTES:
                self._see_no_more()
        if self._reporter.command is not None:
            self._steps.read()
            self._delays.set(self._reporter.command.bottleneck)
            self._reporter.command = None

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
                self.data_begins(trains)
            case "forward":
                self.forward_begins(trains)
            case "backward":
                self.backward_begins()
            case "aggregate":
                self._note(("aggregate_begins", self._now(), ()))
            case "optimizer":
                self.optimizer_begins(MARKED)

    def phase_ends(self) -> None:
        """The phase ends that the training has marked last."""
        name, trains = self._marks.pop() if self._marks else (None, False)  # none: it began before this loop was seen
        match name:
            case "data":
                self.data_ends(0, trains, None)
            case "forward":
                self.forward_ends(trains)
            case "backward":
                self.backward_ends()
            case "aggregate":
                self._note(("aggregate_ends", self._now(), ()))
            case "optimizer":
                self.optimizer_ends(MARKED)

    def step_ends(self, loss: Any, samples: int) -> None:
        """The training marks the end of a step."""
        loss = None if loss is None else self._kept(loss)
        self._note(("step_ends", self._now(), (loss, samples)))
        self._between_steps()

    def ddp_is_made(self) -> None:
        self._tap.expect_ddp()
        self._steps.buckets = True

    def give_up(self) -> None:
        """Detach, and send nothing more."""
        self._tap.close()
        self._reporter.give_up()

    def close(self, fatal_error: str) -> None:
        """Report the last step, and detach. fatal_error: the exception that ends the training; empty: none does.
        Raises what has failed since the last call."""
        self._steps.close()
        self._tap.close()
        if not self._is_let_go:
            self._say_last(fatal_error)
        self._reporter.close()

    def _say_last(self, fatal_error: str) -> None:
        at_ns = time.monotonic_ns()
        if fatal_error:
            self._reporter.send(Failed(rank=self._rank, at_ns=at_ns, error=fatal_error))
            return
        done = Done(
            rank=self._rank,
            at_ns=at_ns,
            correct=0,
            evaluated=0,
            parameters={},
            buffers={},
            bottleneck_fired=self._delays.fired,
            bottleneck_ns=self._delays.slept_ns,
            peak_gpu_bytes=peak_bytes(self._device),
            peak_gpu_reserved_bytes=peak_reserved_bytes(self._device),
            dropped=self._reporter.dropped,
        )
        self._progress.done(done)
