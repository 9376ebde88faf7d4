"""Reports the steps that the notes of a rank make."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from ddptui.wire.messages import Done, Pause, Position, Tied
from ddptui.wire.watching import Watching
from workers.instruments.clock import UNKNOWN
from workers.instruments.progress import Progress, read_loss
from workers.instruments.records import Call, Slept, StepRecord
from workers.instruments.reporter import Reporter
from workers.watch.loop import Cut
from workers.watch.notes import ASIDE, MOST_OPEN, NONE, SITES
from workers.watch.reader import LoopReader

MOST_PHASES = 100_000  # of a step: one that has more is none
MOST_ASIDE = 1_000


class WatchedProgress(Progress):
    """The output of the training is its own."""

    def log(self, record: StepRecord, loss: float) -> None:
        """Print nothing."""


class Steps(LoopReader):
    """Reads the notes of one rank, and reports its steps."""

    def __init__(
        self, rank: int, asked: Watching, reporter: Reporter, *, at_ns: int, signs: int, over: Callable[[], None]
    ) -> None:
        """at_ns: the first step begins. signs: how many signs of steps there were before. over: called once as many
        steps were seen as were asked for."""
        super().__init__(at_ns, self._report)
        self._rank, self._asked, self._reporter, self._over = rank, asked, reporter, over
        self._progress = WatchedProgress(rank, asked.skip, reporter)
        self._names: dict[int, Any] = {}  # of kinds and groups
        self._open: dict[int, Call] = {}  # calls that have not ended
        self._aside: deque[Call] = deque(maxlen=MOST_ASIDE)  # calls on other streams, for which the loop's may yet wait
        self._buckets = False  # of gradients are what torch DDP sends
        self._is_asleep = self._is_over = False
        self._slept: list[Slept] = []
        self._fired = self._slept_ns = 0  # delays after the warm-up
        self.peaks: tuple[int | None, int | None] = None, None  # of GPU memory
        self.memory: tuple[int | None, int | None] = None, None
        self._signs_unseen = signs
        self._signs_before: int | None = None  # the first whole step
        self._first: int | None = None if signs else 0  # number of the first step; None: not known yet
        self.tell: Callable[[dict[str, int]], None] | None = None  # gets the numbers of steps, while the rank asks

    def name(self, number: int, name: Any) -> None:
        """A number stands for the name of a kind, or for the ranks of a group, in the notes that follow."""
        self._names[number] = tuple(name) if isinstance(name, list) else name

    def read(self, notes: Iterator[Any]) -> None:
        """Read whole notes. Raises ValueError: these make no steps."""
        if self._is_over:
            return
        super().read(notes)
        if len(self.loop.timer.phases) > MOST_PHASES:
            raise ValueError(f"it made no step of an optimizer in {MOST_PHASES:,} calls")

    def position(self) -> Position:
        """Where the rank is."""
        batch, batches = self.place
        position = self.calls.position(asleep=self._is_asleep)
        return replace(position, phase=self.loop.phase, epoch=self.loop.epoch, batch=batch, batches=batches)

    def close(self) -> None:
        """The loop is over: report its last step."""
        if not self._is_over:
            self.loop.close()

    def done(self) -> Done:
        """The rank's last message."""
        return Done(
            rank=self._rank,
            at_ns=time.monotonic_ns(),
            correct=0,
            evaluated=0,
            parameters={},
            buffers={},
            bottleneck_fired=self._fired,
            bottleneck_ns=self._slept_ns,
            peak_gpu_bytes=self.peaks[0],
            peak_gpu_reserved_bytes=self.peaks[1],
            dropped=self._reporter.dropped,
        )

    def _take(self, name: str, arguments: list[Any]) -> None:
        match name, arguments:
            case "collective", [number, kind, size, root, group, background, *moments]:
                call = Call(
                    self._names[kind],
                    size,
                    None if root == NONE else root,
                    self._names[group],
                    False,
                    self._known_of_call(self._at),
                    self._known_of_call(moments[0]),
                )
                self._end_call(call, background, moments[1:])
                if number != NONE:
                    self._open[number] = call
                    if len(self._open) > MOST_OPEN:  # the rank tells no more of the first
                        del self._open[next(iter(self._open))]
                self._collective(call)
            case "collective_ended", [number, background, *moments]:
                if (open_call := self._open.pop(number, None)) is not None:
                    self._end_call(open_call, background, moments)
            case "slept", [site, begin_ns, end_ns]:
                self._slept.append((SITES[site], begin_ns, end_ns))
            case "asleep", [is_asleep]:
                self._is_asleep = bool(is_asleep)
            case "paused", [begin_ns, end_ns]:
                self._reporter.send(Pause(rank=self._rank, begin_ns=begin_ns, end_ns=end_ns))
            case "tied", [error_ns]:
                self._reporter.send(Tied(rank=self._rank, at_ns=self._at, error_ns=error_ns))
            case "held_up", [begin_ns]:
                self._held_up(begin_ns, self._at)
            case "memory", [used, reserved, peak, peak_reserved]:
                self.memory, self.peaks = (used, reserved), (peak, peak_reserved)
            case "ddp_is_made", []:
                self._buckets = True
            case "numbered", []:
                self.tell = None
            case _:
                super()._take(name, arguments)

    def _known_of_call(self, at_ns: int) -> int:
        self.is_untimed_since |= at_ns == UNKNOWN
        return self._noted.at if at_ns == UNKNOWN else at_ns

    def _end_call(self, call: Call, background: int, moments: list[int]) -> None:
        call.background = bool(background)
        known = [None if moment == NONE else self._known_of_call(moment) for moment in moments]
        call.issued, call.awaited, call.notified, call.ended = known
        if background == ASIDE and call.ended is not None:
            call.awaited = call.ended  # so far nothing has waited for it
            self._aside.append(call)

    def _held_up(self, begin_ns: int, end_ns: int) -> None:
        """The loop's stream has waited for an event. It waited for the calls that were over by then, one after another,
        or did not need to."""
        if UNKNOWN in (begin_ns, end_ns):
            self.is_untimed_since = True
            return
        for call in sorted((call for call in self._aside if call.ended <= end_ns), key=lambda call: call.ended):
            self._aside.remove(call)
            call.notified, call.awaited, call.ended = call.ended, begin_ns, end_ns
            begin_ns = max(begin_ns, call.notified)

    def _report(self, step: Cut, calls: list[Call]) -> None:
        if self._is_over or (self._first is None and not self._is_numbered(step)):
            return
        number = step.timer.step
        # A step is known to have ended only at the call that follows, before which the next one may have been delayed.
        slept = tuple(delay for delay in self._slept if delay[1] < step.timer.moments[-1])
        self._slept = self._slept[len(slept) :]
        if number >= self._progress.warmup_steps:
            self._fired += len(slept)
            self._slept_ns += sum(end_ns - begin_ns for _, begin_ns, end_ns in slept)
        record = StepRecord(number, step.epoch, step.timer, step.samples, step.losses, calls, self._buckets, slept)
        done = number - (self._first or 0)
        if not self.is_untimed and (done < self._asked.skip or number % self._asked.every == 0):
            times = record.moments()
            loss = read_loss(step.losses, self._noted)
            self._reporter.send(self._progress.step_message(record, times, loss, step.scheduled))
        if self.tell is not None:
            self.tell({"step": number, "ends": self.ends})
        if self._asked.steps is not None and done + 1 >= self._asked.steps:
            self._is_over = True
            self._over()

    def _is_numbered(self, step: Cut) -> bool:
        """Give the steps of a training that had begun unseen the same numbers on all ranks, from the second one on: the
        first was perhaps seen in part. Returns whether this step has its number. Raises ValueError."""
        signs = self._signs_unseen + self.loop.signs
        if self._signs_before is None:
            self._signs_before = signs
            return False
        steps, rest = divmod(self._signs_before, signs - self._signs_before)
        if rest:
            raise ValueError("its steps do not all call backward equally often: those of its ranks cannot be matched")
        self._first = step.timer.step = steps
        step.following.step = steps + 1
        self._progress.warmup_steps += steps
        return True
