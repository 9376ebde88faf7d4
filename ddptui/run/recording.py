"""Reads a recorded run into memory for its replay, in the order of its times, and notes the places to jump to.

Of a long run, every second, fourth or eighth step is kept, and so on: the same steps of all ranks, as `watch --every`
reports them. All steps around an error or a change of delays are kept, and all messages that do not report a step.
"""

from bisect import bisect_left, bisect_right
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

from ddptui.analysis.clock_sync import Clocks
from ddptui.config.preset import Preset
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.store.journal import read_messages
from ddptui.store.runs import Run, raising_run_error
from ddptui.wire.messages import Failed, Hello, Ready, Shown, Step, Timed
from ddptui.wire.records import Ended, Injection, Launched, Message, Offset, Restarted
from ddptui.wire.retime import Sittings, shift_times

MOST_EVENTS = 200_000  # steps and collectives kept of a run: some 100 MB, and 2 s to apply all of them
MOST_EVERY = 2**20  # steps; more are never left out between two
AROUND = 32  # steps kept before and after an error or a change of delays
STATE_EVERY = 5_000  # messages between two states in memory: 50 ms to go from the earlier one to any place


class Idle(NamedTuple):
    """An interval without anything to see: from the end of one launch to the first step of the next."""

    begin_ns: int
    end_ns: int


class Course:
    """The places of a run to which a replay can jump, in ns on the console's clock; all ascending."""

    def __init__(self) -> None:
        self.begin_ns = self.end_ns = 0
        self.trials: list[str] = []  # the trial of each launch
        self.firsts_ns: list[int] = []  # when all ranks of each launch had finished the first step
        self.steps_ns: list[int] = []  # when all ranks had finished each step
        self.changes_ns: list[int] = []  # when the user injected or removed delays
        self._idle: list[Idle] = []

    def add(self, launch: list[tuple[int, Message]]) -> None:
        """Add the next launch: its messages with their moments, ascending."""
        if not self.trials:
            self.begin_ns = self.end_ns = launch[0][0]
        begin_ns, self.end_ns = self.end_ns, launch[-1][0]
        trial, ranks = "", set[int]()
        finished: dict[int, set[int]] = {}  # by step, as long as not all ranks have finished it
        steps_ns, ready_ns, over_ns = list[int](), 0, 0
        for at_ns, message in launch:
            match message:
                case Step() | Shown() | Timed() if message.rank in ranks:
                    number = message.step if isinstance(message, Step) else message.place
                    of_step = finished.setdefault(number, set())
                    of_step.add(message.rank)
                    if of_step == ranks:
                        del finished[number]
                        steps_ns += [at_ns] if not steps_ns or steps_ns[-1] < at_ns else []
                case Hello():
                    if message.rank in ranks:  # the rank was restarted: its steps are counted again
                        finished.clear()
                    ranks.add(message.rank)
                case Ready():
                    ready_ns = at_ns
                case Failed() | Ended():
                    over_ns = over_ns or at_ns
                case Injection():
                    self.changes_ns.append(at_ns)
                case Launched():
                    trial = message.trial
        # Without a finished step, show the ranks when all were ready, or else when the first one failed.
        first_ns = steps_ns[0] if steps_ns else ready_ns or over_ns or self.end_ns
        if begin_ns < first_ns:
            self._idle.append(Idle(begin_ns, first_ns))
        self.trials.append(trial)
        self.firsts_ns.append(first_ns)
        self.steps_ns += steps_ns

    def share(self, moment_ns: int) -> float:
        """Return the fraction of the run that is over at a moment, from 0 to 1."""
        return min(max(0, moment_ns - self.begin_ns), self.end_ns - self.begin_ns) / max(1, self.end_ns - self.begin_ns)

    def advance(self, moment_ns: int, by_ns: int) -> tuple[int, int]:
        """Return the moment that is by_ns later, not counting idle time; and how much idle time was skipped, in ns."""
        skipped_ns = 0
        while (idle := self._next_idle(moment_ns)) and moment_ns + by_ns >= idle.begin_ns:
            by_ns -= max(0, idle.begin_ns - moment_ns)
            skipped_ns += idle.end_ns - max(moment_ns, idle.begin_ns)
            moment_ns = idle.end_ns
        return moment_ns + by_ns, skipped_ns

    def back(self, moment_ns: int, by_ns: int) -> int:
        """Return the moment that is by_ns earlier. If it would lie in idle time, that time is skipped: otherwise the
        replay, which skips idle time, would jump forward again at once."""
        earlier_ns = moment_ns - by_ns
        while (idle := self._next_idle(earlier_ns)) and self.begin_ns < idle.begin_ns <= earlier_ns:
            earlier_ns = idle.begin_ns - (idle.end_ns - earlier_ns)
        return earlier_ns

    def step(self, moment_ns: int, by: int) -> int:
        """Return when all ranks had finished `by` steps more than at a moment (fewer if negative); at most the
        beginning or the end of the run."""
        number = bisect_right(self.steps_ns, moment_ns) - 1 + by
        if number < 0:
            return self.begin_ns
        return self.steps_ns[number] if number < len(self.steps_ns) else self.end_ns

    def _next_idle(self, moment_ns: int) -> Idle | None:
        """Return the first idle interval that ends after a moment; None if there is none."""
        place = bisect_right(self._idle, moment_ns, key=lambda idle: idle.end_ns)
        return self._idle[place] if place < len(self._idle) else None


