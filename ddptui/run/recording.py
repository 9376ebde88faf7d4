"""Reads a recorded run into memory for its replay, in the order of its times, and notes the places to jump to.

Of a long run, every second, fourth or eighth step is kept, and so on: the same steps of all ranks, as `watch --every`
reports them. All steps around an error or a change of delays are kept, and all messages that do not report a step.
"""

from bisect import bisect_right
from copy import deepcopy

from ddptui.analysis.clocks import Clocks
from ddptui.analysis.launch_data import LaunchData
from ddptui.config.preset import Preset
from ddptui.findings.repeat import RepeatOutcome, outcome_of_log
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.store.journal import read_messages
from ddptui.store.runs import Run, raising_run_error
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
        for journal in run.journals(preset):
            log = LaunchData()
            launches.append(launch := RecordedLaunch(log.clocks))
            with raising_run_error(journal):
                for message in read_messages(journal, self.unread):
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
