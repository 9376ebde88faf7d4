"""The story of a run: launches every trial, follows its ranks, yields their messages.

`run_preset` goes through the launches, `_launch` starts one and ends it, `_follow` receives from its ranks, and
`_inject` sends them new delays while they run; a user asks for these through `Controls`. Repeats of different trials
are interleaved (A B A B), so that a slow minute of the machine hits all trials alike.
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
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.run.watcher import WatchSupervisor
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run
from ddptui.wire.messages import Echo
from ddptui.wire.records import Alive, Ended, Injection, Launched, Message, Notice, Refused, SetBottleneck, Stop

READY_S = 0.1  # longest wait for the warm parent before requests are looked at again
POLL_MS = 100  # longest wait for a message before processes and requests are looked at again
ALIVE_EVERY_S = 5.0
Supervisor = LaunchSupervisor | WatchSupervisor


class Controls:
    """What a user asks of a running run, from any thread. The lab reads it between messages."""

    def __init__(self) -> None:
        self._injections: deque[tuple[int, tuple[Bottleneck, ...]]] = deque()
        self._guard = threading.Lock()  # between a skip and the end of the launch that it is for
        self._launched_ns: int | None = None  # the launch that can be skipped
        self._skipped_at: float | None = None  # when the skip of this launch was requested
        self._stopped_at: float | None = None
        self.patience_s = inf  # how long ranks may take to end by themselves then, at most

    def inject(self, bottleneck: tuple[Bottleneck, ...], launched_ns: int) -> None:
        """Give the ranks these delays, in place of those that they have. launched_ns: the launch that is meant. Another
        one may be under way by the time that the lab reads this."""
        self._injections.append((launched_ns, bottleneck))

    def skip(self, launched_ns: int) -> bool:
        """End this launch, leave out the trial's other repeats, and go on to the next trial. launched_ns: the launch
        that is meant. Returns whether it is under way: else nothing is skipped."""
        with self._guard:
            if launched_ns != self._launched_ns:
                return False
            self._skipped_at = self._skipped_at or time.monotonic()
            return True

    def stop(self, within_s: float = inf) -> None:
        """End this launch, and the run. within_s: how long that may take, before the ranks are killed."""
        self.patience_s = min(self.patience_s, within_s)
        self._stopped_at = self._stopped_at or time.monotonic()

    def injections(self, launched_ns: int) -> Iterator[tuple[Bottleneck, ...]]:
        """The injections to send now to this launch; each is yielded once. Those for others are dropped."""
        while self._injections:
            meant_ns, bottleneck = self._injections.popleft()
            if meant_ns == launched_ns:
                yield bottleneck

    def begin(self, launched_ns: int) -> None:
        """From now on this launch can be skipped. A stop stays."""
        with self._guard:
            self._launched_ns, self._skipped_at = launched_ns, None

    def close(self) -> Literal["skipped", "interrupted"] | None:
        """From now on the launch can no longer be skipped. Returns the status with which it must end, as `end`."""
        with self._guard:
            self._launched_ns = None
        return self.end()

    def waited_s(self) -> float:
        """How long ago an end of this launch was requested."""
        requested = [at for at in (self._skipped_at, self._stopped_at) if at is not None]
        return time.monotonic() - min(requested) if requested else 0.0

    def end(self) -> Literal["skipped", "interrupted"] | None:
        """The status with which this launch must end; None if it may go on."""
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
    """Every message of the run, as it arrives; each is in the run's folder before it is yielded. Closing the iterator,
    or an interrupt, stops the ranks. results: kept up to date, in results.json, too; those of a run that is resumed
    have its finished launches, which are not launched again. warm: forks the ranks of this run and of others; None:
    the run has one of its own. terms: on which commands are watched. Raises RunLost."""
    controls = controls or Controls()
    results = results or RunningResults(preset, run.name, run.environment())
    if results.outcomes:
        run.write_results(results.results)  # a console that was killed may not have written them
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
    """All messages of the launches that `results` lacks, one after another."""
    skipped: set[str] = set()  # also those that train until they are skipped, whose launch is a good one
    for number in range(1, preset.repeats + 1):
        for trial in preset.trials:
            if (trial.name, number) in results.outcomes or controls.end() == "interrupted":
                continue
            # one of which a launch failed or was skipped is not repeated; the others go on
            bad = {outcome.trial for outcome in results.outcomes.values() if outcome.status != "ok"}
            if trial.name not in skipped | bad:
                yield from _repeat(trial, number, run, engine, controls, results)
                skipped |= {trial.name} if controls.end() == "skipped" else set()


def _repeat(
    trial: Trial, number: int, run: Run, engine: Engine, controls: Controls, results: RunningResults
) -> Iterator[Message]:
    """All messages of a repeat."""
    with run.begin(trial.name, number) as repeat:
        for message in _launch(trial, repeat, engine, controls):
            repeat.write(message)  # first: no figure may rest on what the record lacks
            if results.add(message):
                run.write_results(results.results)
            yield message


def _launch(trial: Trial, repeat: RepeatJournal, engine: Engine, controls: Controls) -> Iterator[Message]:
    """One launch, from its command line to its end."""
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
        if ended == "interrupted":  # before it could be started
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
            # the load of other hosts cannot be read from here
            meter = LoadMeter(launch.processes, MOST_OTHER_LOAD) if engine.is_local else None
            cut_short = yield from _follow(launched, supervisor, refusals, meter, controls)
        except BaseException:  # also of a reader that closes this generator: no rank may stay
            if trial.launch == COMMAND:
                hub.send(Stop(why="no longer watched"))
            launch.stop()
            raise
        launch.stop()
        yield from _notices(supervisor)  # why nodes or a job ended it, say
        yield from (message for message in supervisor.last_messages() if not isinstance(message, Echo))
        yield from refusals.new()
        status = controls.close()  # what a user ended is no failure, whatever the ranks' exit codes
        yield Ended(at_ns=time.monotonic_ns(), status=status) if cut_short and status else supervisor.ended()


def _follow(
    launched: Launched, supervisor: Supervisor, refusals: "_RefusalReports", meter: LoadMeter | None, controls: Controls
) -> Generator[Message, None, bool]:
    """All messages of a launch while it runs. Returns whether a user's skip or stop ended it."""
    alive_sent, changed_ns, phase, probes = 0.0, 0, (False, False), Probes(launched.clock)
    while not supervisor.is_over():
        if controls.end():
            grace_s = supervisor.grace_s(changed_ns)
            if controls.waited_s() >= min(grace_s, controls.patience_s):
                return True
        yield from _receive(supervisor, probes)
        yield from _notices(supervisor)
        before, phase = phase, (supervisor.all_ready(), supervisor.has_trained())
        # a reading ends where the training begins and where it ends, or a short one would have none of its own
        yield from meter.read(now=phase != before) if meter else ()
        if time.monotonic() - alive_sent > ALIVE_EVERY_S:
            alive_sent = time.monotonic()
            supervisor.hub.send(Alive())  # ranks end themselves when the console falls silent
        yield from refusals.new(only_first=True)
        # An injection waits until then, or it would miss the ranks still to come. After a stop it would come too late:
        # the ranks' last step goes by the pace before it.
        if supervisor.all_here() and not controls.end():
            for injection in _inject(supervisor.hub, controls, launched.at_ns):
                changed_ns = injection.at_ns
                yield injection
    return False