class RecordedLaunch:
    """The messages of a launch, in the order of its journal."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.messages: list[Message] = []
        self.clocks = Clocks()
        self.by_ns = 0  # shift of its messages, so that they follow the previous launch without a long gap

    def moment_ns(self, message: Message) -> int:
        """When the event that a message reports was over, in ns on the console's clock; 0 if the message has no time.
        Exact once all messages were added to `clocks`."""
        at_ns: int = getattr(message, "at_ns", 0) or getattr(message, "end_ns", 0)
        rank = None if isinstance(message, Offset) else getattr(message, "rank", None)  # None: the console's clock
        return at_ns and self.by_ns + (at_ns if rank is None else self.clocks.console_ns(rank, at_ns))

    def thin(self, every: int) -> int:
        """Drop the steps that are no multiple of `every`, except around errors and changes of delays, and at the end.
        Returns how many steps and collectives are left."""
        marks = Failed | Restarted | Injection | Ended
        marks_ns = sorted(self.moment_ns(message) for message in self.messages if isinstance(message, marks))
        last: dict[int, int] = {}  # the last step before each mark
        for step in self.messages:
            if isinstance(step, Step):
                mark = bisect_left(marks_ns, self.moment_ns(step))
                last[mark] = max(step.step, last.get(mark, 0))
        near = {number for step in last.values() for number in range(step - AROUND, step + AROUND + 1)}
        self.messages = [
            message
            for message in self.messages
            if not isinstance(message, Step) or message.step % every == 0 or message.step in near
        ]
        return sum(map(events_of, self.messages))

    def timed(self) -> list[tuple[int, Message]]:
        """The messages in the order of their moments, with them and shifted. A message without a time follows the one
        before it. Empty if no message has a time."""
        at_ns = next((at_ns for message in self.messages if (at_ns := self.moment_ns(message))), 0)
        timed = [(at_ns := self.moment_ns(message) or at_ns, message) for message in self.messages]
        timed.sort(key=lambda each: each[0])
        by_ns = self.by_ns
        return [(at_ns, shift_times(message, by_ns) if by_ns else message) for at_ns, message in timed if at_ns]


class Recording:
    """A run in memory. Messages never change, so its states share them."""

    def __init__(self, run: Run, preset: Preset) -> None:
        """Reads all journals, which may take long. Raises RunError."""
        self.unread: list[str] = []  # notes on damaged journals, whose messages are missing
        self.every = 1  # every how many steps one was kept
        self.messages: list[Message] = []
        self.moments: list[int] = []  # the moment of each message in ns on the console's clock; ascending
        self.ends: list[int] = []  # of each launch that has ended, the number of messages until then
        self.journals: list[Path] = []  # the journals of these launches
        self.course = Course()
        self._read(run, preset)
        self._states = [Live()]  # that the first messages lead to, every STATE_EVERY of them
        if preset.kind != "primitives":  # its screen needs the results of all launches, which a state does not contain
            live = Live()
            for at in range(0, len(self.messages) - STATE_EVERY, STATE_EVERY):
                self._states.append(deepcopy(fold(live, self.messages[at : at + STATE_EVERY])))

    def known_state(self, number: int) -> int:
        """The number of messages, at most this one, that lead to the last state in memory."""
        return min(number // STATE_EVERY, len(self._states) - 1) * STATE_EVERY

    def state(self, number: int) -> Live:
        """A copy of the state in memory that so many messages lead to; `known_state` returned their number."""
        return deepcopy(self._states[number // STATE_EVERY])

    def _read(self, run: Run, preset: Preset) -> None:
        sittings, launches, events, most = Sittings(), list[RecordedLaunch](), 0, MOST_EVENTS
        for journal in run.journals(preset):
            launches.append(launch := RecordedLaunch(journal))
            with raising_run_error(journal):
                for message in read_messages(journal, self.unread):
                    launch.clocks.add(message)
                    sittings.add(message)
                    launch.by_ns = sittings.by_ns
                    launch.messages.append(message)
                    events += events_of(message)
                    if events > most:
                        events = self._thin(launches)
                        most = max(MOST_EVENTS, 2 * events)  # if most steps are near errors
        if self.every > 1:
            self._thin(launches)
        while launches:
            self._add(launches.pop(0))

    def _thin(self, launches: list[RecordedLaunch]) -> int:
        """Keep so few steps that there is room for more. Returns how many steps and collectives are left."""
        while (events := sum(launch.thin(self.every) for launch in launches)) > MOST_EVENTS * 3 / 4:
            if self.every == MOST_EVERY:
                break
            self.every *= 2
        return events

    def _add(self, launch: RecordedLaunch) -> None:
        if not (timed := launch.timed()):
            return
        # A launch begins after the previous one, unless a clock jumped or a journal is damaged.
        before_ns = self.moments[-1] if self.moments else timed[0][0]
        timed = [(max(at_ns, before_ns), message) for at_ns, message in timed]
        self.course.add(timed)
        for at_ns, message in timed:
            self.moments.append(at_ns)
            self.messages.append(message)
            if isinstance(message, Ended):
                self.ends.append(len(self.messages))
                self.journals.append(launch.journal)


def events_of(message: Message) -> int:
    """The number of steps and collectives that a message reports."""
    return 1 + len(message.collectives) if isinstance(message, Step) else 0
