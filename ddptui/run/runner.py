"""Runs a preset: chooses its engine, launches every trial, follows its ranks, and yields their messages; also in a
thread.

`run_preset` goes through the launches, `_launch` starts and ends one, `_follow` receives messages from its ranks, and
sends them what the user requests through `RunControls`, e.g. new delays. Repeats of different trials are interleaved
(A B A B), so that a slow minute of the machine affects all trials alike.
"""

import time
import traceback
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Executor, wait
from contextlib import AbstractContextManager, closing, nullcontext
from itertools import product
from math import inf
from typing import Literal

import msgspec

from ddptui.analysis.clocks import Probes
from ddptui.analysis.policy import MOST_OTHER_LOAD
from ddptui.analysis.results import Results
from ddptui.config.catalog import COMMAND
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck, Trial
from ddptui.engines.base import Engine, LaunchRefused
from ddptui.engines.local.command import WatchMode
from ddptui.engines.local.engine import LocalEngine
from ddptui.engines.local.warm import WarmParent
from ddptui.findings.compare import RunningResults
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes
from ddptui.host.load import LoadMeter
from ddptui.host.machine import own_clock
from ddptui.host.network import NetworkError
from ddptui.run.supervisor import LaunchSupervisor, Supervisor
from ddptui.run.watch_supervisor import SamplingPace, WatchSupervisor
from ddptui.store.journal import RepeatJournal, RunLost
from ddptui.store.runs import Run, RunError
from ddptui.wire.messages import Echo
from ddptui.wire.records import Alive, Ended, Injection, Launched, Look, Message, Notice, SetBottleneck, Stop

READY_S = 0.1  # longest wait for the warm parent before the user's requests are checked again
POLL_MS = 100  # longest wait for a message before processes and the user's requests are checked again
ALIVE_EVERY_S = 5.0


class RunControls:
    """The user's requests to a running run, which may come from any thread. They are read between messages."""

    def __init__(self) -> None:
        # The launch that is meant, and the delays to inject; None: every rank is to send where it stands.
        self._requests: deque[tuple[int, tuple[Bottleneck, ...] | None]] = deque()
        self.launched_ns: int | None = None  # the start of the current launch, which identifies it
        self._ended_at: dict[int | None, float] = {}  # when the user ended a launch; None: the run
        self.patience_s = inf  # how long ranks may take at most to end by themselves after a stop

    def inject(self, bottleneck: tuple[Bottleneck, ...], launched_ns: int) -> None:
        """Replace the ranks' delays by these. launched_ns: the start of the launch for which they are meant; another
        one may be running by the time that the request is read."""
        self._requests.append((launched_ns, bottleneck))

    def ask_for_stacks(self, launched_ns: int) -> None:
        """Have every rank of this launch send where it stands right now."""
        self._requests.append((launched_ns, None))

    def skip(self, launched_ns: int) -> bool:
        """End this launch, leave out the trial's other repeats, and continue with the next trial. launched_ns: the
        start of the launch that is meant. Returns whether that is the current one; otherwise nothing is skipped."""
        if launched_ns == self.launched_ns:
            self._ended_at.setdefault(launched_ns, time.monotonic())
        return launched_ns == self.launched_ns

    def stop(self, within_s: float = inf) -> None:
        """End this launch and the run. within_s: time after which the ranks are killed."""
        self.patience_s = min(self.patience_s, within_s)
        self._ended_at.setdefault(None, time.monotonic())

    def requests(self, launched_ns: int) -> Iterator[tuple[Bottleneck, ...] | None]:
        """Yields the delays to inject into this launch, or None where its stacks were asked for, each once and in
        order. Drops what is meant for other launches."""
        while self._requests:
            meant_ns, bottleneck = self._requests.popleft()
            if meant_ns == launched_ns:
                yield bottleneck

    def waited_s(self) -> float:
        """For how many seconds the end of this launch has been requested; 0 if it has not."""
        now = time.monotonic()
        return now - min(self._ended_at.get(launch, now) for launch in (self.launched_ns, None))

    def end(self) -> Literal["skipped", "interrupted"] | None:
        """The status with which this launch must end; None if it may continue."""
        if None in self._ended_at:
            return "interrupted"
        return "skipped" if self.launched_ns in self._ended_at else None


