"""Runs a preset in a thread of its own, so that the screens never wait for it."""

import time
import traceback
from collections import deque
from collections.abc import Generator
from concurrent.futures import Executor, wait
from contextlib import AbstractContextManager, closing

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.engines.local.command import WatchMode
from ddptui.engines.local.warm import WarmParent
from ddptui.findings.compare import RunningResults
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes
from ddptui.run import lab
from ddptui.run.lab import Controls
from ddptui.store.journal import RunLost
from ddptui.store.runs import Run, RunError
from ddptui.wire.records import Message

ERROR_LOG = "internal-error.log"  # in the run's folder
CLOSING_S = 3.0  # time for ranks that train until they are stopped to end by themselves


class Session:
    """A run in a thread of `threads`. `controls` controls it. `error` says why it ended early; None: it did not."""

    def __init__(
        self,
        preset: Preset,
        run: Run,
        threads: Executor,
        finished_before: Outcomes = NO_OUTCOMES,
        warm: WarmParent | None = None,
        terms: WatchMode | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """Start the run. finished_before: outcomes of earlier launches, in a resumed run; only the rest is launched.
        warm, terms: see lab.run_preset. lock: the lock of the run, released when the run ends."""
        self.preset, self.run, self.finished_before = preset, run, finished_before
        self.controls = Controls()
        self.error: str | None = None
        self.begun_ns = self.now_ns()
        self.terms = terms or WatchMode()
        self._running_results = results = RunningResults(preset, run.name, run.environment(), finished_before)
        launches = lab.run_preset(preset, run, self.controls, results=results, warm=warm, terms=self.terms)
        self._messages: deque[Message] = deque()  # its append and popleft need no lock between threads
        self.work = threads.submit(self._follow, launches, lock or run.held())  # last: it reads all of the above

    @property
    def results(self) -> Results:
        """The results of the launches finished so far."""
        return self._running_results.results

    @property
    def is_over(self) -> bool:
        """Whether all ranks have ended, so that the next `drain` yields the last messages."""
        return self.work.done()

    def now_ns(self) -> int:
        """The current time in ns on the clock of the messages."""
        return time.monotonic_ns()

    def drain(self) -> list[Message]:
        """The messages since the last call."""
        return [self._messages.popleft() for _ in range(len(self._messages))]  # without those that arrive meanwhile

    def close(self) -> None:
        """Stop the run if it is still running, and wait until all its ranks have ended."""
        self.controls.stop(within_s=CLOSING_S)
        wait([self.work])

    def _follow(self, launches: Generator[Message], lock: AbstractContextManager[object]) -> None:
        try:
            with lock, closing(launches) as stream:
                self._messages.extend(stream)
        except (RunError, RunLost, OSError) as error:
            self.error = lab.why_stopped(error)
        except Exception as error:  # a bug: its traceback must not be printed over the console's screen
            path = self.run.folder / ERROR_LOG
            where = f"the traceback is in {path}"
            try:
                with path.open("a", encoding="utf-8") as log:
                    traceback.print_exc(file=log)
            except OSError as cannot:
                where = f"its traceback cannot be written to {path}: {cannot.strerror}"
            self.error = f"{type(error).__name__}: {lab.why_stopped(error)}; {where}"
