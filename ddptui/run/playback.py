"""Replays a recorded run at any speed, from any moment. A Playback has the same interface as a Session for reading, but
no controls.

A run may be long, so only a window of its messages is in memory. Messages cannot be undone: to go back, a screen starts
again from the beginning, or from a state that it passed to `keep` earlier.
"""

import pickle
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import NamedTuple

from ddptui.config.preset import Preset
from ddptui.findings.compare import compare
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes, outcome_of_messages
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.run.landmarks import Course
from ddptui.run.timeline import START, Place, Reader, Timeline, Work, at_once
from ddptui.store.journal import read_messages
from ddptui.store.runs import Run
from ddptui.text.units import S
from ddptui.wire.records import Ended, Message
from ddptui.wire.retime import shift_times

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)  # relative to real time
AT_ONCE = 4 * 2**20  # most bytes of journals that one `drain` returns: keys must wait meanwhile
KEEP_EVERY = 8 * 2**20  # bytes between two saved states; doubled when there are too many
MOST_KEPT = 64
SAID_FOR_NS = 2 * S  # how long the replay reports that it skipped idle time


Clock = Callable[[], int]


class Start(NamedTuple):
    """A place where the replay can start, with the state that all earlier messages lead to."""

    place: Place
    over: frozenset[int]  # indices of the launches that have ended there
    encoded: bytes  # the state, pickled by this process, never read from a file
    from_ns: float  # usable for moments from here on

    def live(self) -> Live:
        """The state."""
        state: Live = pickle.loads(zlib.decompress(self.encoded))
        return state


def encode(live: Live) -> bytes:
    """Encode a state for a Start."""
    return zlib.compress(pickle.dumps(live), 1)


BEGINNING = Start(START, frozenset(), encode(Live()), -inf)


def in_a_thread(work: Callable[[], None]) -> None:
    """Do some work in a thread that does not keep the process alive."""
    threading.Thread(target=work, name="replay", daemon=True).start()


