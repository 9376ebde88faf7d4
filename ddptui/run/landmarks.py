"""Where a replay can go: the first step of each launch, and each moment at which all ranks had finished a step.

They are noted while the journals are read for the first time. A key then finds its moment without reading them again.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ddptui.analysis.clock_sync import FAR_NS, Clocks
from ddptui.wire.messages import Failed, Hello, Ready, Shown, Step, Timed
from ddptui.wire.records import Ended, Injection, Launched, Message

OWN_CLOCK = ""  # the console's, also that of ranks on its host
MOST_APART = 10_000  # steps that a rank may be ahead of another one; of more, the oldest are forgotten

ToConsole = Callable[[int | None, int], int]  # a sender's moment by its own clock, in ns, by the console's


class Landmarks(NamedTuple):
    """The moments of a launch, in ns on the console's clock; and its messages that outlast it."""

    trial: str
    first_ns: int  # from here on there is something to see: all ranks had finished the first step
    end_ns: int  # the last message
    steps_ns: Sequence[int]  # all ranks had finished a step; ascending
    marks: Sequence[Launched | Ended] = ()
    changes_ns: Sequence[int] = ()  # delays were put in or taken out by hand


class Idle(NamedTuple):
    """A time without anything to see: from the end of one launch to the first step of the next."""

    begin_ns: int
    end_ns: int


class Survey:
    """Notes the landmarks of one launch from its messages, in the order of its journal."""

    def __init__(self, clocks: Clocks) -> None:
        """`clocks`: those of the launch, which know its messages up to now."""
        self._clocks = clocks
        self._ranks: set[int] = set()
        self._pending: dict[int, dict[int, int]] = {}  # by step that some ranks have finished: when, by rank
        self._ends: dict[str, array[int]] = {}  # of finished steps, by clock: its last rank's end; 0: it had no rank
        self._steps = 0
        self._ready: dict[int, int] = {}  # by rank
        self._over: list[tuple[int | None, int]] = []  # sender and moment of each failure, and of the end
        self._marks: list[Launched | Ended] = []
        self._changes: list[int] = []  # by the console's clock

    def add(self, message: Message) -> None:
        """Take the launch's next message."""
        match message:
            case Step():
                self._finished(message.rank, message.step, message.end_ns)
            case Shown() | Timed():
                self._finished(message.rank, message.place, message.at_ns)
            case Hello():
                if message.rank in self._ranks:  # its steps are counted anew
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
        """Return what was noted, once the clocks know all messages. `end_ns`: of the last one. `by_ns`: how much later
        the launch is replayed, which `to_console` counts in."""
        steps_ns = self._steps_ns(by_ns)
        ready_ns = [to_console(*moment) for moment in self._ready.items()]
        over_ns = [to_console(*moment) for moment in self._over]
        # Without such a step there is to see that ranks were ready and stood still, or that they failed before.
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
                del self._pending[oldest]  # also those of which a rank's message was lost
            self._note(ended)
        elif len(self._pending) > MOST_APART:
            del self._pending[min(step, next(iter(self._pending)))]

    def _note(self, ended: dict[int, int]) -> None:
        last: dict[str, int] = {}  # the times of two clocks can be compared only after the last probe
        for rank, end_ns in ended.items():
            clock = self._clocks.of_rank.get(rank, OWN_CLOCK)
            last[clock] = max(end_ns, last.get(clock, 0))
        for clock in {*self._ends, *last}:
            ends = self._ends.setdefault(clock, array("q", [0]) * self._steps)
            ends.append(last.get(clock, 0))
        self._steps += 1

    def _steps_ns(self, by_ns: int) -> "array[int]":
        """The moments of the finished steps by the console's clock, none of them twice."""
        tracks = [self._clocks.tracks.get(clock) for clock in self._ends]
        moments = array("q")
        for ends in zip(*self._ends.values(), strict=True):
            at_ns = by_ns + max(
                track.console_ns(end_ns) if track and end_ns else end_ns
                for track, end_ns in zip(tracks, ends, strict=True)
            )
            # Each step ends after the one before, unless a clock jumped or the journal is spoilt.
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
        self._idle: list[Idle] = []  # none of them overlap
        for launch in launches:
            if begin_ns < launch.first_ns:
                self._idle.append(Idle(begin_ns, launch.first_ns))
            begin_ns = max(begin_ns, launch.first_ns, launch.end_ns)

    def share(self, moment_ns: int) -> float:
        """Return how much of the run is over at a moment, 0 to 1."""
        whole_ns = max(0, self.end_ns - self.begin_ns)
        return min(max(0, moment_ns - self.begin_ns), whole_ns) / max(1, whole_ns)  # a spoilt journal's may lie outside

    def idle(self, moment_ns: int) -> Idle | None:
        """Return the idle time in which a moment lies, if it does. Its end does not belong to it."""
        idle = self._next_idle(moment_ns)
        return idle if idle and idle.begin_ns <= moment_ns else None

    def advance(self, moment_ns: int, by_ns: int) -> tuple[int, int]:
        """Return the moment that is reached after so much time to be seen, and how much idle time was left out."""
        skipped_ns = 0
        while (idle := self._next_idle(moment_ns)) and moment_ns + by_ns >= idle.begin_ns:
            by_ns -= max(0, idle.begin_ns - moment_ns)
            skipped_ns += idle.end_ns - max(moment_ns, idle.begin_ns)
            moment_ns = idle.end_ns
        return moment_ns + by_ns, skipped_ns

    def back(self, moment_ns: int, by_ns: int) -> int:
        """Return the moment so much earlier. Idle time that it would lie in does not count: else a replay, which leaves
        that out, would be back at once."""
        earlier_ns = moment_ns - by_ns
        while (idle := self.idle(earlier_ns)) and idle.begin_ns > self.begin_ns:
            earlier_ns = idle.begin_ns - (idle.end_ns - earlier_ns)
        return earlier_ns

    def step(self, moment_ns: int, by: int) -> int:
        """Return when all ranks had finished so many steps more than at a moment, or fewer if negative; at the most the
        begin or the end of the run."""
        number = sum(bisect_right(launch.steps_ns, moment_ns) for launch in self.launches) - 1 + by
        if number < 0:
            return self.begin_ns
        for launch in self.launches:
            if number < len(launch.steps_ns):
                return launch.steps_ns[number]
            number -= len(launch.steps_ns)
        return self.end_ns

    def launch(self, moment_ns: int) -> int:
        """Return the number of the launch whose first step was the last one before a moment; -1: there was none."""
        return sum(first_ns <= moment_ns for first_ns in self.firsts_ns) - 1

    def of_trial(self, trial: str) -> int | None:
        """Return the number of a trial's first launch; None: it has none."""
        return next((number for number, launch in enumerate(self.launches) if launch.trial == trial), None)

    def _next_idle(self, moment_ns: int) -> Idle | None:
        """Return the first idle time that ends after a moment."""
        place = bisect_right(self._idle, moment_ns, key=lambda idle: idle.end_ns)
        return self._idle[place] if place < len(self._idle) else None