def _receive(supervisor: Supervisor, probes: Probes) -> Iterator[Message]:
    """What ranks sent, with the clock offsets that follow from their echoes; and new probes of their clocks."""
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
    """Send all ranks the delays that a user asked for; workers/instruments/delays.py puts them in."""
    for bottleneck in controls.injections(launched_ns):
        now_ns = time.monotonic_ns()
        hub.send(SetBottleneck(bottleneck=bottleneck))
        yield Injection(at_ns=now_ns, bottleneck=bottleneck)


def _notices(supervisor: Supervisor) -> Iterator[Notice]:
    for text in (*supervisor.launch.take_notices(), *supervisor.take_notices()):
        yield Notice(at_ns=time.monotonic_ns(), text=text)


class _RefusalReports:
    """Reports connections that the hub rejected: the first at once, a flood of others only as a count at the end."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._reported = 0

    def new(self, *, only_first: bool = False) -> Iterator[Refused]:
        """The count of refusals, if it has grown since the last report."""
        count = self._hub.refused
        if count > self._reported and not (only_first and self._reported):
            self._reported = count
            yield Refused(at_ns=time.monotonic_ns(), count=count, why=self._hub.first_refusal)


def not_launched(error: OSError) -> str:
    """Why the next launch could not be started: no more processes, files or memory, or no room for a socket."""
    where = f" ({error.filename})" if error.filename else ""
    return f"the launch could not be started: {error.strerror or error}{where}; `ddptui doctor` finds out why"


def noted(error: Exception, text: str) -> str:
    """The text, with what was noted of the error: which job may be left."""
    return "; ".join([text, *getattr(error, "__notes__", [])])
