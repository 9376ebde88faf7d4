"""Reads a recorded run into memory, and replays it at any speed from any moment.

Of a long run, every second, fourth or eighth step is kept, and so on: the same steps of all ranks, as `watch --every`
reports them. All steps around an error or a change of delays are kept, and all messages that do not report a step.

A Playback has the same interface as a Session for reading, but no controls.

The run is in memory. Messages cannot be undone: to go back, a screen starts again from a state before.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from copy import deepcopy

from ddptui.analysis.clocks import Clocks
from ddptui.analysis.launch_data import LaunchData
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings.compare import compare
from ddptui.findings.repeat import NO_OUTCOMES, RepeatOutcome, outcome_of_log
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.store.runs import Run
from ddptui.text.words import S
from ddptui.wire.messages import Failed, Hello, Ready, Shown, Step, Timed
from ddptui.wire.records import Ended, Injection, Launched, Message, Offset, Restarted, Sittings, shift_times

MOST_EVENTS = 200_000  # steps and collectives kept of a run: some 100 MB, and 2 s to apply all of them
AROUND = 32  # steps kept before and after an error or a change of delays
STATE_EVERY = 5_000  # messages between two states in memory: 50 ms to go from the earlier one to any place


class Course:
    """The places of a run to which a replay can jump, in ns on the console's clock; all ascending."""

    def __init__(self) -> None:
        self.begin_ns = self.end_ns = 0
        self.trials: list[str] = []  # the trial of each launch
        self.firsts_ns: list[int] = []  # when all ranks of each launch had finished the first step
        self.steps_ns: list[int] = []  # when all ranks had finished each step
        self.changes_ns: list[int] = []  # when the user injected or removed delays
        self._begins_ns: list[int] = []  # when the launch before each launch had ended

    def add(self, launch: list[tuple[int, Message]]) -> None:
        """Add the next launch: its messages with their moments, ascending; nothing if there are none."""
        if not launch:
            return
        if not self.trials:
            self.begin_ns = self.end_ns = launch[0][0]
        self._begins_ns.append(self.end_ns)
        self.end_ns = launch[-1][0]
        self.trials.append(next((message.trial for _, message in launch if isinstance(message, Launched)), ""))
        self.changes_ns += [at_ns for at_ns, message in launch if isinstance(message, Injection)]
        ready_ns = [at_ns for at_ns, message in launch if isinstance(message, Ready)]
        steps_ns = list[int]()
        made: dict[int, int] = {}  # the number of steps that each rank has finished
        slowest = 0  # the number of steps that all ranks have finished
        for at_ns, message in launch:
            match message:
                case Step() | Shown() | Timed() if message.rank in made:
                    made[message.rank] = 1 + (message.step if isinstance(message, Step) else message.place)
                case Hello():
                    made[message.rank] = 0
                case _:
                    continue
            before, slowest = slowest, min(made.values())
            if slowest > before:
                steps_ns.append(at_ns)
        # Without a finished step, show the ranks when all were ready.
        self.firsts_ns.append([*steps_ns, *ready_ns[-1:], self.end_ns][0])
        self.steps_ns += steps_ns

    def share(self, moment_ns: int) -> float:
        """Return the fraction of the run that is over at a moment, from 0 to 1."""
        return min(max(0, moment_ns - self.begin_ns), self.end_ns - self.begin_ns) / max(1, self.end_ns - self.begin_ns)

    def idle(self, moment_ns: int) -> tuple[int, int]:
        """Return when nothing is to be seen around a moment: from the end of one launch, or the beginning of the run,
        to the first step of the next. An empty interval, the moment itself, if it is not in such a time."""
        launch = bisect_right(self.firsts_ns, moment_ns)
        if launch == len(self.firsts_ns) or moment_ns < self._begins_ns[launch]:
            return moment_ns, moment_ns
        return self._begins_ns[launch], self.firsts_ns[launch]


