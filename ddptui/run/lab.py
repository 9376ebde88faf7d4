"""Runs a preset: launches every trial, follows its ranks, and yields their messages.

`run_preset` goes through the launches, `_launch` starts and ends one, `_follow` receives messages from its ranks, and
`_inject` sends them new delays while they run, which a user requests through `Controls`. Repeats of different trials
are interleaved (A B A B), so that a slow minute of the machine affects all trials alike.
"""

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from math import inf
from typing import Literal

import msgspec

from ddptui.analysis.cautions import MOST_OTHER_LOAD
from ddptui.analysis.clock_probes import Probes
from ddptui.config.launch_modes import COMMAND
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck, Trial
from ddptui.engines.base import Engine, LaunchRefused
from ddptui.engines.choose import engine_for
from ddptui.engines.hub import Hub
from ddptui.engines.local.foreign import Terms
from ddptui.engines.local.warm import WarmParent
from ddptui.findings.compare import RunningResults
from ddptui.host.clock import own_clock
from ddptui.host.load import LoadMeter
from ddptui.run.sampling import SamplingPace
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.run.watcher import WatchSupervisor
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run
from ddptui.wire.messages import Echo
from ddptui.wire.records import Alive, Ended, Injection, Launched, Look, Message, Notice, Refused, SetBottleneck, Stop

READY_S = 0.1  # longest wait for the warm parent before the user's requests are checked again
POLL_MS = 100  # longest wait for a message before processes and the user's requests are checked again
ALIVE_EVERY_S = 5.0
Supervisor = LaunchSupervisor | WatchSupervisor


class Controls:
    """The user's requests to a running run, which may come from any thread. They are read between messages."""

    def __init__(self) -> None:
        self._injections: deque[tuple[int, tuple[Bottleneck, ...]]] = deque()
        self._asks: deque[int] = deque()  # requests for stacks: the launch that is meant
        self._asked = 0  # number of the last one that was read
        self._guard = threading.Lock()  # so that a skip cannot hit the next launch
        self._launched_ns: int | None = None  # the start of the launch that can be skipped, which identifies it
        self._skipped_at: float | None = None  # when the user asked to skip this launch
        self._stopped_at: float | None = None  # when the user asked to stop the run
        self.patience_s = inf  # how long ranks may take at most to end by themselves after a stop

    def inject(self, bottleneck: tuple[Bottleneck, ...], launched_ns: int) -> None:
        """Replace the ranks' delays by these. launched_ns: the start of the launch for which they are meant; another
        one may be running by the time that the request is read."""
        self._injections.append((launched_ns, bottleneck))

    def ask_for_stacks(self, launched_ns: int) -> None:
        """Have every rank of this launch send where it stands right now."""
        self._asks.append(launched_ns)

    def stacks_asked(self, launched_ns: int) -> int:
        """The number of a new request for the stacks of this launch; 0 if there is none."""
        meant = {self._asks.popleft() for _ in range(len(self._asks))}
        self._asked += launched_ns in meant
        return self._asked if launched_ns in meant else 0

    def skip(self, launched_ns: int) -> bool:
        """End this launch, leave out the trial's other repeats, and continue with the next trial. launched_ns: the
        start of the launch that is meant. Returns whether that launch is running; otherwise nothing is skipped."""
        with self._guard:
            if launched_ns != self._launched_ns:
                return False
            self._skipped_at = self._skipped_at or time.monotonic()
            return True

    def stop(self, within_s: float = inf) -> None:
        """End this launch and the run. within_s: time after which the ranks are killed."""
        self.patience_s = min(self.patience_s, within_s)
        self._stopped_at = self._stopped_at or time.monotonic()

    def injections(self, launched_ns: int) -> Iterator[tuple[Bottleneck, ...]]:
        """Yields the injections for this launch, each once, and drops those for other launches."""
        while self._injections:
            meant_ns, bottleneck = self._injections.popleft()
            if meant_ns == launched_ns:
                yield bottleneck

    def begin(self, launched_ns: int) -> None:
        """Allow this launch to be skipped from now on. A requested stop remains in force."""
        with self._guard:
            self._launched_ns, self._skipped_at = launched_ns, None

    def close(self) -> Literal["skipped", "interrupted"] | None:
        """Do not allow the launch to be skipped any longer. Returns the same as `end`."""
        with self._guard:
            self._launched_ns = None
        return self.end()

    def waited_s(self) -> float:
        """For how many seconds the end of this launch has been requested; 0 if it has not."""
        requested = [at for at in (self._skipped_at, self._stopped_at) if at is not None]
        return time.monotonic() - min(requested) if requested else 0.0

    def end(self) -> Literal["skipped", "interrupted"] | None:
        """The status with which this launch must end; None if it may continue."""
        return "interrupted" if self._stopped_at is not None else "skipped" if self._skipped_at is not None else None


