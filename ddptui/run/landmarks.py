"""The landmarks to which a replay can jump: the first step of each launch, and each moment at which all ranks had
finished a step.

They are collected while the journals are read for the first time, so that a key can jump without reading them again.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ddptui.analysis.clock_sync import FAR_NS, Clocks
from ddptui.wire.messages import Failed, Hello, Ready, Shown, Step, Timed
from ddptui.wire.records import Ended, Injection, Launched, Message

OWN_CLOCK = ""  # the console's clock, which ranks on its host share
MOST_APART = 10_000  # steps by which a rank may be ahead of another one; beyond that, the oldest steps are dropped

ToConsole = Callable[[int | None, int], int]  # converts (sender, ns by the sender's clock) to ns by the console's clock


class Landmarks(NamedTuple):
    """The landmarks of a launch, in ns on the console's clock, and the messages that matter after its end."""

    trial: str
    first_ns: int  # when all ranks had finished the first step: from here on there is something to see
    end_ns: int  # the last message
    steps_ns: Sequence[int]  # when all ranks had finished each step; ascending
    marks: Sequence[Launched | Ended] = ()
    changes_ns: Sequence[int] = ()  # when the user injected or removed delays


class Idle(NamedTuple):
    """An interval without anything to see: from the end of one launch to the first step of the next."""

    begin_ns: int
    end_ns: int


class Survey:
    """Collects the landmarks of one launch from its messages, in the order of its journal."""

    def __init__(self, clocks: Clocks) -> None:
        """clocks: the clocks of the launch, which receive each message before `add` does."""
        self._clocks = clocks
        self._ranks: set[int] = set()
        self._pending: dict[int, dict[int, int]] = {}  # steps that only some ranks have finished: end by step and rank
        self._ends: dict[str, array[int]] = {}  # for each clock, the last end of each finished step; 0: no rank has it
        self._steps = 0
        self._ready: dict[int, int] = {}  # when each rank was ready
        self._over: list[tuple[int | None, int]] = []  # sender and moment of each failure, and of the end
        self._marks: list[Launched | Ended] = []
        self._changes: list[int] = []  # on the console's clock

    def add(self, message: Message) -> None:
        """Add the launch's next message."""
        match message:
            case Step():
                self._finished(message.rank, message.step, message.end_ns)
            case Shown() | Timed():
                self._finished(message.rank, message.place, message.at_ns)
            case Hello():
                if message.rank in self._ranks:  # the rank was restarted: its steps are counted again
                    self._pending.clear()
                self._ranks.add(message.rank)
            case Ready():
                self._ready[message.rank] = message.at_ns
            case Failed():
                self._over.append((message.rank, message.at_ns))
            case Injection():
                self._changes.append(message.at_ns)
            case Launched() | Ended():
                self._marks.append(message)
                if isinstance(message, Ended):
                    self._over.append((None, message.at_ns))

    def landmarks(self, end_ns: int, by_ns: int, to_console: ToConsole) -> Landmarks:
        """The landmarks, after all messages were added. end_ns: the moment of the last message. by_ns: the shift of the
        launch in the replay, which `to_console` already includes."""
        steps_ns = self._steps_ns(by_ns)
        ready_ns = [to_console(*moment) for moment in self._ready.items()]
        over_ns = [to_console(*moment) for moment in self._over]
        # Without a finished step, show the ranks when all were ready, or else when the first one failed.
        first_ns = steps_ns[0] if steps_ns else max(ready_ns) if ready_ns else min(over_ns, default=end_ns)
        trial = next((mark.trial for mark in self._marks if isinstance(mark, Launched)), "")
        changes_ns = [to_console(None, at_ns) for at_ns in self._changes]
        return Landmarks(trial, min(first_ns, end_ns), end_ns, steps_ns, self._marks, changes_ns)

    def _finished(self, rank: int, step: int, end_ns: int) -> None:
        if rank not in self._ranks:
            return
        ended = self._pending.setdefault(step, {})
        ended[rank] = end_ns
        if len(ended) == len(self._ranks):
            while self._pending and (oldest := next(iter(self._pending))) <= step:
                del self._pending[oldest]  # includes earlier steps, of which a message was lost
            self._note(ended)
        elif len(self._pending) > MOST_APART:
            del self._pending[min(step, next(iter(self._pending)))]

    def _note(self, ended: dict[int, int]) -> None:
        last: dict[str, int] = {}  # one end per clock: two clocks can be compared only after the last probe
        for rank, end_ns in ended.items():
            clock = self._clocks.of_rank.get(rank, OWN_CLOCK)
            last[clock] = max(end_ns, last.get(clock, 0))
        for clock in {*self._ends, *last}:
            ends = self._ends.setdefault(clock, array("q", [0]) * self._steps)
            ends.append(last.get(clock, 0))
        self._steps += 1

    def _steps_ns(self, by_ns: int) -> "array[int]":
        """The moments of the finished steps on the console's clock, strictly ascending."""
        tracks = [self._clocks.tracks.get(clock) for clock in self._ends]
        moments = array("q")
        for ends in zip(*self._ends.values(), strict=True):
            at_ns = by_ns + max(
                track.console_ns(end_ns) if track and end_ns else end_ns
                for track, end_ns in zip(tracks, ends, strict=True)
            )
            # Each step ends after the previous one, unless a clock jumped or the journal is damaged.
            if (not moments or moments[-1] < at_ns) and abs(at_ns) < FAR_NS:
                moments.append(at_ns)
        return moments


