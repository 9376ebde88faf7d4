"""Runs a preset, trial after trial and repeat after repeat, and yields the one stream of messages.

The repeats of different trials are interleaved (A B A B), so that a slow minute of the machine hits all trials alike.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from typing import Literal

from ddptui import failure, launch
from ddptui.hub import Hub
from ddptui.launch.local import LAUNCHER_LOG, Launcher
from ddptui.load import LoadMeter
from ddptui.preset import Bottleneck, Preset, Trial, available_cores
from ddptui.record import Repeat, Run
from ddptui.wire import (
    CONSOLE_PID,
    HUB,
    LOGS,
    TOKEN,
    Done,
    Ended,
    Failed,
    Hello,
    Injection,
    Launched,
    Message,
    RankMessage,
    Ready,
    SetBottleneck,
    Step,
)

POLL_MS = 100
LOOK_EVERY_S = 0.25  # for dead ranks: it reads files of each, so not at every message
VERDICT_S = 2.0  # after the first sign of failure, how long the launcher may take to say which rank it was
LAST_WORDS_S = 5.0  # after a stop, how long ranks that have trained may take to say how it went
FAREWELL_S = 20.0  # after the last rank is done, how long the launcher may take to end


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


def run_preset(preset: Preset, run: Run, controls: Controls | None = None) -> Generator[Message]:
    """Everything that happens, as it happens; each message is in the run's folder before it is yielded.

    A trial that fails or is skipped is not repeated; the others go on. Closing the iterator, or an interrupt, stops the
    ranks.
    """
    controls = controls or Controls()
    over: set[str] = set()
    for number in range(1, preset.repeats + 1):
        for trial in preset.trials:
            if trial.name in over or controls.end() == "interrupted":
                continue
            with run.begin(trial.name, number) as repeat:
                for message in _launch(trial, repeat, controls):
                    repeat.write(message)
                    if isinstance(message, Ended) and message.status != "ok":
                        over.add(trial.name)
                    yield message


def _launch(trial: Trial, repeat: Repeat, controls: Controls) -> Iterator[Message]:
    """One launch, from its command line to its end."""
    controls.begin()
    command = launch.command(trial)
    alone = launch.environment(trial, available_cores())
    repeat.write_command(command, alone)
    with Hub(trial.world_size) as hub:
        environment = alone | {
            HUB: hub.endpoint,
            TOKEN: hub.token,
            LOGS: str(repeat.folder),
            "TMPDIR": str(hub.folder),  # launchers leave things behind
            CONSOLE_PID: str(os.getpid()),
        }
        yield Launched(trial=trial.name, repeat=repeat.number, at_ns=time.monotonic_ns(), command=tuple(command))
        launcher = Launcher(command, environment, repeat.folder)
        cut_short = False
        try:
            watch = _Watch(trial, hub, launcher)
            meter = LoadMeter(launcher)
            while not watch.is_over() and not (cut_short := controls.cuts_short(trained=watch.has_trained())):
                yield from watch.receive(POLL_MS)
                yield from meter.read()
                if len(hub.hellos) == trial.world_size:  # what is wanted before all are here, waits for the last one
                    yield from _inject(hub, controls)
        finally:
            launcher.stop()
        yield from watch.receive(0)  # what the ranks said last
        wanted = controls.end()
        yield Ended(at_ns=time.monotonic_ns(), status=wanted) if cut_short and wanted else watch.ended(repeat)


def _inject(hub: Hub, controls: Controls) -> Iterator[Injection]:
    for bottleneck in controls.injections():
        now_ns = time.monotonic_ns()
        hub.send(SetBottleneck(bottleneck=bottleneck))
        yield Injection(at_ns=now_ns, bottleneck=bottleneck)


class _Watch:
    """Follows one launch until every rank is done and the launcher has ended, or until it has failed."""

    def __init__(self, trial: Trial, hub: Hub, launcher: Launcher) -> None:
        self._ranks = range(trial.world_size)
        self._warmup_steps = trial.warmup_steps
        self._hub = hub
        self._launcher = launcher
        self._steps: dict[int, int] = {}  # of each rank, how many there will be
        self._trained: set[int] = set()
        self._done: set[int] = set()
        self._failed: list[Failed] = []
        self._silent: list[int] = []  # ranks that died without a word, in the order seen
        self._too_short: str | None = None
        self._looked = 0.0
        self._deadline: float | None = None
        self._exit_code: int | None = None

    def receive(self, timeout_ms: int) -> list[RankMessage]:
        messages = self._hub.receive(timeout_ms)
        for message in messages:
            match message:
                case Hello():
                    self._launcher.meet(message.pid)
                case Ready():
                    self._steps[message.rank] = message.steps
                    if message.steps <= self._warmup_steps:
                        self._too_short = f"all of its {message.steps} steps are warm-up steps: nothing was measured"
                case Step() if message.step + 1 == self._steps.get(message.rank):
                    self._trained.add(message.rank)
                case Done():
                    self._done.add(message.rank)
                case Failed():
                    self._failed.append(message)
        return messages

    def has_trained(self) -> bool:
        """Every rank has made its last step."""
        return len(self._trained | self._done) == len(self._ranks)

    def is_over(self) -> bool:
        if self._launcher.exit_code is not None:
            self._exit_code = self._launcher.exit_code
            return True
        self._look_for_the_dead()
        all_done = len(self._done) == len(self._ranks)
        if self._deadline is None and (all_done or self._failed or self._silent):
            self._deadline = time.monotonic() + (FAREWELL_S if all_done else VERDICT_S)
        return self._deadline is not None and time.monotonic() > self._deadline

    def ended(self, repeat: Repeat) -> Ended:
        now = time.monotonic_ns()
        if len(self._done) == len(self._ranks) and not self._exit_code:
            return Ended(at_ns=now, status="failed" if self._too_short else "ok", error=self._too_short)
        error = failure.explain(
            exit_code=self._exit_code,
            launcher_log=repeat.log(LAUNCHER_LOG),
            rank_logs={rank: repeat.log(f"rank-{rank}.log") for rank in self._ranks},
            failed=self._failed,
            silent=self._silent,
            missing=[rank for rank in self._ranks if rank not in self._hub.hellos],
        )
        return Ended(at_ns=now, status="failed", error=error)

    def _look_for_the_dead(self) -> None:
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        spoken = self._done | {words.rank for words in self._failed} | set(self._silent)
        for rank, hello in self._hub.hellos.items():
            if rank not in spoken and not self._launcher.is_alive(hello.pid):
                self._silent.append(rank)