def run_preset(
    preset: Preset,
    run: Run,
    controls: Controls | None = None,
    *,
    results: RunningResults | None = None,
    warm: WarmParent | None = None,
    terms: Terms | None = None,
) -> Generator[Message]:
    """Run a preset, and yield every message of the run as it arrives, after it was written to the run's folder. Closing
    the iterator, or an interrupt, stops the ranks.

    results: is kept up to date, and with it results.json. For a resumed run, it contains the finished launches, which
    are not launched again. warm: the warm parent that forks the ranks, shared with other runs; None: this run creates
    one. terms: whether a watched command shares the terminal, and whether it outlives the console. Raises RunLost.
    """
    controls = controls or Controls()
    results = results or RunningResults(preset, run.name, run.environment())
    if results.outcomes:
        run.write_results(results.results)  # a console that was killed may not have written results.json
    with nullcontext(warm) if warm else closing(WarmParent()) as parent:
        engine = engine_for(preset, run, parent, terms)
        try:
            yield from _run_trials(preset, run, engine, controls, results)
        except BaseException as interrupt:
            if trouble := engine.close():
                interrupt.add_note(trouble)
            raise
        if trouble := engine.close():
            yield Notice(at_ns=time.monotonic_ns(), text=trouble)


def _run_trials(
    preset: Preset, run: Run, engine: Engine, controls: Controls, results: RunningResults
) -> Generator[Message]:
    """Yields all messages of the launches that are missing in `results`, one launch after another."""
    skipped: set[str] = set()  # includes trials that train until they are skipped, whose launch ends with status ok
    for number in range(1, preset.repeats + 1):
        for trial in preset.trials:
            if (trial.name, number) in results.outcomes or controls.end() == "interrupted":
                continue
            # a trial with a failed or skipped launch is not repeated; other trials are
            bad = {outcome.trial for outcome in results.outcomes.values() if outcome.status != "ok"}
            if trial.name not in skipped | bad:
                yield from _repeat(trial, number, run, engine, controls, results)
                skipped |= {trial.name} if controls.end() == "skipped" else set()


def _repeat(
    trial: Trial, number: int, run: Run, engine: Engine, controls: Controls, results: RunningResults
) -> Iterator[Message]:
    """Yields all messages of a repeat."""
    with run.begin(trial.name, number) as repeat:
        for message in _launch(trial, repeat, engine, controls):
            repeat.write(message)  # first: results must not depend on a message that is not recorded
            if results.add(message):
                run.write_results(results.results)
            yield message


def _launch(trial: Trial, repeat: RepeatJournal, engine: Engine, controls: Controls) -> Iterator[Message]:
    """Yields the messages of one launch, from its command line to its end."""
    while (ended := controls.end()) != "interrupted" and not engine.is_ready(trial, READY_S):
        pass
    command = engine.command(trial, repeat)
    repeat.write_command(command, engine.environment(trial))
    with engine.open_hub(trial.ranks) as hub:
        launched = Launched(
            trial=trial.name,
            repeat=repeat.number,
            at_ns=time.monotonic_ns(),
            command=tuple(command),
            watched=trial.launch == COMMAND,
            clock=own_clock(),
        )
        controls.begin(launched.at_ns)
        if ended == "interrupted":  # the user stopped the run before this launch started
            yield launched
            yield Ended(at_ns=time.monotonic_ns(), status=ended)
            return
        try:
            launch = engine.start(trial, command, repeat, hub)
        except LaunchRefused as refusal:
            yield launched
            yield Ended(at_ns=time.monotonic_ns(), status="failed", error=str(refusal))
            return
        try:
            yield msgspec.structs.replace(launched, start=launch.start, start_why=launch.start_why)
            supervise = WatchSupervisor if trial.launch == COMMAND else LaunchSupervisor
            supervisor, refusals = supervise(trial, hub, launch, repeat), _RefusalReports(hub)
            supervisor.clocks.add(launched)
            # the load can only be measured on this host
            meter = LoadMeter(launch.processes, MOST_OTHER_LOAD) if engine.is_local else None
            cut_short = yield from _follow(launched, supervisor, refusals, meter, controls)
        except BaseException:  # also if a caller closes this generator: leave no rank behind
            if trial.launch == COMMAND:
                hub.send(Stop(why="no longer watched"))
            launch.stop()
            raise
        launch.stop()
        yield from _notices(supervisor)  # for example why nodes or a job ended the launch
        yield from (message for message in supervisor.last_messages() if not isinstance(message, Echo))
        yield from refusals.new()
        status = controls.close()  # a launch that the user ended has not failed, whatever the ranks' exit codes are
        yield Ended(at_ns=time.monotonic_ns(), status=status) if cut_short and status else supervisor.ended()


