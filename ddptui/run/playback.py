"""Replays a recorded run at any speed, from any moment. A Playback has the same interface as a Session for reading, but
no controls.

The run is in memory (recording.py). Messages cannot be undone: to go back, a screen starts again from a state before.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from copy import deepcopy

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings.compare import compare
from ddptui.findings.repeat import NO_OUTCOMES
from ddptui.live.state import Live
from ddptui.run.recording import Recording
from ddptui.store.runs import Run
from ddptui.text.words import S
from ddptui.wire.records import Message

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)  # relative to real time

Clock = Callable[[], int]


class Playback:
    """The replay of a run. `pause`, `faster`, `seek`, `step` and others control it; `drain` returns the messages up to
    its current moment. While it plays, it skips idle time, from the end of one launch to the first step of the next."""

    controls = None
    error = None
    finished_before = NO_OUTCOMES  # a replay begins with the first launch, even if the run was resumed

    def __init__(self, run: Run, preset: Preset, clock: Clock = time.monotonic_ns) -> None:
        """Reads the run and works out its results, which may take long. Raises RunError."""
        self.run, self.preset = run, preset
        self.recording = Recording(run, preset)
        self.course, self.unread = self.recording.course, self.recording.unread
        self.restarted = False  # whether earlier messages are void, and the next `drain` continues from `state`
        self.drained = 0  # number of the run's messages that were drained, or that led to `state`
        self.paused = False
        self.speed = 1.0
        self._clock = clock
        self._environment = run.environment()
        self._results: dict[int, Results] = {}  # by the number of launches that have ended
        self._moment_ns = self.begin_ns = self.course.begin_ns
        self.end_ns = self.course.end_ns
        self._looked_ns = clock()

    @property
    def is_over(self) -> bool:
        """Whether the last message has been drained."""
        return self.drained == len(self.recording.messages)

    @property
    def results(self) -> Results:
        """The results of the launches that have ended."""
        over = [outcome for at, outcome in self.recording.ended if at <= self.drained and outcome]
        if len(over) not in self._results:
            outcomes = {(each.trial, each.repeat): each for each in over}
            self._results[len(over)] = compare(self.preset, self.run.name, self._environment, outcomes)
        return self._results[len(over)]

    def now_ns(self) -> int:
        """The moment that the replay has reached, in ns on the messages' clock."""
        now_ns = self._clock()
        passed_ns = round((now_ns - self._looked_ns) * self.speed)
        self._looked_ns = now_ns
        if not self.paused and passed_ns > 0:
            moment_ns = self.course.idle(self._moment_ns)[1] + passed_ns
            self._moment_ns = min(self.course.idle(moment_ns)[1], self.end_ns)
        return self._moment_ns

    def state(self) -> Live:
        """The state from which the next `drain` continues, if the replay has restarted; a copy."""
        return deepcopy(self.recording.states[self.drained])

    def drain(self) -> list[Message]:
        """The messages since the last call, or from `state` on if the replay has restarted."""
        before, self.drained = self.drained, bisect_right(self.recording.moments, self.now_ns())
        self.restarted = False
        return self.recording.messages[before : self.drained]

    def pause(self) -> None:
        """Pause the replay, or continue it if it is paused."""
        self.now_ns()
        self.paused = not self.paused

    def faster(self, by: int) -> None:
        """Change the speed by this many entries of SPEEDS; slower if negative."""
        self.now_ns()  # up to now the old speed applies
        self.speed = SPEEDS[min(max(SPEEDS.index(self.speed) + by, 0), len(SPEEDS) - 1)]

    def seek(self, by_s: float) -> None:
        """Jump by this many seconds of the run, back if negative."""
        moment_ns = self.now_ns() + round(by_s * S)
        begin_ns, end_ns = self.course.idle(moment_ns)
        if by_s < 0 and begin_ns > self.begin_ns:  # leave it out: the replay would skip it again at once
            moment_ns -= end_ns - begin_ns
        self.go_to(moment_ns)

    def seek_share(self, share: float) -> None:
        """Jump to the moment at which this fraction of the run is over, from 0 to 1."""
        self.go_to(self.begin_ns + round(share * (self.end_ns - self.begin_ns)))

    def step(self, by: int) -> None:
        """Jump to where all ranks had finished `by` steps more (fewer if negative), and pause there."""
        self._seek_one_of([self.begin_ns, *self.course.steps_ns, self.end_ns], by)
        self.paused = True

    def seek_launch(self, by: int) -> bool:
        """Jump to the first step of the launch that is `by` launches ahead, back if negative. Before the first launch,
        jump to its first step. Returns whether there is such a launch."""
        return self._seek_one_of(self.course.firsts_ns, by)

    def seek_change(self, by: int) -> bool:
        """Jump to the change of delays that is `by` changes ahead, back if negative. Before the first change, jump to
        it. Returns whether there is such a change."""
        return self._seek_one_of(self.course.changes_ns, by)

    def _seek_one_of(self, marks_ns: Sequence[int], by: int) -> bool:
        number = bisect_right(marks_ns, self.now_ns()) - 1 + by
        if marks_ns and number < len(marks_ns):
            self.go_to(marks_ns[max(0, number)])
        return 0 <= number < len(marks_ns)

    def seek_trial(self, trial: str) -> bool:
        """Jump to the first step of a trial's first launch. Returns whether it has one."""
        if trial in self.course.trials:
            self.go_to(self.course.firsts_ns[self.course.trials.index(trial)])
        return trial in self.course.trials

    def go_to(self, moment_ns: int) -> None:
        """Jump to a moment. Messages cannot be undone, so going back starts from a state before. So does going forward,
        if that is faster."""
        self._moment_ns = min(max(moment_ns, self.begin_ns), self.end_ns)
        self._looked_ns = self._clock()
        due = bisect_right(self.recording.moments, self._moment_ns)
        known = max(number for number in self.recording.states if number <= due)
        if due < self.drained or known > self.drained:
            self.drained, self.restarted = known, True
