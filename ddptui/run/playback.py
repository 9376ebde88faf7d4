"""Replays a recorded run at any speed, from any moment. A Playback is read like a Session, but has no controls.

A run may be long, so only a window of it is in memory. A state cannot be taken back: to go back, a screen starts over
from the beginning, or from one of the states that it gave to `keep` on the way.
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

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)  # times real time
AT_ONCE = 4 * 2**20  # bytes of journals that one `drain` yields at most: keys wait for that
KEEP_EVERY = 8 * 2**20  # bytes between two states that are kept; doubled when they are too many
MOST_KEPT = 64
SAID_FOR_NS = 2 * S  # how long the replay says that it has left out a time in which nothing was to be seen


Clock = Callable[[], int]


class Start(NamedTuple):
    """Where the replay can begin: what is known there of all that was before."""

    place: Place
    over: frozenset[int]  # launches that have ended there
    encoded: bytes  # the state of all messages before; made here, and never read from a file
    from_ns: float  # it may be taken up for moments from here on

    def live(self) -> Live:
        """This state."""
        state: Live = pickle.loads(zlib.decompress(self.encoded))
        return state


def encode(live: Live) -> bytes:
    """A state as a Start has it."""
    return zlib.compress(pickle.dumps(live), 1)


BEGINNING = Start(START, frozenset(), encode(Live()), -inf)


def in_a_thread(work: Callable[[], None]) -> None:
    """Do some work beside the caller's, for as long as this process lives."""
    threading.Thread(target=work, name="replay", daemon=True).start()