def _follow(
    launched: Launched, supervisor: Supervisor, refusals: "_RefusalReports", meter: LoadMeter | None, controls: Controls
) -> Generator[Message, None, bool]:
    """Yields all messages of a launch while it runs. Returns whether the user ended it by a skip or stop."""
    alive_sent, changed_ns, phase, probes = 0.0, 0, (False, False), Probes(launched.clock)
    pace = SamplingPace()
    while not supervisor.is_over():
        if controls.end():
            grace_s = supervisor.grace_s(changed_ns)
            if controls.waited_s() >= min(grace_s, controls.patience_s):
                return True
        received = [*_receive(supervisor, probes)]
        yield from received
        pace.add(received)
        yield from _notices(supervisor)
        before, phase = phase, (supervisor.all_ready(), supervisor.has_trained())
        # take a reading when the training begins and when it ends, so that a short training has one of its own
        yield from meter.read(now=phase != before) if meter else ()
        if time.monotonic() - alive_sent > ALIVE_EVERY_S:
            alive_sent = time.monotonic()
            supervisor.hub.send(Alive())  # ranks end themselves if they receive nothing from the console
        yield from refusals.new(only_first=True)
        # Injections wait until all ranks have connected, so that they reach every rank. After a stop they are dropped:
        # the ranks' last step was chosen by their pace before.
        asked = controls.stacks_asked(launched.at_ns)
        if supervisor.all_here() and (pace.has_changed() or asked):
            supervisor.hub.send(Look(per_s=pace.per_s, asked=asked))
        if supervisor.all_here() and not controls.end():
            for injection in _inject(supervisor.hub, controls, launched.at_ns):
                changed_ns = injection.at_ns
                yield injection
    return False


def _receive(supervisor: Supervisor, probes: Probes) -> Iterator[Message]:
    """Yields the messages of ranks, and the clock offsets that follow from their echoes; sends new probes."""
    messages = supervisor.hub.receive(POLL_MS)
    received_ns = time.monotonic_ns()
    supervisor.add(messages)
    for message in messages:
        for offset in probes.add(message, received_ns):
            supervisor.clocks.add(offset)
            yield offset
        if not isinstance(message, Echo):
            yield message
    for rank, probe in probes.due(time.monotonic_ns()):
        supervisor.hub.send(probe, [rank])


def _inject(hub: Hub, controls: Controls, launched_ns: int) -> Iterator[Injection]:
    """Send all ranks the delays that the user requested; workers/instruments/delays.py applies them."""
    for bottleneck in controls.injections(launched_ns):
        now_ns = time.monotonic_ns()
        hub.send(SetBottleneck(bottleneck=bottleneck))
        yield Injection(at_ns=now_ns, bottleneck=bottleneck)


def _notices(supervisor: Supervisor) -> Iterator[Message]:
    for text in supervisor.launch.take_notices():
        yield Notice(at_ns=time.monotonic_ns(), text=text)
    yield from supervisor.take_records()


class _RefusalReports:
    """Reports connections that the hub rejected: the first one at once, all others as a count at the end."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._reported = 0

    def new(self, *, only_first: bool = False) -> Iterator[Refused]:
        """Yields a report if more connections were rejected since the last report. only_first: only the first
        report."""
        count = self._hub.refused
        if count > self._reported and not (only_first and self._reported):
            self._reported = count
            yield Refused(at_ns=time.monotonic_ns(), count=count, why=self._hub.first_refusal)


def not_launched(error: OSError) -> str:
    """The message for a launch that could not be started, e.g. for lack of processes, files, memory or disk space."""
    where = f" ({error.filename})" if error.filename else ""
    return f"the launch could not be started: {error.strerror or error}{where}; `ddptui doctor` finds out why"


def noted(error: Exception, text: str) -> str:
    """The text with the notes that were added to the error, e.g. which job may still be running."""
    return "; ".join([text, *getattr(error, "__notes__", [])])
