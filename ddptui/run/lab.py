"""The story of a run: launches every trial, follows its ranks, yields their messages.

`run_preset` goes through the launches, `_launch` starts one and ends it, `_follow` receives from its ranks, and
`_inject` sends them new delays while they run. Repeats of different trials are interleaved (A B A B), so that a slow
minute of the machine hits all trials alike.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import closing

from ddptui.analysis.clock_probes import Probes
from ddptui.analysis.repeat import NO_OUTCOMES, Outcomes
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.engines.base import Engine, Launch, LaunchRefused
from ddptui.engines.choose import engine_for
from ddptui.engines.hub import Hub
from ddptui.host.machine import own_clock
from ddptui.run.controls import Controls
from ddptui.run.load import LoadMeter
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run
from ddptui.wire.messages import Echo
from ddptui.wire.records import Alive, Ended, Injection, Launched, Message, Notice, Refused, SetBottleneck

POLL_MS = 100  # longest wait for a message before processes and requests are looked at again
ALIVE_EVERY_S = 5.0


def run_preset(
    preset: Preset, run: Run, controls: Controls | None = None, *, finished: Outcomes = NO_OUTCOMES
) -> Generator[Message]:
    """Every message of the run, as it arrives; each is in the run's folder before it is yielded.

    A trial that fails or is skipped is not repeated; the others go on. Closing the iterator, or an interrupt, stops the
    ranks. finished: launches that the run has already, which are left as they are. Raises RunLost.
    """
    controls = controls or Controls()
    given_up = {trial for (trial, _), outcome in finished.items() if outcome.status != "ok"}
    with closing(engine_for(preset.engine, run)) as engine:
        for number in range(1, preset.repeats + 1):
            for trial in preset.trials:
                if trial.name in given_up or (trial.name, number) in finished or controls.end() == "interrupted":
                    continue
                with run.begin(trial.name, number) as repeat:
                    for message in _launch(trial, repeat, engine, controls):
                        repeat.write(message)
                        if isinstance(message, Ended) and message.status != "ok":
                            given_up.add(trial.name)
                        yield message


def _launch(trial: Trial, repeat: RepeatJournal, engine: Engine, controls: Controls) -> Iterator[Message]:
    """One launch, from its command line to its end."""
    controls.begin()
    command = engine.command(trial, repeat)
    repeat.write_command(command, engine.environment(trial))
    with engine.open_hub(trial.world_size) as hub:
        launched = Launched(
            trial=trial.name,
            repeat=repeat.number,
            at_ns=time.monotonic_ns(),
            command=tuple(command),
            clock=own_clock(),
        )
        yield launched
        try:
            launch = engine.start(trial, command, repeat, hub)
        except LaunchRefused as refusal:
            yield Ended(at_ns=time.monotonic_ns(), status="failed", error=str(refusal))
            return
        try:
            supervisor, refusals = LaunchSupervisor(trial, hub, launch, repeat), _RefusalReports(hub)
            supervisor.clocks.add(launched)
            meter = LoadMeter(launch) if engine.is_local else None  # other hosts' load cannot be read from here
            cut_short = yield from _follow(supervisor, refusals, Probes(launched.clock), launch, meter, hub, controls)
        finally:
            launch.stop()
        yield from _notices(launch)
        yield from (message for message in supervisor.last_messages() if not isinstance(message, Echo))
        yield from refusals.new()
        status = controls.end()
        yield Ended(at_ns=time.monotonic_ns(), status=status) if cut_short and status else supervisor.ended()


def _follow(
    supervisor: LaunchSupervisor,
    refusals: "_RefusalReports",
    probes: Probes,
    launch: Launch,
    meter: LoadMeter | None,
    hub: Hub,
    controls: Controls,
) -> Generator[Message, None, bool]:
    """All messages of a launch while it runs. Returns whether a user's skip or stop ended it."""
    alive_sent = 0.0
    while not supervisor.is_over():
        if controls.cuts_short(trained=supervisor.has_trained()):
            return True
        yield from _receive(supervisor, probes, hub)
        yield from _notices(launch)
        yield from meter.read() if meter else ()
        if time.monotonic() - alive_sent > ALIVE_EVERY_S:
            alive_sent = time.monotonic()
            hub.send(Alive())  # ranks end themselves when the console falls silent
        yield from refusals.first()
        if supervisor.all_here():  # an injection waits until then, or it would miss the ranks still to come
            yield from _inject(hub, controls)
    return False


def _receive(supervisor: LaunchSupervisor, probes: Probes, hub: Hub) -> Iterator[Message]:
    """What ranks sent, with the clock offsets that follow from their echoes; and new probes of their clocks."""
    messages = hub.receive(POLL_MS)
    received_ns = time.monotonic_ns()
    supervisor.add(messages)
    for message in messages:
        for offset in probes.add(message, received_ns):
            supervisor.clocks.add(offset)
            yield offset
        if not isinstance(message, Echo):
            yield message
    for rank, probe in probes.due(time.monotonic_ns()):
        hub.send(probe, [rank])


def _inject(hub: Hub, controls: Controls) -> Iterator[Injection]:
    """Send all ranks the delays that a user asked for; workers/rank/delays.py puts them in."""
    for bottleneck in controls.injections():
        now_ns = time.monotonic_ns()
        hub.send(SetBottleneck(bottleneck=bottleneck))
        yield Injection(at_ns=now_ns, bottleneck=bottleneck)


def _notices(launch: Launch) -> Iterator[Notice]:
    for text in launch.take_notices():
        yield Notice(at_ns=time.monotonic_ns(), text=text)


class _RefusalReports:
    """Reports connections that the hub rejected: the first at once, a flood of others only as a count at the end."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._reported = 0

    def first(self) -> Iterator[Refused]:
        """The first refusal, when there is one."""
        if not self._reported:
            yield from self.new()

    def new(self) -> Iterator[Refused]:
        """The count of refusals, if it has grown since the last report."""
        if self._hub.refused > self._reported:
            self._reported = self._hub.refused
            yield Refused(at_ns=time.monotonic_ns(), count=self._reported, why=self._hub.first_refusal)


def not_launched(error: OSError) -> str:
    """Why the next launch could not be started: no more processes, files or memory, or no room for a socket."""
    where = f" ({error.filename})" if error.filename else ""
    return f"the launch could not be started: {error.strerror or error}{where}; `ddptui doctor` finds out why"
