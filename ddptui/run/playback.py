"""Replays a recorded run at any speed, from any moment. A Playback has the same interface as a Session for reading, but
no controls.

The run is in memory (recording.py). Messages cannot be undone: to go back, a screen starts again from a state before.
"""

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from ddptui.config.preset import Preset
from ddptui.findings.compare import compare
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes, outcome_of_messages
from ddptui.live.state import Live
from ddptui.run.recording import Recording
from ddptui.store.journal import read_messages
from ddptui.store.runs import Run
from ddptui.text.units import S
from ddptui.wire.records import Message

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)  # relative to real time
SAID_FOR_NS = 2 * S  # how long the replay reports that it skipped idle time

Clock = Callable[[], int]
Work = Callable[[Callable[[], None]], None]


def at_once(work: Callable[[], None]) -> None:
    """Do some work immediately."""
    work()


def in_a_thread(work: Callable[[], None]) -> None:
    """Do some work in a thread that does not keep the process alive."""
    threading.Thread(target=work, name="replay", daemon=True).start()


class Playback:
    """The replay of a run. `pause`, `faster`, `seek`, `step` and others control it; `drain` returns the messages up to
    its current moment. The replay skips idle time, from the end of one launch to the first step of the next."""

    controls = None
    error = None
    finished_before = NO_OUTCOMES  # a replay begins with the first launch, even if the run was resumed

    def __init__(self, run: Run, preset: Preset, clock: Clock = time.monotonic_ns, work: Work = at_once) -> None:
        """Reads the run, which may take long. work: executes tasks that may take many seconds, namely computing the
        results of launches. Raises RunError."""
        self.run = run
        self.preset = preset
        self.recording = Recording(run, preset)
        self.course = self.recording.course
        self.unread = self.recording.unread
        self.restarted = False  # whether earlier messages are void, and the next `drain` continues from `state`
        self.drained = 0  # number of the run's messages that were drained, or that led to `state`
        self.paused = False
        self.speed = 1.0
        self._clock, self._work = clock, work
        self._environment = run.environment()
        self._outcomes: list[Outcomes] = []  # of the launches that have ended, in order, as soon as they are known
        self._wanted = 0  # the number of launches whose outcomes were requested
        self._sum_up(0)
        self._moment_ns = self.begin_ns = self.course.begin_ns
        self.end_ns = self.course.end_ns
        self._looked_ns = clock()
        self._skipped_ns, self._skipped_at_ns = 0, self._looked_ns

    @property
    def is_over(self) -> bool:
        """Whether the last message has been drained."""
        return self.drained == len(self.recording.messages)

    @property
    def is_working(self) -> bool:
        """Whether results of ended launches are still being computed."""
        return self._over > len(self._outcomes)

    @property
    def skipped_s(self) -> float:
        """How many seconds of idle time were skipped within the last two seconds; 0 if none."""
        return self._skipped_ns / S if self._clock() - self._skipped_at_ns < SAID_FOR_NS else 0.0

    def now_ns(self) -> int:
        """The moment that the replay has reached, in ns on the messages' clock."""
        self._advance()
        return self._moment_ns

    def state(self) -> Live:
        """The state from which the next `drain` continues, if the replay has restarted; a copy."""
        return self.recording.state(self.drained)

    def drain(self) -> list[Message]:
        """The messages since the last call, or from `state` on if the replay has restarted."""
        self._advance()
        self.restarted = False
        before, self.drained = self.drained, self._due()
        self._catch_up()
        return self.recording.messages[before : self.drained]

    def pause(self) -> None:
        """Pause the replay, or continue it if it is paused."""
        self._advance()
        self.paused = not self.paused

    def faster(self, by: int) -> None:
        """Change the speed by this many entries of SPEEDS; slower if negative."""
        self._advance()  # up to now the old speed applies
        self.speed = SPEEDS[min(max(SPEEDS.index(self.speed) + by, 0), len(SPEEDS) - 1)]

    def seek(self, by_s: float) -> None:
        """Jump by this many seconds of the run, back if negative. A jump into idle time goes on to its end."""
        self._advance()
        by_ns = round(by_s * S)
        if by_ns < 0:
            self.go_to(self.course.back(self._moment_ns, -by_ns))
        else:
            self._skip_from(self._moment_ns + by_ns)

    def seek_share(self, share: float) -> None:
        """Jump to the moment at which this fraction of the run is over, from 0 to 1."""
        jump = self._skip_from if share > 0 else self.go_to
        jump(self.begin_ns + round(share * (self.end_ns - self.begin_ns)))

    def step(self, by: int) -> None:
        """Jump to where all ranks had finished `by` steps more (fewer if negative), and pause there."""
        self._advance()
        self.paused = True
        self.go_to(self.course.step(self._moment_ns, by))

    def seek_launch(self, by: int) -> bool:
        """Jump to the first step of the launch that is `by` launches ahead, back if negative. Before the first launch,
        jump to its first step. Returns whether there is such a launch."""
        return self._seek_one_of(self.course.firsts_ns, by)

    def seek_change(self, by: int) -> bool:
        """Jump to the change of delays that is `by` changes ahead, back if negative. Before the first change, jump to
        it. Returns whether there is such a change."""
        return self._seek_one_of(self.course.changes_ns, by)

    def seek_trial(self, trial: str) -> bool:
        """Jump to the first step of a trial's first launch. Returns whether it has one."""
        if trial in self.course.trials:
            self.go_to(self.course.firsts_ns[self.course.trials.index(trial)])
        return trial in self.course.trials

    def go_to(self, moment_ns: int) -> None:
        """Jump to a moment, even in idle time."""
        self._advance()
        self._moment_ns = min(max(moment_ns, self.begin_ns), self.end_ns)
        self._skipped_ns = 0  # it applied to the previous place
        # Messages cannot be undone, so going back starts from a state before. So does going forward, if that is faster.
        due = self._due()
        known = self.recording.known_state(due)
        if due < self.drained or known > self.drained:
            self.drained, self.restarted = known, True
            self._catch_up()

    def _seek_one_of(self, marks_ns: Sequence[int], by: int) -> bool:
        self._advance()
        number = bisect_right(marks_ns, self._moment_ns) - 1 + by
        if marks_ns and number < len(marks_ns):
            self.go_to(marks_ns[max(0, number)])
        return 0 <= number < len(marks_ns)

    def _skip_from(self, moment_ns: int) -> None:
        """Jump to a moment; if it is in idle time, to the end of that."""
        next_ns, skipped_ns = self.course.advance(moment_ns, 0)
        self.go_to(next_ns)
        self._note_skipped(skipped_ns)

    def _note_skipped(self, skipped_ns: int) -> None:
        if skipped_ns:
            self._skipped_ns, self._skipped_at_ns = skipped_ns, self._clock()

    def _advance(self) -> None:
        now_ns = self._clock()
        passed_ns = round((now_ns - self._looked_ns) * self.speed)
        self._looked_ns = now_ns
        if not self.paused and passed_ns > 0:
            moment_ns, skipped_ns = self.course.advance(self._moment_ns, passed_ns)
            self._moment_ns = min(moment_ns, self.end_ns)
            self._note_skipped(skipped_ns)

    def _due(self) -> int:
        """The number of messages up to the present moment."""
        return bisect_right(self.recording.moments, self._moment_ns)

    @property
    def _over(self) -> int:
        """The number of launches that have ended."""
        return bisect_right(self.recording.ends, self.drained)

    def _catch_up(self) -> None:
        """Update the results for the launches that have ended, as far as their outcomes are known."""
        if self.is_working and self._wanted == len(self._outcomes):  # one analysis at a time: two would take memory
            self._wanted = self._over
            self._work(partial(self._work_out, self._wanted))
        if (known := min(self._over, len(self._outcomes))) != self._summed_up:
            self._sum_up(known)

    def _work_out(self, wanted: int) -> None:
        """Compute the outcomes of launches. A launch whose journal can no longer be read has none."""
        for journal in self.recording.journals[len(self._outcomes) : wanted]:
            outcome = None
            with suppress(OSError):
                outcome = outcome_of_messages(read_messages(journal, []))
            self._outcomes.append({(outcome.trial, outcome.repeat): outcome} if outcome else NO_OUTCOMES)

    def _sum_up(self, known: int) -> None:
        self._summed_up = known
        outcomes = {name: outcome for each in self._outcomes[:known] for name, outcome in each.items()}
        self.results = compare(self.preset, self.run.name, self._environment, outcomes)