class Playback:
    """The replay of a run. `pause`, `faster`, `seek`, `step` and others control it; `drain` returns the messages up to
    its current moment. The replay skips idle time, from the end of one launch to the first step of the next."""

    controls = None
    error = None
    finished_before = NO_OUTCOMES  # a replay begins with the first launch, even if the run was resumed

    def __init__(
        self, run: Run, preset: Preset, clock: Clock = time.monotonic_ns, work: Work = at_once, read: Work = at_once
    ) -> None:
        """work: executes tasks that may take many seconds, namely computing the results of a launch. read: executes the
        reading of journals, which may take any time on a disk that does not respond."""
        self.run = run
        self.preset = preset
        self.unread: list[str] = []  # notes on damaged journals, whose messages are missing
        self.restarted = False  # whether earlier messages are void, and the next `drain` continues from `start`
        self.start = BEGINNING
        self.paused = False
        self.speed = 1.0
        self._clock = clock
        self._timeline = Timeline(run, preset, self.unread)
        self._reader = self._timeline.reader(work=read)
        self._is_behind = False  # whether due messages remain, because they are too many or not read yet
        self._environment = run.environment()
        self._work, self._read = work, read
        self._over: frozenset[int] = frozenset()  # indices of the launches that have ended by now
        self._asked: set[int] = set()  # launches whose outcomes were requested
        self._outcomes: dict[int, Outcomes] = {}  # outcomes by launch, as soon as they are known
        self._kept: dict[int, Start] = {}  # saved states, keyed by bytes read, in units of `_keep_every`
        self._keep_every = KEEP_EVERY
        self._starts = [BEGINNING, *_starts(self._timeline, preset)]
        self._near: Start | None = None  # shortly before the moment, so that going one step back is fast
        self._is_near = False  # whether the next `drain` probably reaches the moment
        self._sum_up(NO_OUTCOMES)
        self.begin_ns, self.end_ns = self._timeline.begin_ns, self._timeline.end_ns
        self.course = Course(self.begin_ns, self.end_ns, self._timeline.landmarks)
        self._moment_ns = self.begin_ns
        self._looked_ns = clock()
        self._skipped_ns, self._skipped_at_ns = 0, self._looked_ns

    @property
    def is_over(self) -> bool:
        """Whether the last message has been drained."""
        return self._reader.is_over

    @property
    def is_working(self) -> bool:
        """Whether results of ended launches are still being computed."""
        return not self._over <= self._outcomes.keys()

    @property
    def skipped_s(self) -> float:
        """How many seconds of idle time were skipped within the last two seconds; 0 if none."""
        return self._skipped_ns / S if self._clock() - self._skipped_at_ns < SAID_FOR_NS else 0.0

    def now_ns(self) -> int:
        """The moment that the replay has reached, in ns on the messages' clock."""
        self._advance()
        return int(max(self._reader.progress.until_ns, self.begin_ns)) if self._is_behind else self._moment_ns

    def drain(self) -> list[Message]:
        """The messages since the last call, or from `start` if the replay has restarted. If there are very many, only
        the first ones; the next calls return the rest."""
        self._advance()
        self.restarted = False
        reader, messages = self._reader, list[Message]()
        before_ns, enough = reader.progress.until_ns, reader.progress.bytes + AT_ONCE
        reader.go_on()
        while (due := self._is_due(reader)) and not reader.is_waiting and reader.progress.bytes < enough:
            launch = reader.launch
            messages.append(reader.take())
            if isinstance(messages[-1], Ended):
                self._over |= {launch}
        self._is_behind = due
        until_ns = reader.progress.until_ns
        self._is_near = due and self._moment_ns - until_ns < until_ns - before_ns
        self._catch_up()
        return messages

    def keep(self, live: Live) -> None:
        """Save the state that all messages drained so far lead to, unless a saved state is nearly the same."""
        number = self._reader.progress.bytes // self._keep_every
        is_new = number not in self._kept and number > 0
        if not (is_new or self._is_near) or (place := self._reader.place()) is None:
            return
        start = Start(place, self._over, encode(live), place.progress.until_ns)
        if not is_new:
            self._near = start
            return
        self._kept[number] = start
        if len(self._kept) > MOST_KEPT:
            self._keep_every *= 2
            self._kept = {start.place.progress.bytes // self._keep_every: start for start in self._kept.values()}

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
        self._advance()
        firsts_ns, number = self.course.firsts_ns, self.course.launch(self._moment_ns) + by
        if firsts_ns and number < len(firsts_ns):
            self.go_to(firsts_ns[max(0, number)])
        return 0 <= number < len(firsts_ns)

    def seek_trial(self, trial: str) -> bool:
        """Jump to the first step of a trial's first launch. Returns whether it has one."""
        number = self.course.of_trial(trial)
        if number is not None:
            self.go_to(self.course.firsts_ns[number])
        return number is not None

    def go_to(self, moment_ns: int) -> None:
        """Jump to a moment, even in idle time."""
        self._advance()
        before = [start for start in (*self._starts, *self._kept.values()) if start.from_ns <= moment_ns]
        if self._near and self._near.from_ns <= moment_ns:
            before.append(self._near)
        start = max(before, key=lambda start: start.place.progress.messages, default=BEGINNING)
        # Messages cannot be undone, so going back starts from a saved state. So does going forward, if that is faster.
        has_passed = moment_ns < max(self._reader.progress.until_ns, self.start.from_ns)
        if has_passed or start.place.progress.messages > self._reader.progress.messages:
            if not self.restarted or start is not self.start:  # otherwise a burst of keys would read again each time
                self._reader = self._timeline.reader(start.place, self._read)
                self._over = start.over
                self._catch_up()
            self.start, self.restarted, self._is_behind = start, True, False
        self._moment_ns = min(max(moment_ns, self.begin_ns), self.end_ns)
        self._skipped_ns = 0  # it applied to the previous place

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
        if self.paused or self._is_behind or passed_ns <= 0:
            return
        moment_ns, skipped_ns = self.course.advance(self._moment_ns, passed_ns)
        self._moment_ns = min(moment_ns, self.end_ns)
        self._note_skipped(skipped_ns)

    def _is_due(self, reader: Reader) -> bool:
        # At the end all messages are due, even if a clock jumped. Messages that are not read yet may be due.
        if reader.is_over or reader.is_waiting:
            return not reader.is_over
        return reader.next_ns <= self._moment_ns or self._moment_ns >= self.end_ns

    def _catch_up(self) -> None:
        """Update the results for the launches that have ended, as far as their outcomes are known."""
        new = sorted(self._over - self._asked)
        if new and self._asked <= self._outcomes.keys():  # one analysis at a time: two would need twice the memory
            self._asked.update(new)
            self._work(partial(self._work_out, new))
        known = [self._outcomes[launch] for launch in sorted(self._over) if launch in self._outcomes]
        outcomes = {name: outcome for each in known for name, outcome in each.items()}
        if outcomes.keys() != self._summed_up.keys():
            self._sum_up(outcomes)

    def _work_out(self, launches: Sequence[int]) -> None:
        """Compute the outcomes of launches. A launch whose journal can no longer be read has none."""
        for launch in launches:
            outcome = None
            with suppress(OSError):
                outcome = outcome_of_messages(read_messages(self._timeline.launches[launch].journal, []))
            self._outcomes[launch] = {(outcome.trial, outcome.repeat): outcome} if outcome else NO_OUTCOMES

    def _sum_up(self, outcomes: Outcomes) -> None:
        self._summed_up = outcomes
        self.results = compare(self.preset, self.run.name, self._environment, outcomes)


def _starts(timeline: Timeline, preset: Preset) -> Iterator[Start]:
    """Yields starts at the launches of a long run, so that a replay can jump to one without reading what is before."""
    if preset.kind == "primitives":  # its screen needs the results of all launches, which a state does not contain
        return
    live, over = Live(), frozenset[int]()
    for number, launch in enumerate(timeline.launches):
        marks, before = timeline.landmarks[number].marks, timeline.yielded_before[number]
        launched_ns = [launch.moment_ns(mark) for mark in marks if not isinstance(mark, Ended)]
        # After few messages, starting from the beginning is just as fast.
        if launched_ns and before.bytes >= AT_ONCE:
            from_ns = max(before.until_ns, *launched_ns)
            yield Start(Place(number, progress=before), over, encode(live), from_ns)
        fold(live, [shift_times(mark, launch.by_ns) for mark in marks])  # nothing else matters after a launch
        if any(isinstance(mark, Ended) for mark in marks):
            over |= {number}