def run_preset(
    preset: Preset,
    run: Run,
    controls: RunControls | None = None,
    *,
    results: RunningResults | None = None,
    warm: WarmParent | None = None,
    terms: WatchMode | None = None,
) -> Generator[Message]:
    """Run a preset, and yield every message of the run as it arrives, after it was written to the run's folder. Closing
    the iterator, or an interrupt, stops the ranks.

    results: is kept up to date, and with it results.json. For a resumed run, it contains the finished launches, which
    are not launched again. warm: the warm parent that forks the ranks, shared with other runs; None: this run creates
    one. terms: whether a watched command shares the terminal, and whether it outlives the console. Raises RunLost.
    """
    controls = controls or RunControls()
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
    preset: Preset, run: Run, engine: Engine, controls: RunControls, results: RunningResults
) -> Generator[Message]:
    """Yields all messages of the launches that are missing in `results`, one launch after another."""
    skipped: set[str] = set()  # includes trials that train until they are skipped, whose launch ends with status ok
    for number, trial in product(range(1, preset.repeats + 1), preset.trials):
        # a trial with a failed or skipped launch is not repeated; other trials are
        bad = skipped | {outcome.trial for outcome in results.outcomes.values() if outcome.status != "ok"}
        if trial.name in bad or (trial.name, number) in results.outcomes or controls.end() == "interrupted":
            continue
        with run.begin(trial.name, number) as repeat:
            for message in _launch(trial, repeat, engine, controls):
                repeat.write(message)  # first: results must not depend on a message that is not recorded
                if results.add(message):
                    run.write_results(results.results)
                yield message
        skipped |= {trial.name} if controls.end() == "skipped" else set()


def _launch(trial: Trial, repeat: RepeatJournal, engine: Engine, controls: RunControls) -> Iterator[Message]:
    """Yields the messages of one launch, from its command line to its end."""
    while controls.end() != "interrupted" and not engine.is_ready(trial, READY_S):
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
        controls.launched_ns = launched.at_ns
        try:
            launch = engine.start(trial, command, repeat, hub) if controls.end() is None else None
            ended = Ended(at_ns=launched.at_ns, status="interrupted")  # before it was started
        except LaunchRefused as refusal:
            launch = None
            ended = Ended(at_ns=time.monotonic_ns(), status="failed", error=str(refusal))
        if launch is None:
            yield from (launched, ended)
            return
        try:
            yield msgspec.structs.replace(launched, start=launch.start, start_why=launch.start_why)
            supervisor = (WatchSupervisor if launched.watched else LaunchSupervisor)(trial, hub, launch, repeat)
            supervisor.clocks.add(launched)
            # the load can only be measured on this host
            meter = LoadMeter(launch.processes, MOST_OTHER_LOAD) if engine.is_local else None
            cut_short = yield from _follow(launched, supervisor, meter, controls)
        finally:  # also if a caller closes this generator: leave no rank behind
            launch.stop()
            if launched.watched and launch.exit_code is None:
                hub.send(Stop(why="no longer watched"))
        yield from supervisor.take_records()  # for example why nodes or a job ended the launch
        yield from (message for message in supervisor.last_messages() if not isinstance(message, Echo))
        status = controls.end()  # a launch that the user ended has not failed, whatever the ranks' exit codes are
        yield Ended(at_ns=time.monotonic_ns(), status=status) if cut_short and status else supervisor.ended()


def _follow(
    launched: Launched, supervisor: Supervisor, meter: LoadMeter | None, controls: RunControls
) -> Generator[Message, None, bool]:
    """Yields all messages of a launch while it runs. Returns whether the user ended it by a skip or stop."""
    alive_sent, changed_ns, asked, phase = 0.0, 0, 0, (False, False)
    pace, probes, hub = SamplingPace(), Probes(launched.clock), supervisor.hub
    while not supervisor.is_over():
        if controls.end() and controls.waited_s() >= min(supervisor.grace_s(changed_ns), controls.patience_s):
            return True
        received, received_ns = hub.receive(POLL_MS), time.monotonic_ns()
        supervisor.add(received)
        for message in received:
            for offset in probes.add(message, received_ns):
                supervisor.clocks.add(offset)
                yield offset
            if not isinstance(message, Echo):
                yield message
        for rank, probe in probes.due(time.monotonic_ns()):
            hub.send(probe, [rank])
        if pace.add(received):
            hub.send(Look(per_s=pace.per_s))
        yield from supervisor.take_records()
        before, phase = phase, (supervisor.all_ready(), supervisor.has_trained())
        # take a reading when the training begins and when it ends, so that a short training has one of its own
        yield from meter.read(now=phase != before) if meter else ()
        if time.monotonic() - alive_sent > ALIVE_EVERY_S:
            alive_sent = time.monotonic()
            hub.send(Alive())  # ranks end themselves if they receive nothing from the console
        if not supervisor.all_here():  # requests wait, so that they reach every rank
            continue
        for bottleneck in controls.requests(launched.at_ns):
            if bottleneck is None:
                asked += 1
                hub.send(Look(per_s=pace.per_s, asked=asked))
            elif not controls.end():  # after a stop: the ranks' last step was chosen by their pace before
                changed_ns = time.monotonic_ns()
                hub.send(SetBottleneck(bottleneck=bottleneck))  # workers/instruments/delays.py applies them
                yield Injection(at_ns=changed_ns, bottleneck=bottleneck)
    return False