class Playback:
    """The replay of a run: `pause`, `faster`, `seek`, `step` and others drive it, `drain` yields the messages up to its
    moment, in ns on their clock. It leaves out the time between the end of one launch and the first step of the next,
    in which nothing is to be seen."""

    controls = None
    error = None
    finished_before = NO_OUTCOMES  # a replay begins with the first launch, also of a run that was resumed

    def __init__(
        self, run: Run, preset: Preset, clock: Clock = time.monotonic_ns, work: Work = at_once, read: Work = at_once
    ) -> None:
        """`work` does what may take many seconds: it works out the results of a long launch, once that has ended.
        `read` reads on in the journals: on a disk that does not answer, that may take any time."""
        self.run = run
        self.preset = preset
        self.unread: list[str] = []  # notes on damaged journals, whose messages are missing
        self.restarted = False  # what was drained is void: the next `drain` goes on from `start`
        self.start = BEGINNING
        self.paused = False
        self.speed = 1.0
        self._clock = clock
        self._timeline = Timeline(run, preset, self.unread)
        self._reader = self._timeline.reader(work=read)
        self._is_behind = False  # more messages are due than one `drain` yields, or they are not read yet
        self._environment = run.environment()
        self._work, self._read = work, read
        self._over: frozenset[int] = frozenset()  # the launches that have ended by now
        self._asked: set[int] = set()  # for the outcomes of these
        self._outcomes: dict[int, Outcomes] = {}  # by launch, as soon as they are known
        self._kept: dict[int, Start] = {}  # by bytes yielded, in units of `_keep_every`
        self._keep_every = KEEP_EVERY
        self._starts = [BEGINNING, *_starts(self._timeline, preset)]
        self._near: Start | None = None  # shortly before the moment: to go one step back must not take long
        self._is_near = False  # the next `drain` probably reaches the moment
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
        """Whether results of launches that have ended are still being worked out."""
        return not self._over <= self._outcomes.keys()

    @property
    def skipped_s(self) -> float:
        """How many seconds without anything to see were left out a moment ago."""
        return self._skipped_ns / S if self._clock() - self._skipped_at_ns < SAID_FOR_NS else 0.0

    def now_ns(self) -> int:
        """The moment that the replay has reached."""
        self._advance()
        return int(max(self._reader.progress.until_ns, self.begin_ns)) if self._is_behind else self._moment_ns

    def drain(self) -> list[Message]:
        """The messages since the last call, or since the start if the replay restarted; of very many, the first."""
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
        """Keep the state to which all drained messages led, if none is kept that is nearly the same."""
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
        """Stand still, or go on."""
        self._advance()
        self.paused = not self.paused

    def faster(self, by: int) -> None:
        """Change the speed by so many entries of SPEEDS; down if negative."""
        self._advance()  # the time up to now went by at the old speed
        self.speed = SPEEDS[min(max(SPEEDS.index(self.speed) + by, 0), len(SPEEDS) - 1)]

    def seek(self, by_s: float) -> None:
        """Jump by so many seconds of the run; back if negative. Where nothing is to be seen, it jumps further."""
        self._advance()
        by_ns = round(by_s * S)
        if by_ns < 0:
            self.go_to(self.course.back(self._moment_ns, -by_ns))
        else:
            self._skip_from(self._moment_ns + by_ns)

    def seek_share(self, share: float) -> None:
        """Jump to the moment at which so much of the run is over, 0 to 1."""
        jump = self._skip_from if share > 0 else self.go_to
        jump(self.begin_ns + round(share * (self.end_ns - self.begin_ns)))

    def step(self, by: int) -> None:
        """Jump to where all ranks had finished so many steps more, or fewer if negative, and pause there."""
        self._advance()
        self.paused = True
        self.go_to(self.course.step(self._moment_ns, by))

    def seek_launch(self, by: int) -> bool:
        """Jump to the first step so many launches on, or back if negative. Returns whether there is such a launch. Back
        from the first one, it jumps to the first step of that."""
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
        """Jump to a moment, also to one at which nothing is to be seen."""
        self._advance()
        before = [start for start in (*self._starts, *self._kept.values()) if start.from_ns <= moment_ns]
        if self._near and self._near.from_ns <= moment_ns:
            before.append(self._near)
        start = max(before, key=lambda start: start.place.progress.messages, default=BEGINNING)
        # A state cannot be taken back, so it is built up again. Where it was further before, this is a short cut.
        has_passed = moment_ns < max(self._reader.progress.until_ns, self.start.from_ns)
        if has_passed or start.place.progress.messages > self._reader.progress.messages:
            if not self.restarted or start is not self.start:  # else keys that come in a burst would read again
                self._reader = self._timeline.reader(start.place, self._read)
                self._over = start.over
                self._catch_up()
            self.start, self.restarted, self._is_behind = start, True, False
        self._moment_ns = min(max(moment_ns, self.begin_ns), self.end_ns)
        self._skipped_ns = 0  # what was said of another place

    def _skip_from(self, moment_ns: int) -> None:
        """Jump to a moment, or to the next one at which there is something to see."""
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
        # At the end all are, also those whose clock jumped. What is not read yet may be.
        if reader.is_over or reader.is_waiting:
            return not reader.is_over
        return reader.next_ns <= self._moment_ns or self._moment_ns >= self.end_ns

    def _catch_up(self) -> None:
        """Bring the results up to the launches that have ended, as far as their outcomes are known."""
        new = sorted(self._over - self._asked)
        if new and self._asked <= self._outcomes.keys():  # else later: two analyses at once would take twice the memory
            self._asked.update(new)
            self._work(partial(self._work_out, new))
        known = [self._outcomes[launch] for launch in sorted(self._over) if launch in self._outcomes]
        outcomes = {name: outcome for each in known for name, outcome in each.items()}
        if outcomes.keys() != self._summed_up.keys():
            self._sum_up(outcomes)

    def _work_out(self, launches: Sequence[int]) -> None:
        """Find the outcomes of launches. One whose journal cannot be read any more has none."""
        for launch in launches:
            outcome = None
            with suppress(OSError):
                outcome = outcome_of_messages(read_messages(self._timeline.launches[launch].journal, []))
            self._outcomes[launch] = {(outcome.trial, outcome.repeat): outcome} if outcome else NO_OUTCOMES

    def _sum_up(self, outcomes: Outcomes) -> None:
        self._summed_up = outcomes
        self.results = compare(self.preset, self.run.name, self._environment, outcomes)


def _starts(timeline: Timeline, preset: Preset) -> Iterator[Start]:
    """Where launches begin in a long run: a replay that goes to one of them leaves out all before."""
    if preset.kind == "primitives":  # its screen keeps the results of all launches, which no state has
        return
    live, over = Live(), frozenset[int]()
    for number, launch in enumerate(timeline.launches):
        marks, before = timeline.landmarks[number].marks, timeline.yielded_before[number]
        launched_ns = [launch.moment_ns(mark) for mark in marks if not isinstance(mark, Ended)]
        # From the beginning, a few messages are read as fast.
        if launched_ns and before.bytes >= AT_ONCE:
            from_ns = max(before.until_ns, *launched_ns)
            yield Start(Place(number, progress=before), over, encode(live), from_ns)
        fold(live, [shift_times(mark, launch.by_ns) for mark in marks])  # nothing else outlasts a launch
        if any(isinstance(mark, Ended) for mark in marks):
            over |= {number}
