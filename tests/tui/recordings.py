"""The recorded run, told by a clock that a test sets."""

from itertools import accumulate
from pathlib import Path

import msgspec

from ddptui.analysis.results import Results
from ddptui.engines.local.command import WatchMode
from ddptui.findings.repeat import NO_OUTCOMES
from ddptui.live.monitor import RunMonitor
from ddptui.run.playback import Playback
from ddptui.run.runner import RunControls, Session
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from ddptui.tui.screens.base import EndedRun
from ddptui.wire.messages import Hello, Line, Place, Sampled, Step, Stood
from ddptui.wire.phases import PHASES
from ddptui.wire.records import Launched, Message
from tests.support.launches import told_by

RECORDED = Path(__file__).parent / "recorded" / "run"


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def passes(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


def playback(clock: Clock | None = None) -> Playback:
    run = Run(RECORDED)
    return Playback(run, run.preset(), clock or Clock())


def over(run: Run | None = None) -> EndedRun:
    """This run with its results; None: the recorded one."""
    run = run or Run(RECORDED)
    return EndedRun(run, run.preset(), results_of(run, run.preset()))


def moment_s(told: Playback, trial: str, step: int) -> float:
    """How long after the beginning of the run both ranks had finished this step of a trial."""
    watched = RunMonitor()
    for at_ns, message in told_by(told.recording):
        watched.add([message])
        if watched.live.trial == trial and watched.live.step > step:
            return (at_ns - told.begin_ns) / 1e9
    raise LookupError(f"{trial} has no step {step}")


def at(trial: str, step: int, clock: Clock | None = None) -> Playback:
    """When both ranks had finished this step of a trial."""
    told = playback(clock)
    told.seek(moment_s(told, trial, step))
    return told


class ToldAsItGoes(Session):
    """The recorded run as if it were under way: what is wanted of it is noted, and nothing comes of it."""

    def __init__(self, told: Playback) -> None:
        self.preset, self.run, self.error, self.finished_before = told.preset, told.run, None, NO_OUTCOMES
        self.controls, self.terms = RunControls(), WatchMode()
        self.controls.launched_ns = told.state().launched_ns
        self.begun_ns, self._told = told.begin_ns, told

    @property
    def results(self) -> Results:
        return self._told.results

    @property
    def is_over(self) -> bool:
        return self._told.is_over

    def now_ns(self) -> int:
        return self._told.now_ns()

    def drain(self) -> list[Message]:
        messages = self._told.drain()
        for message in messages:
            if isinstance(message, Launched):
                self.controls.launched_ns = message.at_ns
        return messages

    def close(self) -> None:
        pass


class SampledAsItGoes(ToldAsItGoes):
    """The same, of ranks that sample their lines: four times a phase, which has one line."""

    stands_in: int | None = None  # step in which each rank says where it stands

    def drain(self) -> list[Message]:
        return [changed for message in super().drain() for changed in self._changed(message)]

    def _changed(self, message: Message) -> list[Message]:
        changed = _sampled(message)
        if isinstance(message, Step) and message.step == self.stands_in:
            torch, main = Place("/torch/_tensor.py", 5, "Tensor.backward", False), Place("train.py", 60, "main", True)
            stack = (torch, main) if message.rank == 0 else (Place("train.py", 20, "augment", True), main)
            changed.append(Stood(rank=message.rank, at_ns=message.end_ns, asked=1, stack=stack))
        return changed


def _sampled(message: Message) -> list[Message]:
    if isinstance(message, Hello) and message.rank == 0:
        caller = Place("train.py", 60, "main", True)
        stacks = {number: (Place("train.py", 10 * number, phase, True), caller) for number, phase in enumerate(PHASES)}
        return [message, *(Line(rank=0, number=number, stack=stack) for number, stack in stacks.items())]
    if not isinstance(message, Step):
        return [message]
    ends_ns = [*accumulate(message.phases_ns, initial=message.begin_ns)][1:]
    lines = []
    for number, ns in enumerate(message.phases_ns):
        lines += [Sampled(ends_ns[number] - ns * part // 8, ns // 8, number) for part in (7, 5, 3, 1)]
    return [msgspec.structs.replace(message, lines=tuple(lines))]
