"""A run under way in a thread of its own, so that whoever draws it never waits for it."""

import time
from collections import deque
from collections.abc import Generator
from concurrent.futures import Executor, wait
from contextlib import closing

from ddptui.analysis.compare import RunningResults
from ddptui.analysis.repeat import NO_OUTCOMES, Outcomes
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.run import lab
from ddptui.run.controls import Controls
from ddptui.store.journal import RunLost
from ddptui.store.runs import Run, RunError
from ddptui.wire.records import Message


class Session:
    """Runs a preset in a thread of `threads`. `controls` says what is wanted of it; `error`, once it is over, why it
    ended before its time."""

    def __init__(self, preset: Preset, run: Run, threads: Executor, there: Outcomes = NO_OUTCOMES) -> None:
        """`there`: what the run has already; the rest is launched."""
        self.preset = preset
        self.run = run
        self.there = there
        self.controls = Controls()
        self.error: str | None = None
        self._running_results = RunningResults(preset, run.name, run.environment(), there)
        self._heard: deque[Message] = deque()
        self.work = threads.submit(self._follow)

    @property
    def results(self) -> Results:
        """What is finished."""
        return self._running_results.results

    @property
    def is_over(self) -> bool:
        """No rank is left, and `drain` gives the last of it."""
        return self.work.done()

    def now_ns(self) -> int:
        """On the clock of the messages."""
        return time.monotonic_ns()

    def drain(self) -> list[Message]:
        """What has happened since the last call."""
        return [self._heard.popleft() for _ in range(len(self._heard))]

    def close(self) -> None:
        """Stop the run, if it still goes on, and return when no rank is left."""
        self.controls.stop()
        wait([self.work])

    def _launches(self) -> "closing[Generator[Message]]":
        return closing(lab.run_preset(self.preset, self.run, self.controls, finished=self.there))

    def _follow(self) -> None:
        try:
            with self.run.held(), self._launches() as stream:
                if self.there:
                    self.run.write_results(self._running_results.results)
                for message in stream:
                    if self._running_results.add(message):
                        self.run.write_results(self._running_results.results)
                    self._heard.append(message)
        except (RunError, RunLost) as error:
            self.error = str(error)
        except OSError as error:
            self.error = lab.not_launched(error)
        except Exception as error:  # not on the screen, which belongs to somebody else
            self.error = f"{type(error).__name__}: {error}"
