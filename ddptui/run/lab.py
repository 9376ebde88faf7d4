"""Runs a preset, trial after trial and repeat after repeat, and yields the one stream of messages.

The repeats of different trials are interleaved (A B A B), so that a slow minute of the machine hits all trials alike.
"""

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Literal

from ddptui.analysis.clock_probes import Probes
from ddptui.analysis.repeat import NO_OUTCOMES, Outcomes
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck, Trial
from ddptui.engines.base import Engine, Launch, LaunchRefused
from ddptui.engines.choose import engine_for
from ddptui.engines.hub import Hub
from ddptui.host.machine import own_clock
from ddptui.run.load import LoadMeter
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run
from ddptui.wire.messages import Alive, Echo, SetBottleneck
from ddptui.wire.records import Ended, Injection, Launched, Message, Notice, Refused

POLL_MS = 100
ALIVE_EVERY_S = 5.0
LAST_WORDS_S = 5.0  # after a stop, how long ranks that have trained may take to say how it went


class Controls:
    """What somebody wants of a run under way; may be said in any thread."""

    def __init__(self) -> None:
        self._wanted: deque[tuple[Bottleneck, ...]] = deque()
        self._skip = threading.Event()
        self._stop = threading.Event()
        self._said = 0.0  # when

    def inject(self, bottleneck: tuple[Bottleneck, ...]) -> None:
        """Send the ranks these delays, in place of those that they have."""
        self._wanted.append(bottleneck)

    def skip(self) -> None:
        """End this launch, spare the trial its other repeats, and go on to the next."""
        self._said = time.monotonic()
        self._skip.set()

    def stop(self) -> None:
        """End this launch, and the run."""
        self._said = time.monotonic()
        self._stop.set()

    def injections(self) -> Iterator[tuple[Bottleneck, ...]]:
        """What is to be sent, once."""
        while self._wanted:
            yield self._wanted.popleft()

    def begin(self) -> None:
        """A launch begins: what was wanted of the one before is void."""
        self._wanted.clear()
        self._skip.clear()

    def cuts_short(self, *, trained: bool) -> bool:
        """Whether this launch is to end now. One that has trained, and only has to say how it went, may do so."""
        return self.end() is not None and not (trained and time.monotonic() - self._said < LAST_WORDS_S)

    def end(self) -> Literal["skipped", "interrupted"] | None:
        """How this launch is to end, if it is to end now."""
        return "interrupted" if self._stop.is_set() else "skipped" if self._skip.is_set() else None


def run_preset(
    preset: Preset, run: Run, controls: Controls | None = None, *, there: Outcomes = NO_OUTCOMES
) -> Generator[Message]:
    """Everything that happens, as it happens; each message is in the run's folder before it is yielded.

    A trial that fails or is skipped is not repeated; the others go on. Closing the iterator, or an interrupt, stops the
    ranks. `there`: launches that the run has already; they are left as they are. Raises RunLost.
    """
    controls = controls or Controls()
    over = {trial for (trial, _), found in there.items() if found.status != "ok"}
    with closing(engine_for(preset.engine, run)) as starter:
        for number in range(1, preset.repeats + 1):
            for trial in preset.trials:
                if trial.name in over or (trial.name, number) in there or controls.end() == "interrupted":
                    continue
                with run.begin(trial.name, number) as repeat:
                    for message in _launch(trial, repeat, starter, controls):
                        repeat.write(message)
                        if isinstance(message, Ended) and message.status != "ok":
                            over.add(trial.name)
                        yield message


def _launch(trial: Trial, repeat: RepeatJournal, starter: Engine, controls: Controls) -> Iterator[Message]:
    """One launch, from its command line to its end."""
    controls.begin()
    command = starter.command(trial, repeat)
    repeat.write_command(command, starter.environment(trial))
    with starter.open_hub(trial.world_size) as hub:
        launched = Launched(
            trial=trial.name,
            repeat=repeat.number,
            at_ns=time.monotonic_ns(),
            command=tuple(command),
            clock=own_clock(),
        )
        yield launched
        try:
            started = starter.start(trial, command, repeat, hub)
        except LaunchRefused as refusal:
            yield Ended(at_ns=time.monotonic_ns(), status="failed", error=str(refusal))
            return
        cut_short = False
        try:
            supervisor = LaunchSupervisor(trial, hub, started, repeat)
            meter, gate, probes = LoadMeter(started), _RefusalLog(hub), Probes(launched.clock)
            supervisor.clocks.add(launched)
            while not supervisor.is_over() and not (cut_short := controls.cuts_short(trained=supervisor.has_trained())):
                yield from _heard(hub, probes, supervisor)
                yield from _news(started)
                if starter.is_local:
                    yield from meter.read()
                yield from gate.first()
                if len(hub.hellos) == trial.world_size:  # what is wanted before all are here, waits for the last one
                    yield from _inject(hub, controls)
        finally:
            started.stop()
        yield from _news(started)
        yield from (message for message in supervisor.last_words() if not isinstance(message, Echo))
        yield from gate.all_told()
        wanted = controls.end()
        yield Ended(at_ns=time.monotonic_ns(), status=wanted) if cut_short and wanted else supervisor.ended()


def _heard(hub: Hub, probes: Probes, supervisor: LaunchSupervisor) -> Iterator[Message]:
    """What ranks say; and of what their clocks say, what that tells."""
    messages = supervisor.receive(POLL_MS)
    came_ns = time.monotonic_ns()
    for message in messages:
        for offset in probes.add(message, came_ns):
            supervisor.clocks.add(offset)
            yield offset
        if not isinstance(message, Echo):
            yield message
    for rank, probe in probes.due(time.monotonic_ns()):
        hub.send(probe, [rank])


def _news(started: Launch) -> Iterator[Notice]:
    for text in started.take_notices():
        yield Notice(at_ns=time.monotonic_ns(), text=text)


class _RefusalLog:
    """Tells the ranks that the console is there, and the console of those that the hub has not let in."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._said = 0.0
        self._told = 0

    def first(self) -> Iterator[Refused]:
        """Looks after the wire; the first refusal is told at once, a flood of them not."""
        if time.monotonic() - self._said > ALIVE_EVERY_S:
            self._said = time.monotonic()
            self._hub.send(Alive())
        if not self._told:
            yield from self.all_told()

    def all_told(self) -> Iterator[Refused]:
        """How many it has come to, if there are more than was told."""
        if self._hub.refused > self._told:
            self._told = self._hub.refused
            yield Refused(at_ns=time.monotonic_ns(), count=self._told, why=self._hub.first_refusal)


def _inject(hub: Hub, controls: Controls) -> Iterator[Injection]:
    for bottleneck in controls.injections():
        now_ns = time.monotonic_ns()
        hub.send(SetBottleneck(bottleneck=bottleneck))
        yield Injection(at_ns=now_ns, bottleneck=bottleneck)


def not_launched(error: OSError) -> str:
    """Why the next launch could not be begun: no more processes, descriptors, memory, or room for the wire's socket."""
    where = f" ({error.filename})" if error.filename else ""
    return f"the launch could not be started: {error.strerror or error}{where}; `ddptui doctor` looks why"
