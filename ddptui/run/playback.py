"""Replays a recorded run at any speed, from any moment. A Playback is read like a Session, but has no controls.

A run may be long, so only a window of it is in memory. A state cannot be taken back: to go back, a screen starts over
from the beginning, or from one of the states that it gave to `keep` on the way.
"""

import pickle
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ddptui.analysis.compare import compare
from ddptui.analysis.repeat import NO_OUTCOMES, Outcomes, outcome_of_messages
from ddptui.config.preset import Preset
from ddptui.live.state import Live
from ddptui.run.timeline import START, Place, Reader, Timeline, Work, at_once
from ddptui.store.journal import read_messages
from ddptui.store.runs import Run
from ddptui.text.units import S
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended, Message

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)  # times real time
AT_ONCE = 4 * 2**20  # bytes of journals that one `drain` yields at most: keys wait for that
KEEP_EVERY = 8 * 2**20  # bytes between two states that are kept; doubled when they are too many
MOST_KEPT = 64


class Start(NamedTuple):
    """Where the replay can begin: what is known there of all that was before."""

    place: Place
    over: frozenset[int]  # launches that have ended there
    encoded: bytes  # the state of all messages before; made here, and never read from a file

    def live(self) -> Live:
        """This state."""
        state: Live = pickle.loads(zlib.decompress(self.encoded))
        return state


BEGINNING = Start(START, frozenset(), zlib.compress(pickle.dumps(Live())))


def in_a_thread(work: Callable[[], None]) -> None:
    """Do some work beside the caller's, for as long as this process lives."""
    threading.Thread(target=work, name="replay", daemon=True).start()


class Playback:
    """The replay of a run: `pause`, `faster`, `seek` and `step` drive it, `drain` yields the messages up to its moment,
    in ns on their clock."""

    controls = None
    error = None
    finished_before = NO_OUTCOMES  # a replay begins with the first launch, also of a run that was resumed

    def __init__(
        self,
        run: Run,
        preset: Preset,
        clock: Callable[[], int] = time.monotonic_ns,
        work: Work = at_once,
        read: Work = at_once,
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
        self._step: Reader | None = None  # ahead of it, on its way to the next step
        self._is_behind = False  # more messages are due than one `drain` yields, or they are not read yet
        self._environment = run.environment()
        self._work, self._read = work, read
        self._over: frozenset[int] = frozenset()  # the launches that have ended by now
        self._asked: set[int] = set()  # for the outcomes of these
        self._outcomes: dict[int, Outcomes] = {}  # by launch, as soon as they are known
        self._kept: dict[int, Start] = {}  # by bytes yielded, in units of `_keep_every`
        self._keep_every = KEEP_EVERY
        self._sum_up(NO_OUTCOMES)
        self.begin_ns, self.end_ns = self._timeline.begin_ns, self._timeline.end_ns
        self._moment_ns = float(self.begin_ns)  # a slow replay advances by parts of a ns
        self._looked_ns = clock()

    @property
    def is_over(self) -> bool:
        """Whether the last message has been drained."""
        return self._reader.is_over

    @property
    def is_working(self) -> bool:
        """Whether results of launches that have ended are still being worked out."""
        return not self._over <= self._outcomes.keys()

    def now_ns(self) -> int:
        """The moment that the replay has reached."""
        self._advance()
        return int(max(self._reader.progress.until_ns, self.begin_ns) if self._is_behind else self._moment_ns)

    def drain(self) -> list[Message]:
        """The messages since the last call, or since the start if the replay restarted; of very many, the first."""
        self._advance()
        self.restarted = False
        self._find_step()
        if self.restarted:  # the step found lies past a state that was kept: first the caller takes that one up
            return []
        reader, messages = self._reader, list[Message]()
        enough = reader.progress.bytes + AT_ONCE
        reader.go_on()
        while (due := self._is_due(reader)) and not reader.is_waiting and reader.progress.bytes < enough:
            launch = reader.launch
            messages.append(reader.take())
            if isinstance(messages[-1], Ended):
                self._over |= {launch}
        self._is_behind = due
        self._catch_up()
        return messages

    def keep(self, live: Live) -> None:
        """Keep the state to which all drained messages led, if none is kept that is nearly the same."""
        if (number := self._reader.progress.bytes // self._keep_every) in self._kept or not number:
            return
        if place := self._reader.place():
            self._kept[number] = Start(place, self._over, zlib.compress(pickle.dumps(live), 1))
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
        """Jump by so many seconds of the run; back if negative."""
        self._advance()
        self._step = None
        self._go_to(self._moment_ns + by_s * S)

    def step(self) -> None:
        """Jump to the next moment at which a rank finished a step, and pause there."""
        self._advance()
        self.paused = True
        self._step = self._reader.fork()
        self._find_step()

    def _find_step(self) -> None:
        """Go on looking for the next step, if one is wanted; of a long way only a part at once."""
        ahead = self._step
        if ahead is None:
            return
        enough = ahead.progress.bytes + AT_ONCE
        ahead.go_on()
        while not ahead.is_over and not ahead.is_waiting and ahead.progress.bytes < enough:
            at_ns = ahead.next_ns
            if isinstance(ahead.take(), Step) and at_ns > self._moment_ns:
                self._step = None
                return self._go_to(at_ns)
        if ahead.is_over:
            self._step = None
            self._go_to(self.end_ns)

    def _go_to(self, moment_ns: float) -> None:
        before = [start for start in self._kept.values() if start.place.progress.until_ns <= moment_ns]
        start = max(before, key=lambda start: start.place.progress.messages, default=BEGINNING)
        # A state cannot be taken back, so it is built up again. Where it was further before, this is a short cut.
        if moment_ns < self._moment_ns or start.place.progress.messages > self._reader.progress.messages:
            if not self.restarted or start is not self.start:  # else keys that come in a burst would read again
                self._reader = self._timeline.reader(start.place, self._read)
                self._over = start.over
                self._catch_up()
            self.start, self.restarted, self._is_behind = start, True, False
        self._moment_ns = float(min(max(moment_ns, self.begin_ns), self.end_ns))

    def _advance(self) -> None:
        now_ns = self._clock()
        if not self.paused and not self._is_behind:
            self._moment_ns = min(self._moment_ns + (now_ns - self._looked_ns) * self.speed, float(self.end_ns))
        self._looked_ns = now_ns

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
