"""Makes steps of the notes that were taken of a loop, in the reporter's thread. The loop's own thread only takes notes:
there, the training's data have displaced all else from the caches, so that any work takes several times as long.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from ddptui.wire.messages import Position
from ddptui.wire.watching import Watching

from ..instruments.calls import CallsBySteps
from ..instruments.clock import Clock
from ..instruments.delays import RankDelays
from ..instruments.progress import Progress
from ..instruments.records import Call, StepRecord
from ..instruments.reporter import Reporter
from .loop import Cut, Loop

MOST_PHASES = 100_000  # of a step: one that has more is none
MOST_NOTES = 3_000_000  # more are there only if the thread that reads them has died


class NotedClock(Clock):
    """The clock of what is read from notes."""

    def __init__(self, at: Any) -> None:
        self.at = at

    def now(self) -> Any:
        return self.at


class Steps:
    """Reads notes of calls, and reports the steps that they make."""

    def __init__(
        self,
        clock: Clock,
        asked: Watching,
        reporter: Reporter,
        progress: Progress,
        delays: RankDelays,
        *,
        over: Callable[[], None],
        signs: int,
    ) -> None:
        """over: called once nothing more is to be seen. signs: how many signs of steps there were before."""
        # For each call of the loop's methods: its name, when it is meant to be made by the rank's clock, and its
        # argument, or a tuple of them. The three are put in at once, but not as one object: Python would look for
        # garbage more often then, in all that the training has. A collective is a note by itself.
        self.notes: deque[Any] = deque()
        self.place: tuple[int, int | None] = 0, None  # batches that were fetched of a pass over the data, and all of it
        self.buckets = False  # of gradients are what torch DDP sends
        self._is_over = False  # as many steps were seen as were asked for, or reading has failed
        self._error: Exception | None = None
        self._clock, self._noted = clock, NotedClock(clock.now())
        self._asked, self._reporter, self._progress, self._delays = asked, reporter, progress, delays
        self._over, self._signs_unseen = over, signs
        self._signs_before: int | None = None  # the first whole step
        self._first: int | None = None if signs else 0  # number of the first step; None: not known yet
        self._calls = CallsBySteps(clock)
        self.loop = Loop(self._noted, lambda: len(self._calls.calls), self._ended)
        self._calls.timer = self.loop.timer
        self._lock = threading.Lock()

    def read(self) -> None:
        """Read the notes, from any thread. `close` raises what fails here."""
        with self._lock:
            try:
                self._read_all()
            except Exception as error:
                self._error = error
                self._end()
            except BaseException:  # Ctrl-C in the midst of a note: what follows could not be read
                self._end()
                raise

    def _read_all(self) -> None:
        notes, take = self.notes, self.notes.popleft
        while notes and not self._is_over:
            first = take()
            if isinstance(first, Call):
                first.forward_is_over = self.loop.timer.forward_is_over
                self._calls.calls.append(first)
                continue
            self._noted.at, argument = take(), take()
            call = getattr(self.loop, first)
            if isinstance(argument, tuple):
                call(*argument)
            else:
                call(argument)
        if len(self.loop.timer.phases) > MOST_PHASES:
            raise ValueError(f"it made no step of an optimizer in {MOST_PHASES:,} calls")

    def _end(self) -> None:
        self._is_over = True
        self._over()

    def position(self) -> Position:
        """Where the rank is."""
        self.read()
        batch, batches = self.place
        position = self._calls.position(asleep=self._delays.asleep)
        return replace(position, epoch=self.loop.epoch, batch=batch, batches=batches)

    def close(self) -> None:
        """The loop is over: report its last step. Raises what has failed."""
        self.read()
        if not self._is_over:
            self.loop.close()
        if self._error is not None:
            raise self._error

    def _ended(self, step: Cut) -> None:
        calls = self._calls.cut(step.calls, step.following)
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
            buckets=self.buckets,
            slept=self._delays.taken(),
        )
        done = number - (self._first or 0)
        if done < self._asked.skip or number % self._asked.every == 0:
            self._reporter.send(partial(self._progress.messages, record, self._clock, step.queued_ns))
        self._delays.begin(number + 1)
        if self._asked.steps is not None and done + 1 >= self._asked.steps:
            self._end()

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
        self._delays.warmup_steps += steps
        return True