def why_stopped(error: Exception) -> str:
    """Why a run stopped early, with the notes that were added to the error, e.g. which job may still be running."""
    why = str(error)
    if isinstance(error, OSError):  # a launch could not be started, e.g. for lack of processes, files, memory or room
        where = f" ({error.filename})" if error.filename else ""
        why = f"the launch could not be started: {error.strerror or error}{where}; `ddptui doctor` finds out why"
    return "; ".join([why, *getattr(error, "__notes__", [])])


ERROR_LOG = "internal-error.log"  # in the run's folder
CLOSING_S = 3.0  # time for ranks that train until they are stopped to end by themselves


class Session:
    """A run in a thread of `threads`. `controls` controls it. `error` says why it ended early; None: it did not."""

    def __init__(
        self,
        preset: Preset,
        run: Run,
        threads: Executor,
        finished_before: Outcomes = NO_OUTCOMES,
        warm: WarmParent | None = None,
        terms: WatchMode | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """Start the run. finished_before: outcomes of earlier launches, in a resumed run; only the rest is launched.
        warm, terms: see run_preset. lock: the lock of the run, released when the run ends."""
        self.preset, self.run, self.finished_before = preset, run, finished_before
        self.controls = RunControls()
        self.error: str | None = None
        self.begun_ns = self.now_ns()
        self.terms = terms or WatchMode()
        self._running_results = results = RunningResults(preset, run.name, run.environment(), finished_before)
        launches = run_preset(preset, run, self.controls, results=results, warm=warm, terms=self.terms)
        self._messages: deque[Message] = deque()  # its append and popleft need no lock between threads
        self.work = threads.submit(self._follow, launches, lock or run.held())  # last: it reads all of the above

    @property
    def results(self) -> Results:
        """The results of the launches finished so far."""
        return self._running_results.results

    @property
    def is_over(self) -> bool:
        """Whether all ranks have ended, so that the next `drain` yields the last messages."""
        return self.work.done()

    def now_ns(self) -> int:
        """The current time in ns on the clock of the messages."""
        return time.monotonic_ns()

    def drain(self) -> list[Message]:
        """The messages since the last call."""
        return [self._messages.popleft() for _ in range(len(self._messages))]  # without those that arrive meanwhile

    def close(self) -> None:
        """Stop the run if it is still running, and wait until all its ranks have ended."""
        self.controls.stop(within_s=CLOSING_S)
        wait([self.work])

    def _follow(self, launches: Generator[Message], lock: AbstractContextManager[object]) -> None:
        try:
            with lock, closing(launches) as stream:
                self._messages.extend(stream)
        except (RunError, RunLost, OSError) as error:
            self.error = why_stopped(error)
        except Exception as error:  # a bug: its traceback must not be printed over the console's screen
            path = self.run.folder / ERROR_LOG
            where = f"the traceback is in {path}"
            try:
                with path.open("a", encoding="utf-8") as log:
                    traceback.print_exc(file=log)
            except OSError as cannot:
                where = f"its traceback cannot be written to {path}: {cannot.strerror}"
            self.error = f"{type(error).__name__}: {why_stopped(error)}; {where}"


def engine_for(preset: Preset, run: Run, warm: WarmParent, terms: WatchMode | None = None) -> Engine:
    """The engine that the preset names. terms: how commands are watched. Raises OSError, and LaunchRefused."""
    options = preset.engine
    try:
        match options.name:
            case "local":
                return LocalEngine(run.folder, warm, terms)
            case "join" if terms is not None and terms.elsewhere:
                from ddptui.engines.local.command import ListeningEngine

                return ListeningEngine(options, run, terms)
            case "join":
                from ddptui.engines.join.engine import JoinEngine  # imported late, as below: most runs are local

                return JoinEngine(options, run)
            case "slurm":
                from ddptui.engines.slurm.engine import SlurmEngine

                return SlurmEngine(preset, run)
    except NetworkError as error:
        raise LaunchRefused(str(error)) from None
