"""Records every collective without code in the strategies: its kind, when the rank entered it, from when on the rank
only waited for it, and when it ended.

The tap itself never waits. On a GPU its moments are events on a stream, which are read later. They mean the following:

    called, enter  Events on the caller's stream. NCCL's own stream waits for the caller's, so it starts no sooner.
    issued         A call that is not in the background runs on the caller's stream, or that stream waits for it. So
                   an event after it marks its end.
    awaited, ended A wait for NCCL makes the current stream wait, not the host. An event before the wait is reached
                   when the device has nothing else to do, and an event after it when the operation has ended.
    aside          A call on another stream than the loop's, as with FSDP, holds up the loop's stream only while that
                   stream waits for an event, or the host waits. `held_up` receives these waits.
    notified       torch's stock NCCL calls back at once, on a stream that waits for the operation. (If a stream of the
                   clock waited instead, torch would release the tensors too early.) The newer implementation, nccl2,
                   makes the caller's stream wait when asked for a future, and backward would hide no transfer. So with
                   nccl2 a stream of the clock waits, and we mark its end. The futures of gloo and MPI call back when
                   the host has finished, in a thread of their own, so we take the host's time. It does not include
                   gloo's later copy back to the device.
    settle         torch DDP waits in the same way, on the stream on which backward was called.

A call with tensors on the CPU does not involve the device: its moments are the host's.
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

from .clock import Clock
from .gpu import HOST, NCCL2, STOCK_NCCL
from .hooks import attach, attach_to_new_groups
from .records import Call, PhaseTimer
from .shield import pass_on, shielded

if TYPE_CHECKING:
    from ddptui.wire.messages import Position

FEW_WORKS = 100  # so many finished works may be kept before we drop them
BLOCKING_WAIT = "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"
MOST_UNSETTLED = 10_000  # calls; torch DDP makes some tens per step
TORCHS = {"torch", __name__.partition(".")[0]}  # packages of the functions through which torch DDP sends buckets


class Tap:
    """Records the collectives between `begin` and `end` of a step."""

    def __init__(
        self,
        clock: Clock,
        network: nn.Module | None,  # the module that the loop calls, perhaps a torch DDP; None if not known yet
        *,
        buckets: bool = False,  # whether calls that carry gradients carry buckets
        overlaps: bool = False,  # whether gradients are sent while backward continues
        before_collective: Callable[[], bool] = lambda: False,  # returns whether it delayed the rank
        is_asleep: Callable[[], bool] = lambda: False,  # whether the rank is in such a delay; any thread may call it
        attached: bool = True,  # whether to attach to torch; a detached tap records nothing and costs nothing
        compiles: bool = True,  # whether torch.compile may meet the tap, and must be kept from tracing it
        record: Callable[[Call], None] | None = None,  # receives the calls; None to collect them by step
        check: Callable[[Call | None, int], object] | None = None,  # receives each call before it is made, and its step
        held_up: Callable[[Any, Any], object] | None = None,  # receives begin and end of each wait of the loop's stream
        fail: Callable[[Exception], object] = lambda error: None,  # receives an error of the tap, which ends the tap
    ) -> None:
        self.now = clock.now
        self._wait = dist.Work.wait  # before we wrap it
        # A wait may block the host, even with NCCL; or, with a single connection, all streams that get work later.
        self._waits_block = any(os.environ.get(name, "0") != "0" for name in BLOCKING_WAIT)
        self._waits_block |= os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"
        self._clock = clock
        self.device = clock.device
        self._check, self._held_up = check, held_up
        self._has_aside = False  # whether there were calls aside
        self.buckets = buckets
        self._overlaps = overlaps
        self._before_collective = before_collective
        self._is_asleep = is_asleep
        self._is_ddp = False
        self._timer: PhaseTimer | None = None  # None between two steps, when nothing is recorded
        self._calls: list[Call] = []  # of this step: always this list object, since we keep its `append`
        self._behind: deque[tuple[PhaseTimer, list[Call]]] = deque()  # earlier steps, which the device has not finished
        self._record = record or self._calls.append
        self._works: dict[int, tuple[ref[dist.Work], Call]] = {}  # by Python's id, which is reused once a work is gone
        # By thread: its last work, kept until Python receives it. If we dropped it, Python would get another object.
        self._last_works: dict[int, dist.Work] = {}
        self._last_grouped: dict[int, Call] = {}  # by thread: the last call in the background without a work
        self._enough_works = FEW_WORKS
        self._unsettled: deque[Call] = deque(maxlen=MOST_UNSETTLED)  # calls that torch DDP issued and has not awaited
        self._carriers = self._last_carriers = 0  # calls that carried gradients in this step, and in the previous one
        self._compiles = compiles
        self._known_groups: set[str] = set()  # names, since we must not hold references to the groups
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
        """Also record the calls of process groups created since the last call. Cheap if there are none."""
        self._undo += attach_to_new_groups(self, self._known_groups, compiles=self._compiles)

    def expect_ddp(self, *, overlaps: bool = True) -> None:
        """Expect calls of a torch DDP. overlaps: it sends buckets of gradients while backward continues."""
        self._is_ddp = True
        self.buckets |= overlaps
        self._overlaps |= overlaps

    def close(self) -> None:
        """Detach from torch, and record no more calls. The hooks may call this."""
        self._timer = None
        self._works.clear()
        self._last_works.clear()
        self._last_grouped.clear()
        self._unsettled.clear()
        while self._undo:  # drop each at once, since they hold references to the group
            self._undo.pop()()

    def forget(self) -> None:
        """After a fork: record no more calls, query no device, and free nothing that belongs to a device."""
        self._timer = None
        self._is_ddp = False
        self._unsettled = deque()

    def fail(self, error: Exception) -> None:
        """Close the tap after an error of its own, and report the first one."""
        if not self._has_failed:
            self._has_failed = True
            self.close()
            self._fail(error)

    def begin(self, timer: PhaseTimer) -> None:
        """Record calls from now on: a step begins."""
        if not self._has_failed:
            self._timer = timer

    def settle(self) -> None:
        """torch DDP has just returned, after waiting in C++ for all operations that it had issued there."""
        if not self._unsettled:
            return
        calls = [call for call in self._unsettled if call.ended is None]  # Python has awaited the others
        self._unsettled.clear()
        if not calls:
            return
        ended = self.now()
        for call in calls:
            if call.thread == calls[0].thread:  # torch's threads issue others when the rank already waits
                awaited = call.issued  # the rank began to wait when it had issued the last one
        for call in calls:
            call.awaited, call.ended = awaited, ended

    def abandon(self) -> None:
        """torch DDP has raised an exception: its operations may never end."""
        self._unsettled.clear()

    def end(self) -> list[Call]:
        """End the step. Returns its calls, in order."""
        if self._check is not None and self._timer is not None:
            self._check(None, self._timer.step)
        self.renew()
        calls = self._calls[:]
        self._calls.clear()
        if self._timer is not None:
            self._behind.append((self._timer, calls))
        while self._behind and self._clock.reached(self._behind[0][0].moments[-1]):
            self._behind.popleft()
        self._timer = None
        self._works = {}
        return calls

    def renew(self) -> None:
        """Forget finished calls: a step has ended, or may have."""
        self._last_carriers, self._carriers = self._carriers, 0
        self._last_works.clear()
        self._end_ungrouped()
        if self._works:
            self._forget_ended()

    def _forget_ended(self) -> None:
        works = list(self._works.items())  # other threads may add to them meanwhile
        self._works = {key: (work, call) for key, (work, call) in works if call.ended is None and work() is not None}

    def position(self) -> "Position":
        """The position of the rank's device, which may be steps behind its loop. Any thread may call this."""
        from .positions import position_of  # late: a watched process may lack msgspec

        timer, calls = self._timer, list(self._calls)  # copies, since the loop continues
        behind = [step for step in list(self._behind) if not self._clock.reached(step[0].moments[-1])]
        if behind:
            timer, calls = behind[0]
        return position_of(timer, calls, self._clock, asleep=self._is_asleep())

    def before(self, kind: str, size: int, root: int | None, group: tuple[int, ...], by: str = "") -> Call | None:
        """Record that a collective is called. by: what carries it; empty if the clock is the host's. Returns the
        record, or None between two steps and while a graph is captured."""
        if self._timer is None or (by and self._clock.is_capturing()):
            return None
        now = self._clock.at_once if by == HOST else self.now
        called = enter = now()
        if self._before_collective():
            enter = now()
        call = Call(kind, size, root, group, self._timer.forward_is_over, called, enter, by)
        self._record(call)
        if self._check is not None:
            self._check(call, self._timer.step)
        return call

    def issued(self, call: Call, work: dist.Work | None, *, background: bool) -> None:
        """Record that the call has returned. background: whether the rank continues meanwhile; if not, it waits at
        once. work: None if the call has ended, or, in the background, if it shares the work of a group of calls
        (`issued_together`)."""
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
            # Only torch DDP's own calls: with our callback, torch would free the tensors of a call later.
            if is_called_by_torch() and not self._waits_block:
                self._mark_end(work, call)
        # Request a callback only if more gradients will be sent after this call, judging by the previous step: the end
        # of the last call is known, since the rank waits for it. gloo calls back in a thread that must wait for
        # Python's lock, which costs more than the rest of the tap.
        elif self._carriers < self._last_carriers:
            self._ask_for_end(work, call, self._clock.at_once)

    def issued_together(self, work: dist.Work) -> None:
        """The group of sends and receives just called shares this work: we assign it to the last of them."""
        if (call := self._last_grouped.pop(threading.get_ident(), None)) is not None:
            self._note_work(work, call)

    def _end_ungrouped(self) -> None:
        """Treat this thread's last call without a work as ended: it is not the last of a group, so no work shows its
        end."""
        if (call := self._last_grouped.pop(threading.get_ident(), None)) is not None:
            call.awaited = call.ended = call.issued

    def _note_work(self, work: dist.Work, call: Call) -> None:
        self._works[id(work)] = ref(work), call
        self._last_works[threading.get_ident()] = work
        if len(self._works) > self._enough_works:  # the step has many calls, or never ends
            self._forget_ended()
            self._enough_works = max(FEW_WORKS, 2 * len(self._works))

    def _mark_end(self, work: dist.Work, call: Call) -> None:
        """Mark the end of an NCCL operation."""
        if call.by == NCCL2:
            call.notified = self._clock.after(partial(self._wait, work))
        else:
            self._ask_for_end(work, call, self.now)

    def _ask_for_end(self, work: dist.Work, call: Call, now: Callable[[], Any]) -> None:
        """Have torch call back when a work has ended, if the process group supports it."""
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
        """Note whether another stream than the loop's waits for this call."""
        call.aside = call.by != HOST and not self._clock.is_home()
        self._has_aside |= call.aside

    def begins_to_wait(self, stream: Any) -> Any:
        """A stream is about to wait for an event. stream: None for the current one. Returns the moment if it is the
        loop's stream and there were calls aside, else None."""
        if not self._has_aside or self._timer is None or not self._clock.is_home(stream):
            return None
        return self._clock.at_home()

    def has_waited(self, begin: Any) -> None:
        """Report a wait of the loop's stream, which began at that moment and ends when the stream reaches this one."""
        if self._held_up is not None:
            self._held_up(begin, self._clock.at_home())

    def waits(self, work: dist.Work) -> Call | None:
        """Python is about to wait for a work. Returns the call that issued it if it is recorded and has not ended, else
        None."""
        self._last_works.pop(threading.get_ident(), None)
        known, call = self._works.get(id(work), (None, None))
        if known is None or call is None or known() is not work or call.ended is not None:
            return None
        if call.awaited is None:
            call.awaited = self._clock.at_once() if call.by == HOST else self.now()
        return call

    def waited(self, call: Call) -> None:
        """Python has waited for the work that this call has issued."""
        if call.by:  # before `ended` is set, after which the sender's thread may take the call
            self._look_aside(call)
        call.ended = self._clock.at_once() if call.by == HOST else self.now()


def is_called_by_torch() -> bool:
    """Whether all functions on this thread's stack are torch's or ours, as when autograd calls torch DDP."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in TORCHS:
            return False
        frame = frame.f_back
    return True