class RecordedLaunch:
    """The messages of a launch, in the order of its journal."""

    def __init__(self, clocks: Clocks) -> None:
        self.messages: list[Message] = []
        self.outcome: RepeatOutcome | None = None
        self.clocks = clocks
        self.by_ns = 0  # shift of its messages, so that they follow the previous launch without a long gap

    def moment_ns(self, message: Message) -> int:
        """When the event that a message reports was over, in ns on the console's clock; 0 if the message has no time.
        Exact once `clocks` has all messages."""
        at_ns: int = getattr(message, "at_ns", 0) or getattr(message, "end_ns", 0)
        rank = None if isinstance(message, Offset) else getattr(message, "rank", None)  # None: the console's clock
        return at_ns and self.by_ns + (at_ns if rank is None else self.clocks.console_ns(rank, at_ns))

    def thin(self, every: int) -> int:
        """Drop the steps that are no multiple of `every`, except around errors and changes of delays, and at the end.
        Returns how many steps and collectives are left."""
        last, marks = 0, list[int]()  # the last step so far, and before each mark
        for message in self.messages:
            match message:
                case Step():
                    last = max(last, message.step)
                case Failed() | Restarted() | Injection() | Ended():
                    marks.append(last)
        near = {number for mark in (*marks, last) for number in range(mark - AROUND, mark + AROUND + 1)}
        self.messages = [
            each for each in self.messages if not isinstance(each, Step) or each.step % every == 0 or each.step in near
        ]
        return sum(map(events_of, self.messages))

    def timed(self) -> list[tuple[int, Message]]:
        """The messages in the order of their moments, with them and shifted. A message without a time follows the one
        before it. Empty if no message has a time."""
        at_ns = next((at_ns for message in self.messages if (at_ns := self.moment_ns(message))), 0)
        timed = [(at_ns := self.moment_ns(message) or at_ns, message) for message in self.messages]
        timed.sort(key=lambda each: each[0])
        return [(at_ns, shift_times(each, self.by_ns) if self.by_ns else each) for at_ns, each in timed if at_ns]


class Recording:
    """A run in memory. Messages never change, so its states share them."""

    def __init__(self, run: Run, preset: Preset) -> None:
        """Reads all journals, which may take long. Raises RunError."""
        self.unread: list[str] = []  # notes on damaged journals, whose messages are missing
        self.every = 1  # every how many steps one was kept
        self.messages: list[Message] = []
        self.moments: list[int] = []  # the moment of each message in ns on the console's clock; ascending
        # The launches that have ended: the number of messages until then, and the outcome.
        self.ended: list[tuple[int, RepeatOutcome | None]] = []
        self.course = Course()
        self.states = {0: Live()}  # states of a screen, by the number of messages that lead to them
        for launch in self._read(run, preset):
            # A launch begins after the previous one, unless a clock jumped or a journal is damaged.
            before_ns = self.moments[-1] if self.moments else 0
            timed = [(max(at_ns, before_ns), message) for at_ns, message in launch.timed()]
            self.course.add(timed)
            for at_ns, message in timed:
                self.moments.append(at_ns)
                self.messages.append(message)
                if isinstance(message, Ended):
                    self.ended.append((len(self.messages), launch.outcome))
        if preset.kind != "primitives":  # its screen needs the results of all launches, which a state does not contain
            live = Live()
            for at in range(STATE_EVERY, len(self.messages), STATE_EVERY):
                self.states[at] = deepcopy(fold(live, self.messages[at - STATE_EVERY : at]))

    def _read(self, run: Run, preset: Preset) -> list[RecordedLaunch]:
        sittings, launches, events, most = Sittings(), list[RecordedLaunch](), 0, MOST_EVENTS
        in_order = sorted(run.repeats(preset, self.unread).items(), key=lambda item: item[0][1])  # A B A B
        for _, messages in in_order:
            log = LaunchData()
            launches.append(launch := RecordedLaunch(log.clocks))
            for message in messages:
                log.add(message)
                sittings.add(message)
                launch.by_ns = sittings.by_ns
                launch.messages.append(message)
                events += events_of(message)
                if events > most:
                    events = self._thin(launches)
                    most = max(MOST_EVENTS, 2 * events)  # if most steps are near errors
            launch.outcome = outcome_of_log(log)
        if self.every > 1:
            self._thin(launches)
        return launches

    def _thin(self, launches: list[RecordedLaunch]) -> int:
        """Keep so few steps that there is room for more. Returns how many steps and collectives are left."""
        if (events := sum(launch.thin(self.every) for launch in launches)) > MOST_EVENTS * 3 / 4:
            self.every *= 2
            events = sum(launch.thin(self.every) for launch in launches)
        return events


def events_of(message: Message) -> int:
    """The number of steps and collectives that a message reports."""
    return 1 + len(message.collectives) if isinstance(message, Step) else 0


SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)  # relative to real time

Clock = Callable[[], int]


class Playback:
    """The replay of a run. `pause`, `faster`, `seek`, `step` and others control it; `drain` returns the messages up to
    its current moment. While it plays, it skips idle time, from the end of one launch to the first step of the next."""

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
