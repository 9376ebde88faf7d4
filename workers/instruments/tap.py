"""Records every collective from outside, so that the strategies stay plain: which one, when the rank entered it, when
it began to do nothing but wait for it, and when it ended.

The tap itself never waits. On a GPU its moments are events on the stream, which are read later. It relies on this:

    called, enter  on the stream of the caller. NCCL makes its own stream wait for it, so it begins no sooner.
    issued         a call that is not in the background runs on that stream, or that stream waits for it: it has ended.
    a wait         for NCCL makes the current stream wait, not the host. An event before it is reached when the device
                   has nothing else to do, and one after it when the operation has ended.
    aside          a call on another stream than the loop's, as with FSDP, holds the loop's stream up only while that
                   waits for an event, or the host waits. `held_up` receives these waits.
    notified       torch's stock NCCL calls back at once, on a stream that waits for the operation. (If a stream of
                   the clock's waited, torch would release the tensors too early.) The newer implementation, nccl2,
                   makes the caller's stream wait if it is asked for a future, and backward would hide no transfer.
                   So there a stream of the clock's waits, and is marked. gloo's and MPI's futures call back when the
                   host has done it, in a thread of their own: there the host's moment counts. gloo's copy back to the
                   device comes later and is not included.
    settled        torch DDP waits in the same way, on the stream on which backward was called.

A call with tensors on the CPU waits for no device: its moments are the host's.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .calls import CallsBySteps
from .clock import Clock
from .gpu import HOST, NCCL2, STOCK_NCCL
from .hooks import attach, attach_to_new_groups
from .records import Call, PhaseTimer
from .shield import pass_on, shielded

if TYPE_CHECKING:
    from ddptui.wire.messages import Position

FEW_WORKS = 100  # may be known although they are over
BLOCKING_WAIT = "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"
MOST_UNSETTLED = 10_000  # calls; a step of torch DDP has some tens
TORCHS = {"torch", __name__.partition(".")[0]}  # packages of the functions through which torch DDP sends buckets


class Tap:
    """Records the collectives between `begin` and `end` of a step."""

    def __init__(
        self,
        clock: Clock,
        network: nn.Module | None,  # what the loop calls; a torch DDP is recognized. None: not known yet
        *,
        buckets: bool = False,  # calls that carry gradients carry buckets of them
        overlaps: bool = False,  # gradients are sent while backward goes on
        before_collective: Callable[[], bool] = lambda: False,  # returns whether it delayed the rank
        is_asleep: Callable[[], bool] = lambda: False,  # in such a delay; asked from another thread
        attached: bool = True,  # to torch; a detached tap sees nothing and costs nothing
        compiles: bool = True,  # torch.compile may come upon the tap, and must be kept from tracing it
        record: Callable[[Call], None] | None = None,  # takes the calls; None: they are kept by step
        held_up: Callable[[Any, Any], object] | None = None,  # takes begin and end of each wait of the loop's stream
        fail: Callable[[Exception], object] = lambda error: None,  # told of an error of the tap's own, which ends it
    ) -> None:
        self.now = clock.now
        self._wait = dist.Work.wait  # not yet wrapped
        # The host, also for NCCL; or all streams: with one connection, what is queued later stands behind a wait.
        self._waits_block = any(os.environ.get(name, "0") != "0" for name in BLOCKING_WAIT)
        self._waits_block |= os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"
        self._clock = clock
        self.device = clock.device
        self._held_up = held_up
        self._has_aside = False  # calls aside
        self.buckets = buckets
        self._overlaps = overlaps
        self._before_collective = before_collective
        self._is_asleep = is_asleep
        self._is_ddp = False
        self._timer: PhaseTimer | None = None  # none: between two steps, where nothing is recorded
        self._steps = CallsBySteps(clock)
        self._record = record or self._steps.calls.append
        self._works: dict[int, tuple[ref[dist.Work], Call]] = {}  # by number, which torch reuses once a work is gone
        # By thread: its last work, which has yet to come to Python. It would get another number there if it was let go.
        self._last_works: dict[int, dist.Work] = {}
        self._last_grouped: dict[int, Call] = {}  # by thread: the last call in the background without a work
        self._enough_works = FEW_WORKS
        self._unsettled: deque[Call] = deque(maxlen=MOST_UNSETTLED)  # torch DDP has issued, and not waited for, these
        self._carriers = self._last_carriers = 0  # calls that carried gradients: in this step, and in the one before
        self._compiles = compiles
        self._known_groups: set[str] = set()  # their names: the groups themselves must not be held
        self._fail = fail
        self._has_failed = False
        self._has_futures = True
        self._undo: list[Callable[[], None]] = []
        if attached and dist.is_initialized():
            self._undo = attach(self, compiles=compiles)
            self.attach_to_new_groups()
            if isinstance(network, DistributedDataParallel):
                self.expect_ddp(overlaps=overlaps)

    def attach_to_new_groups(self) -> None:
        """Record the calls of process groups made since the last call, too. Cheap if there are none."""
        self._undo += attach_to_new_groups(self, self._known_groups, compiles=self._compiles)

    def expect_ddp(self, *, overlaps: bool = True) -> None:
        """There is a torch DDP: by default it sends buckets of gradients, while backward goes on."""
        self._is_ddp = True
        self.buckets |= overlaps
        self._overlaps |= overlaps

    def close(self) -> None:
        """Detach from torch, and record nothing more. The hooks may call this."""
        self._timer = self._steps.timer = None
        self._works.clear()
        self._last_works.clear()
        self._last_grouped.clear()
        self._unsettled.clear()
        while self._undo:  # drop each at once: they hold the group
            self._undo.pop()()

    def forget(self) -> None:
        """After a fork: record nothing more, ask no device, and keep whatever belongs to one."""
        self._timer = self._steps.timer = None
        self._is_ddp = False
        self._unsettled = deque()

    def fail(self, error: Exception) -> None:
        """A call of the tap's has failed: record nothing more, and say so once."""
        if not self._has_failed:
            self._has_failed = True
            self.close()
            self._fail(error)

    def begin(self, timer: PhaseTimer) -> None:
        """A step begins."""
        if self._has_failed:
            return
        self._timer = self._steps.timer = timer

    def settle(self) -> None:
        """torch DDP has just returned: in C++ it has waited for all that it had issued there."""
        if not self._unsettled:
            return
        calls = [call for call in self._unsettled if call.ended is None]  # Python has waited for the others
        self._unsettled.clear()
        if not calls:
            return
        ended = self.now()
        for call in calls:
            if call.thread == calls[0].thread:  # others are issued by torch's threads, when the rank waits already
                awaited = call.issued  # of the last one: then the rank began to wait
        for call in calls:
            call.awaited, call.ended = awaited, ended

    def end(self) -> list[Call]:
        """The step has ended. Returns its calls, in order."""
        self.renew()
        self._timer = None
        self._works = {}
        return self._steps.cut(len(self._steps.calls), None)

    def renew(self) -> None:
        """A step has ended, or may have: forget what is over."""
        self._last_carriers, self._carriers = self._carriers, 0
        self._last_works.clear()
        self._end_ungrouped()
        if self._works:
            self._forget_ended()

    def _forget_ended(self) -> None:
        works = list(self._works.items())  # other threads may add to them meanwhile
        self._works = {key: (work, call) for key, (work, call) in works if call.ended is None and work() is not None}

    def position(self) -> "Position":
        """Where the rank's device is, which may be steps behind its loop."""
        return self._steps.position(asleep=self._is_asleep())

    def before(self, kind: str, size: int, root: int | None, group: tuple[int, ...], by: str = "") -> Call | None:
        """A collective is called. by: what carries it; empty where the clock is the host's. Returns its record, or None
        between two steps, and while it is captured for a graph."""
        if self._timer is None or (by and self._clock.is_capturing()):
            return None
        now = self._clock.at_once if by == HOST else self.now
        called = enter = now()
        if self._before_collective():
            enter = now()
        call = Call(kind, size, root, group, self._timer.forward_is_over, called, enter, by)
        self._record(call)
        return call

    def issued(self, call: Call, work: dist.Work | None, *, background: bool) -> None:
        """The call has returned. work: None: it has ended, or, in the background, shares the work of its group
        (`issued_together`). Not in the background: a wait follows at once."""
        call.issued = self._clock.at_once() if call.by == HOST else self.now()
        if background:
            call.background = True
            if self._is_ddp:
                call.thread = threading.get_ident()
                self._unsettled.append(call)
            if work is None:
                self._end_ungrouped()
                self._last_grouped[threading.get_ident()] = call
        else:
            call.awaited = call.enter
            if call.by:
                self._look_aside(call)
        if work is not None:
            self._note_work(work, call)
        elif not background:
            call.ended = call.issued
        if work is None or not (background and self._overlaps):
            return
        self._carriers += call.forward_is_over
        if call.kind != "all_reduce":
            return
        if call.by in (STOCK_NCCL, NCCL2):
            # A call of the training's own is let alone: torch would free its tensors later.
            if is_called_by_torch() and not self._waits_block:
                self._mark_end(work, call)
        # Torch calls back only where more gradients will be sent after this call, as in the step before: the end of the
        # last one is known, since the rank waits for it. gloo calls back in a thread that must wait for Python's lock,
        # which costs more than all the rest of the tap.
        elif self._carriers < self._last_carriers:
            self._ask_for_end(work, call, self._clock.at_once)

    def issued_together(self, work: dist.Work) -> None:
        """The sends and receives just called have this work together: a wait for it is one for the last of them."""
        if (call := self._last_grouped.pop(threading.get_ident(), None)) is not None:
            self._note_work(work, call)

    def _end_ungrouped(self) -> None:
        """The last call without a work was not the last of its group: nothing will tell when it ends."""
        if (call := self._last_grouped.pop(threading.get_ident(), None)) is not None:
            call.awaited = call.ended = call.issued

    def _note_work(self, work: dist.Work, call: Call) -> None:
        self._works[id(work)] = ref(work), call
        self._last_works[threading.get_ident()] = work
        if len(self._works) > self._enough_works:  # a step of many calls, or one that never ends
            self._forget_ended()
            self._enough_works = max(FEW_WORKS, 2 * len(self._works))

    def _mark_end(self, work: dist.Work, call: Call) -> None:
        """Have the end of an operation of NCCL's marked."""
        if call.by == NCCL2:
            call.notified = self._clock.after(partial(self._wait, work))
        else:
            self._ask_for_end(work, call, self.now)

    def _ask_for_end(self, work: dist.Work, call: Call, now: Callable[[], Any]) -> None:
        """Have torch call back when a work has ended. Not all groups can."""
        if not self._has_futures:
            return
        try:
            future = work.get_future()
        except RuntimeError as error:
            pass_on(error)
            self._has_futures = False
        else:
            future.add_done_callback(shielded(lambda _: self._notified(call, now), self.fail))

    def _notified(self, call: Call, now: Callable[[], Any]) -> None:
        call.notified = now()

    def _look_aside(self, call: Call) -> None:
        """Note whether it is not the loop's stream that waits for this call."""
        call.aside = call.by != HOST and not self._clock.is_home()
        self._has_aside |= call.aside

    def begins_to_wait(self, stream: Any) -> Any:
        """A stream is about to wait for an event. stream: None: the current one. Returns the moment if it is the loop's
        stream and there were calls aside, else None."""
        if not self._has_aside or self._timer is None or not self._clock.is_home(stream):
            return None
        return self._clock.at_home()

    def has_waited(self, begin: Any) -> None:
        """The stream has been told to wait, at that moment."""
        if self._held_up is not None:
            self._held_up(begin, self._clock.at_home())

    def waits(self, work: dist.Work) -> Call | None:
        """Python is about to wait for a work. Returns the call that has issued it, if that is recorded and not over."""
        self._last_works.pop(threading.get_ident(), None)
        known, call = self._works.get(id(work), (None, None))
        if known is None or call is None or known() is not work or call.ended is not None:
            return None
        if call.awaited is None:
            call.awaited = self._clock.at_once() if call.by == HOST else self.now()
        return call

    def waited(self, call: Call) -> None:
        """Python has waited for what this call has issued."""
        if call.by:  # before the end, at which the sender may take it
            self._look_aside(call)
        call.ended = self._clock.at_once() if call.by == HOST else self.now()


def is_called_by_torch() -> bool:
    """Whether every function on this thread's stack is torch's or ours, as when autograd calls torch DDP."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in TORCHS:
            return False
        frame = frame.f_back
    return True
