"""Replays a recorded run at any speed, from any moment. A Playback is read like a Session, but has no controls."""

import time
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

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

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)  # times real time


class Playback:
    """The replay of a run: `pause`, `faster`, `seek` and `step` drive it, `drain` yields the messages up to its moment,
    in ns on their clock."""

    controls = None
    error = None
    finished_before = NO_OUTCOMES  # a replay begins with the first launch, also of a run that was resumed

    def __init__(self, run: Run, preset: Preset, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.run = run
        self.preset = preset
        self.unread: list[str] = []  # notes on damaged journals, whose messages are missing
        self.restarted = False  # it went back: what was drained is void, and the next `drain` starts over
        self.paused = False
        self.speed = 1.0
        self._clock = clock
        self._timeline = _with_moments(close_gaps(run.replay(preset, self.unread)))
        self._next = 0  # place in the timeline
        self._environment = run.environment()
        self._running_results = self._no_results()
        self.begin_ns = self._timeline[0][0] if self._timeline else 0
        self.end_ns = self._timeline[-1][0] if self._timeline else 0
        self._moment_ns = float(self.begin_ns)  # a slow replay advances by parts of a ns
        self._looked_ns = clock()

    @property
    def results(self) -> Results:
        """The results of the launches finished by now."""
        return self._running_results.results

    @property
    def is_over(self) -> bool:
        """Whether the last message has been drained."""
        return self._next == len(self._timeline)

    def now_ns(self) -> int:
        """The moment that the replay has reached."""
        self._advance()
        return int(self._moment_ns)

    def drain(self) -> list[Message]:
        """The messages since the last call, or since the beginning if the replay went back."""
        self._advance()
        self.restarted = False
        messages = []
        while self._next < len(self._timeline) and self._timeline[self._next][0] <= self._moment_ns:
            messages.append(self._timeline[self._next][1])
            self._running_results.add(messages[-1])
            self._next += 1
        return messages

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
        self._go_to(self._moment_ns + by_s * S)

    def step(self) -> None:
        """Jump to the next moment at which a rank finished a step, and pause there."""
        self._advance()
        self.paused = True
        ahead = self._timeline[self._next :]
        later = (at for at, message in ahead if isinstance(message, Step) and at > self._moment_ns)
        self._go_to(next(later, self.end_ns))

    def _go_to(self, moment_ns: float) -> None:
        if moment_ns < self._moment_ns:  # a state cannot be taken back, so it is built up again from the beginning
            self.restarted = True
            self._next = 0
            self._running_results = self._no_results()
        self._moment_ns = float(min(max(moment_ns, self.begin_ns), self.end_ns))

    def _advance(self) -> None:
        now_ns = self._clock()
        if not self.paused:
            self._moment_ns = min(self._moment_ns + (now_ns - self._looked_ns) * self.speed, float(self.end_ns))
        self._looked_ns = now_ns

    def _no_results(self) -> RunningResults:
        return RunningResults(self.preset, self.run.name, self._environment)


def _with_moments(messages: Iterable[Message]) -> list[tuple[int, Message]]:
    """Each message with its moment in console time, in the order of moments within a launch."""
    launches: list[list[Message]] = [[]]
    for message in messages:
        if isinstance(message, Launched):
            launches.append([])
        launches[-1].append(message)
    return [moment for launch in launches for moment in _of_launch(launch)]


def _of_launch(messages: Sequence[Message]) -> list[tuple[int, Message]]:
    clocks = Clocks()
    for message in messages:  # all of them first: a rank's offset is known only after its first messages
        clocks.add(message)
    timeline = []
    console_ns = 0
    for message in messages:
        moment_ns, rank = moment_of(message), getattr(message, "rank", None)
        if moment_ns and rank is not None and not isinstance(message, Offset):  # an offset is the console's own
            moment_ns = clocks.console_ns(rank, moment_ns)
        console_ns = moment_ns or console_ns  # without a moment: that of the message before
        timeline.append((console_ns, message))
    # Ranks send in batches, five a second; the replay shows each thing when it happened. The sort is stable: messages
    # of one moment keep their order.
    return sorted(timeline, key=itemgetter(0))


def moment_of(message: Message) -> int:
    """When what a message reports was over, ns on its sender's clock; 0 if it does not say."""
    return getattr(message, "at_ns", 0) or getattr(message, "end_ns", 0)
