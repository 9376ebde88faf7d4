"""Observes a rank: the hooks report the calls of its training loop, and the observer sends notes of them to the relay,
which derives steps from them. Runs in the training's environment, so it needs only torch and Python's standard library.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
import torch.distributed as dist
from torch import Tensor

from ..instruments.clock import Clock
from ..instruments.cuda_clock import clock_of
from ..instruments.gpu import nccl_in_use, own_gpus
from ..instruments.page_locked import OnItsWay
from ..instruments.records import Call, PhaseTimer
from ..instruments.sampler import RunQueue
from ..instruments.shield import pass_on
from ..instruments.tap import Tap
from .batches import ModuleCalls, batches_of
from .checks import Checks, Reading
from .delays import WatchedDelays, as_bottleneck
from .ending import ExitReason, variable
from .link import PAGE_NUMBERS, Gone, Link, Page
from .loop import MARKED
from .notes import CODES, KINDS, MOST_NOTES, SITES, VERSION
from .sender import Sender

if TYPE_CHECKING:
    from ddptui.config.trial import Site

READ_QUEUE_EVERY_S = 0.004  # one reading takes 8 µs in a training
LOOK_EVERY_S, MOST_LINES = 1.0, 1_000  # on a GPU: how often, and at how many collectives of a step
MOST_UNSCALED = 16  # scaled losses kept until backward is called on them
MOST_PASSES = 64  # passes over the data whose lengths are kept; most of them have ended
KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


class Observer:
    """Observes the training of this process. The hooks call its methods, in the thread that trains, before and after
    the torch calls after which the methods are named."""

    def __init__(
        self,
        console: str,
        modules: ModuleCalls,
        over: Callable[[], None],
        fail: Callable[[Exception], None],
        signs: int,
        device: torch.device,
        ddps: Sequence[ref[Any]],
    ) -> None:
        """The process must have joined its process group, if it has one.

        console: the file that names the relay's socket. modules: shows where forward begins if no other call does.
        over: called, from any thread, once `is_over` is set. fail: called, from any thread, with an error of the tap or
        the sender. signs: backward calls and marked step ends before now. device: the device on which the process
        trains. ddps: the torch DDPs that exist already. Raises Gone if there is no relay, and any other error.
        """
        self._modules, self._over, self._fail = modules, over, fail
        in_group = dist.is_available() and dist.is_initialized()
        rank, world_size = (dist.get_rank(), dist.get_world_size()) if in_group else launched_as()
        self._device = device
        self.is_over = False  # whether to stop observing
        asked = read_console(console)
        self._clock = clock_of(self._device)
        self._now, self._come_home = self._clock.at_home, self._clock.come_home
        self._delays = WatchedDelays(rank, self._device, asked["steps"])
        self._ends = 0  # optimizer steps and marked step ends so far
        self._calls = self._calls_before = 0  # collectives so far, and at the last of these
        self._page = Page(asked["socket"])
        self._has_lines = asked["lines"]
        self._looked: dict[int, float] = {}  # by the number of a collective in its step: when its line was looked at
        hello = {
            "version": VERSION,
            "hello": {  # of the fields of wire.messages.Hello, those that the rank knows
                "rank": rank,
                "world_size": world_size,
                "at_ns": time.monotonic_ns(),
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "device": str(self._device),
                "threads": torch.get_num_threads(),
                "torch": str(torch.__version__),
                "backend": dist.get_backend() if in_group else None,
            },
            "gpus": own_gpus(self._device),
            "nccl": nccl_in_use(self._device),
            "signs": signs,
            "page": self._page.path,
        }
        self._sender = Sender(
            Link(asked["socket"]),
            hello,
            self._clock,
            get_ident(),
            asked["lines"],
            lambda: self._delays.asleep,
            self._sender_is_over,
        )
        try:
            self._checks = Checks(self._clock, device, signs) if asked["checks"] else None
            self._attach(asked["bottleneck"], signs, ddps)
            self._sender.start()  # last, so that an observer that fails before has sent no Hello
        except BaseException:  # a signal handler of the training may raise here
            self._sender.close(None)
            raise

    def _attach(self, bottlenecks: list[dict[str, Any]], signs: int, ddps: Sequence[ref[Any]]) -> None:
        self._notes = self._sender.notes
        self._note: Callable[[tuple[Any, ...]], object] = self._notes.extend
        self._note_call: Callable[[Call], None] = self._notes.append
        self._tap = Tap(
            self._clock,
            None,
            before_collective=self._before_collective,
            is_asleep=lambda: self._delays.asleep,
            record=self._record,
            held_up=lambda begin, end: self._note((CODES["held_up"], end, begin)),
            fail=self._fail,
        )
        for ddp in ddps:
            self.ddp_is_made(ddp())
        self._flags = PhaseTimer(Clock())  # the tap only reads its `forward_is_over`
        self._tap.begin(self._flags)
        # Made here, in the loop's thread, which it measures. Not for a GPU, which runs on while the thread has no core.
        self._queue = RunQueue() if self._clock.device is None else None
        self._first_steps = 2  # how many of the first steps are still to come
        self._had_backward = False  # in this step
        self._shows_forward = False  # in this step, a hook saw a batch being fetched or a DDP being called
        self._awaits_forward = False  # until the next module call, since nothing else shows where forward begins
        self._read_queue_at = 0.0
        self.backwards = 0  # nested backward calls in progress
        self._batches: dict[int, int | None] = {}  # batches in a pass over the data, by its iterator's id
        self._marks: list[tuple[str, bool]] = []  # the marked phases in progress, and whether each trains
        # Losses, by the id of the scaled tensor.
        self._unscaled: dict[int, tuple[ref[Tensor], OnItsWay | float | None]] = {}
        if bottlenecks:
            self._set_delays(bottlenecks, first=None if signs else 0)

    def _sender_is_over(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(error)
        self._see_no_more()

    def _see_no_more(self) -> None:
        self.is_over = True
        self._over()

    def _set_delays(self, bottlenecks: list[dict[str, Any]], first: int | None) -> None:
        """Replace the injected delays. first: the number of the step that begins; None if the relay will send it."""
        self._delays.set(tuple(as_bottleneck(fields) for fields in bottlenecks))
        if not self._delays.follows:
            self._delays.follow(self._now(), self._ends, first)
            delays, take, take_call = self._delays, self._notes.extend, self._notes.append

            def note(new: tuple[Any, ...]) -> None:
                take(new)
                delays.notes.extend(new)

            def note_call(call: Call) -> None:
                take_call(call)
                delays.notes.append(call)

            self._note, self._note_call = note, note_call

    def _delay(self, site: "Site", *, within: str, depth: int) -> None:
        """Inject a delay that is due at `site`, if `depth` calls of the phase `within` are in progress."""
        if not self._clock.is_capturing() and self._delays.within(within, depth):
            self._delays.at(site)
            self._note_delays()

    def _before_collective(self) -> bool:
        if not self._delays.are_any:
            return False
        is_delayed = self._delays.before_collective()
        self._note_delays()
        return is_delayed

    def _record(self, call: Call) -> None:
        self._calls += 1
        PAGE_NUMBERS.pack_into(
            self._page.numbers,
            0,
            self._ends,
            self._calls - self._calls_before,
            self._calls,
            KIND_NUMBERS.get(call.kind, -1),
            call.size,
            2 if self.backwards else self._had_backward,
        )
        if self._clock.device is None and self.backwards:
            self._page.forget_line()
        elif self._clock.device is None:
            line = self._page.line(sys._getframe(1), write=True)
            call.line = line if self._has_lines else ()
        elif self._has_lines and not self.backwards and self._is_due(self._calls - self._calls_before):
            call.line = self._page.line(sys._getframe(1), write=False)
        self._note_call(call)

    def _is_due(self, number: int) -> bool:
        """Whether to look which line calls the collective with this number in its step: once a second and number."""
        now = time.monotonic()
        if number >= MOST_LINES or now - self._looked.get(number, 0.0) < LOOK_EVERY_S:
            return False
        self._looked[number] = now
        return True

    def _note_delays(self) -> None:
        for site, begin_ns, end_ns in self._delays.taken():
            self._note((CODES["slept"], self._now(), SITES.index(site), begin_ns, end_ns))

    # Each method writes its note itself. A helper function would be called ten times a step, and a call in the loop's
    # thread costs several times as much as elsewhere: the training's data have displaced our code from the caches.

    def data_begins(self, trains: bool) -> None:
        """The loop fetches a batch. trains: gradients are recorded."""
        self._shows_forward |= trains
        self._note((CODES["data_begins"], self._now(), trains))

    def data_ends(self, batch: Any, samples: int | None, trains: bool, iterator: Any) -> None:
        """samples: in the batch; None if there was none. iterator: the loader's iterator; None if the training marks
        its data phase itself."""
        if self._delays.are_any and samples is not None and trains:
            self._delay("data", within="data", depth=1)
        self._flags.forward_is_over = False
        if self._checks is not None and trains and samples is not None and iterator is not None:
            self._checks.batch_is_fetched(batch, iterator)
        number, loader = getattr(iterator, "_num_yielded", 0), id(getattr(iterator, "_index_sampler", None))
        place: int = 0
        batches: int | None = None
        if trains and samples is not None and number:
            if number == 1 or id(iterator) not in self._batches:
                if len(self._batches) == MOST_PASSES:
                    self._batches.clear()
                self._batches[id(iterator)] = batches_of(iterator)
            place, batches = number, self._batches[id(iterator)]
        self._note((CODES["data_ends"], self._now(), samples, trains, number == 1, place, batches, loader))

    def forward_begins(self, trains: bool, network: Any = None, arguments: Any = None) -> None:
        """Forward begins. trains: gradients are recorded. network: a torch DDP; None if the training marks the phase.
        arguments: of its call."""
        self._shows_forward |= trains
        if self._checks is not None and self._checks.is_due and trains:
            self._checks.forward_begins(network, arguments)
        self._note((CODES["forward_begins"], self._come_home(), trains))

    def forward_ends(self, trains: bool) -> None:
        self._note((CODES["forward_ends"], self._now(), trains))

    def _await_forward(self) -> None:
        self._awaits_forward = not self._first_steps and not self._shows_forward
        if self._awaits_forward or (self._checks is not None and not self._checks.knows_modules):
            self._modules.await_next()

    def module_is_called(self, module: Any, arguments: Any) -> None:
        """The module call that we awaited: forward lasts from now until backward begins. arguments: of the call."""
        self._modules.stop()
        if self._checks is not None:
            self._checks.learn(module)
            if self._checks.is_due:
                self._checks.forward_begins(None, arguments)
        if self._awaits_forward:
            self._note((CODES["forward_begins"], self._come_home(), True))
            self._note((CODES["forward_ends"], self._now(), True))

    def loss_is_scaled(self, loss: Any, scaled: Any) -> None:
        """A GradScaler has scaled one or several losses. Copies the value now and keeps neither tensor, since both keep
        backward's graph alive."""
        if isinstance(loss, list | tuple):
            for each in zip(loss, scaled, strict=False):
                self.loss_is_scaled(*each)
        elif isinstance(loss, Tensor):
            if len(self._unscaled) == MOST_UNSCALED:
                self._forget_unscaled(next(iter(self._unscaled)))
            self._forget_unscaled(id(scaled))
            self._unscaled[id(scaled)] = ref(scaled), self._kept(loss)

    def _forget_unscaled(self, number: int) -> None:
        if number in self._unscaled and (kept := self._unscaled.pop(number)[1]) is not None:
            self._clock.read(kept)  # reading frees its buffer

    def backward_begins(self, tensors: Any = None) -> None:
        """tensors: the tensors on which backward is called; None if unknown."""
        self._tap.attach_to_new_groups()
        self._modules.stop()
        if self._delays.are_any:
            self._delay("forward", within="backward", depth=0)
        loss = None if tensors is None else self._loss_of(tensors)
        batch = None
        if self._checks is not None and not self.backwards and (self._checks.is_due or self._checks.batch):
            batch = self._checks.backward_begins(tensors, self._calls)
        self.backwards += 1
        self._had_backward = True
        self._flags.forward_is_over = True
        self._note((CODES["backward_begins"], self._come_home(), loss))
        self._note_reading(batch)

    def backward_ends(self, *, is_whole: bool = True) -> None:
        """is_whole: it has not raised an exception."""
        self.backwards = max(0, self.backwards - 1)  # an exception may have kept us from counting its begin
        if not self.backwards:
            self._await_forward()
            # torch DDP waits at the end of backward in C++, where the tap cannot see it.
            (self._tap.settle if is_whole else self._tap.abandon)()
        if self._checks is not None:
            self._checks.count()
            if self._checks.is_due:
                self._checks.backward_ends(self._calls, is_outermost=not self.backwards)
        if self._delays.are_any:
            self._delay("backward", within="backward", depth=1)
        self._note((CODES["backward_ends"], self._now()))

    def optimizer_begins(self, optimizer: Any) -> None:
        """optimizer: MARKED if the training marks the phase."""
        self._note((CODES["optimizer_begins"], self._now(), optimizer if optimizer is MARKED else id(optimizer)))
        if self._checks is not None and self._checks.is_due and optimizer is not MARKED:
            self._note_reading(self._checks.optimizer_begins(optimizer))

    def optimizer_ends(self, optimizer: Any) -> None:
        if self._checks is not None and self._checks.within is not None:
            self._note_reading(self._checks.optimizer_ends(optimizer))
        self._note((CODES["optimizer_ends"], self._now(), optimizer if optimizer is MARKED else id(optimizer)))
        self._between_steps()

    def _note_reading(self, reading: Reading | None) -> None:
        if reading is not None:  # its moment is taken after the reading: once that is reached, its numbers are there
            self._note((CODES["read"], self._clock.now(), reading))

    def stepped_unseen(self) -> None:
        """An optimizer in compiled code has made a step since the last call."""
        self._note((CODES["stepped_unseen"], self._now()))
        self._between_steps()

    def _between_steps(self) -> None:
        self._ends += 1
        self._calls_before = self._calls
        PAGE_NUMBERS.pack_into(self._page.numbers, 0, self._ends, 0, self._calls, -1, 0, False)
        self._tap.renew()
        if self._first_steps:
            self._first_steps -= 1
        self._await_forward()
        self._had_backward = False
        self._shows_forward = False  # the next step may call the model's methods without calling the model
        if (now := time.monotonic()) - self._read_queue_at > READ_QUEUE_EVERY_S:
            self._read_queue_at = now
            if self._queue is not None and any(taken := self._queue.taken()):
                self._note((CODES["scheduled"], self._now(), *taken))
            if len(self._notes) > MOST_NOTES or self._clock.is_full():
                self._see_no_more()
        if self._sender.orders and not self.backwards and not self._marks:
            self._obey()

    def _obey(self) -> None:
        """Execute one order of the relay."""
        order = self._sender.orders.popleft()
        if "bottleneck" in order:
            self._set_delays(order["bottleneck"], first=None)
        elif self._delays.learn(order["step"], order["ends"]):
            self._note((CODES["numbered"], self._now()))

    def _loss_of(self, tensors: Any) -> OnItsWay | float | None:
        loss = tensors[0] if isinstance(tensors, Sequence) and len(tensors) == 1 else tensors
        scaled, unscaled = self._unscaled.get(id(loss), (None, None))
        if scaled is not None and scaled() is loss:
            del self._unscaled[id(loss)]
            return unscaled
        return self._kept(loss)

    def _kept(self, loss: Any) -> OnItsWay | float | None:
        """The loss, or a copy of it on its way from the device. None if it is not a number, or if reading it would run
        the training's own code (e.g. of a tensor subclass) or call a collective."""
        if isinstance(loss, int | float):
            return float(loss)
        if not isinstance(loss, Tensor) or type(loss).__torch_dispatch__ is not Tensor.__torch_dispatch__:
            return None
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():  # also the training's modes
            if loss.is_cuda and self._clock.device is None:
                raise RuntimeError(f"its first backward was on the {self._device}, and this one on {loss.device}")
            try:
                is_there = loss.device == self._device and self._device.type in ("cpu", "cuda")
                is_number = loss.numel() == 1 and not loss.is_complex()
                return self._clock.keep(loss) if is_there and is_number else None
            except RuntimeError as error:  # the tensor is on the meta device, fake, or torch.func's
                pass_on(error)
                return None

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
                self._note((CODES["aggregate_begins"], self._now()))
            case "optimizer":
                self.optimizer_begins(MARKED)

    def phase_ends(self) -> None:
        """The last marked phase ends."""
        name, trains = self._marks.pop() if self._marks else (None, False)  # empty: it began before we observed
        match name:
            case "data":
                self.data_ends(None, 0, trains, None)
            case "forward":
                self.forward_ends(trains)
            case "backward":
                self.backward_ends()
            case "aggregate":
                self._note((CODES["aggregate_ends"], self._now()))
            case "optimizer":
                self.optimizer_ends(MARKED)

    def step_ends(self, loss: Any, samples: int) -> None:
        """The training marks the end of a step."""
        kept = None if loss is None else self._kept(loss)  # before the mark: once that is reached, the loss is there
        self._note((CODES["step_ends"], self._come_home(), kept, samples))
        if self._checks is not None:
            self._checks.count()
        self._between_steps()

    def ddp_is_made(self, network: Any) -> None:
        """The training has made a torch DDP."""
        if self._checks is not None and network is not None:
            self._checks.ddp_is_made(network)
        self._tap.expect_ddp()
        self._note((CODES["ddp_is_made"], self._now()))

    def give_up(self) -> None:
        """Detach from torch, and send nothing more."""
        self._detach()
        self._sender.close(None)

    def forget(self) -> None:
        """Drop what belongs to the parent, in a process forked from the rank's."""
        self._modules.stop()
        self._tap.forget()
        self._sender.forget()

    def close(self, failure: ExitReason | None, workers: list[list[int]]) -> None:
        """Report the end of the loop to the relay, and detach from torch. failure: what ends the training; None if it
        does not fail. workers: ProcessEnd.dead_workers."""
        error, stack, *_ = failure or ("", [])
        last = {"ended_ns": time.monotonic_ns(), "error": error, "stack": stack, "workers": workers}
        if self._checks is not None and failure is None:
            for reading in self._checks.at_end() or ():
                self._note_reading(reading)
        self._detach()
        self._sender.close(None if self.is_over else last)

    def _detach(self) -> None:
        self._modules.stop()
        self._tap.close()
        if self._queue is not None:
            self._queue.close()


def read_console(file: str) -> dict[str, Any]:
    """Read the console's file for the ranks (ddptui/wire/connection.py). Raises Gone if it cannot be read."""
    try:
        console: dict[str, Any] = json.loads(Path(file).read_bytes())
    except OSError as error:
        pass_on(error)
        raise Gone(str(error)) from None
    return console


def launched_as() -> tuple[int, int]:
    """The rank and the world size that a launcher has given to a process without a process group; (0, 1) without a
    launcher."""
    rank, world_size = variable("RANK"), variable("WORLD_SIZE")
    return (0, 1) if rank is None or world_size is None or rank >= world_size else (rank, world_size)