class Course:
    """The landmarks of a whole run."""

    def __init__(self, begin_ns: int, end_ns: int, launches: Sequence[Landmarks]) -> None:
        self.begin_ns, self.end_ns = begin_ns, end_ns
        self.launches = launches
        self.firsts_ns = [launch.first_ns for launch in launches]
        self.first_shares = [self.share(first_ns) for first_ns in self.firsts_ns]
        self.change_shares = [self.share(at_ns) for launch in launches for at_ns in launch.changes_ns]
        self._idle: list[Idle] = []  # ascending, without overlap
        for launch in launches:
            if begin_ns < launch.first_ns:
                self._idle.append(Idle(begin_ns, launch.first_ns))
            begin_ns = max(begin_ns, launch.first_ns, launch.end_ns)

    def share(self, moment_ns: int) -> float:
        """Return the fraction of the run that is over at a moment, from 0 to 1."""
        whole_ns = max(0, self.end_ns - self.begin_ns)
        return min(max(0, moment_ns - self.begin_ns), whole_ns) / max(1, whole_ns)  # clamped, for damaged journals

    def idle(self, moment_ns: int) -> Idle | None:
        """Return the idle interval that contains a moment; None if there is none. The end of an interval is not part of
        it."""
        idle = self._next_idle(moment_ns)
        return idle if idle and idle.begin_ns <= moment_ns else None

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
        while (idle := self.idle(earlier_ns)) and idle.begin_ns > self.begin_ns:
            earlier_ns = idle.begin_ns - (idle.end_ns - earlier_ns)
        return earlier_ns

    def step(self, moment_ns: int, by: int) -> int:
        """Return when all ranks had finished `by` steps more than at a moment (fewer if negative); at most the
        beginning or the end of the run."""
        number = sum(bisect_right(launch.steps_ns, moment_ns) for launch in self.launches) - 1 + by
        if number < 0:
            return self.begin_ns
        for launch in self.launches:
            if number < len(launch.steps_ns):
                return launch.steps_ns[number]
            number -= len(launch.steps_ns)
        return self.end_ns

    def launch(self, moment_ns: int) -> int:
        """Return the index of the last launch whose first step was finished at a moment; -1 if there was none."""
        return sum(first_ns <= moment_ns for first_ns in self.firsts_ns) - 1

    def of_trial(self, trial: str) -> int | None:
        """Return the index of a trial's first launch; None if it has none."""
        return next((number for number, launch in enumerate(self.launches) if launch.trial == trial), None)

    def _next_idle(self, moment_ns: int) -> Idle | None:
        """Return the first idle interval that ends after a moment; None if there is none."""
        place = bisect_right(self._idle, moment_ns, key=lambda idle: idle.end_ns)
        return self._idle[place] if place < len(self._idle) else None
