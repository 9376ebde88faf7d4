"""A run that is on disk, told again as it went: at any speed, from any moment. It has what a Session has, but no
controls."""

import time
from collections.abc import Callable, Iterable, Sequence

from ddptui.analysis.clock_sync import Clocks
from ddptui.analysis.compare import RunningResults
from ddptui.analysis.repeat import NO_OUTCOMES
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.store.runs import Run
from ddptui.text.units import S
from ddptui.wire.messages import Step
from ddptui.wire.records import Launched, Message, Offset
from ddptui.wire.retime import close_gaps

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)


class Playback:
    """`moment_ns` is on the clock of the messages. `restarted`: it went back, and what was drained before is void."""

    controls = None
    error = None
    there = NO_OUTCOMES

    def __init__(self, run: Run, preset: Preset, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.run = run
        self.preset = preset
        self.restarted = False
        self.paused = False
        self.speed = 1.0
        self._clock = clock
        self._told = _with_moments(close_gaps(run.replay(preset)))
        self._next = 0
        self._environment = run.environment()
        self._running_results = self._fresh_tally()
        self.begin_ns = self._told[0][0] if self._told else 0
        self.end_ns = self._told[-1][0] if self._told else 0
        self._moment_ns = float(self.begin_ns)
        self._looked_ns = clock()

    @property
    def results(self) -> Results:
        """What was finished by now."""
        return self._running_results.results

    @property
    def is_over(self) -> bool:
        return self._next == len(self._told)

    def now_ns(self) -> int:
        self._advance()
        return int(self._moment_ns)

    def drain(self) -> list[Message]:
        """What happened since the last call, or since the beginning if it went back."""
        self._advance()
        self.restarted = False
        messages = []
        while self._next < len(self._told) and self._told[self._next][0] <= self._moment_ns:
            messages.append(self._told[self._next][1])
            self._running_results.add(messages[-1])
            self._next += 1
        return messages

    def pause(self) -> None:
        self._advance()
        self.paused = not self.paused

    def faster(self, by: int) -> None:
        """Go so many speeds up, or down."""
        self._advance()
        self.speed = SPEEDS[min(max(SPEEDS.index(self.speed) + by, 0), len(SPEEDS) - 1)]

    def seek(self, by_s: float) -> None:
        """Go on, or back, by so many seconds of the run."""
        self._advance()
        self._go_to(self._moment_ns + by_s * S)

    def step(self) -> None:
        """Go on to the next moment at which a rank had finished a step; and stand still there."""
        self._advance()
        self.paused = True
        later = (at for at, message in self._told[self._next :] if isinstance(message, Step) and at > self._moment_ns)
        self._go_to(next(later, self.end_ns))

    def _go_to(self, moment_ns: float) -> None:
        if moment_ns < self._moment_ns:
            self.restarted = True
            self._next = 0
            self._running_results = self._fresh_tally()
        self._moment_ns = float(min(max(moment_ns, self.begin_ns), self.end_ns))

    def _advance(self) -> None:
        now_ns = self._clock()
        if not self.paused:
            self._moment_ns = min(self._moment_ns + (now_ns - self._looked_ns) * self.speed, float(self.end_ns))
        self._looked_ns = now_ns

    def _fresh_tally(self) -> RunningResults:
        return RunningResults(self.preset, self.run.name, self._environment)


def _with_moments(messages: Iterable[Message]) -> list[tuple[int, Message]]:
    """Each message with the moment that it tells of, by the console's clock; those of a launch in the order of these:
    what ranks say comes in frames, a fifth of a second at a time, and need not be told again so. What has no moment of
    its own has that of the one before it."""
    told: list[tuple[int, Message]] = []
    launch: list[Message] = []
    for message in messages:
        if isinstance(message, Launched):
            told += _of_launch(launch)
            launch = []
        launch.append(message)
    return told + _of_launch(launch)


def _of_launch(messages: Sequence[Message]) -> list[tuple[int, Message]]:
    clocks = Clocks()
    for message in messages:
        clocks.add(message)
    told = []
    moment_ns = 0
    for message in messages:
        moment_ns = _by_console(message, clocks) or moment_ns
        told.append((moment_ns, message))
    return sorted(told, key=_moment)


def _by_console(message: Message, clocks: Clocks) -> int:
    """The moment that it tells of; 0 if it does not say."""
    moment_ns, rank = moment_of(message), getattr(message, "rank", None)
    if not moment_ns or rank is None or isinstance(message, Offset):
        return moment_ns
    return clocks.console_ns(rank, moment_ns)


def _moment(pair: tuple[int, Message]) -> int:
    return pair[0]


def moment_of(message: Message) -> int:
    """When what it tells was over, on its sender's clock; 0 if it does not say."""
    return getattr(message, "at_ns", 0) or getattr(message, "end_ns", 0)
