"""`--no-ui`: runs a preset, prints its progress on stderr and the comparison on stdout."""

import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TextIO

from ddptui.analysis.cautions import MOST_OTHER_LOAD
from ddptui.analysis.disturbance import busy_now
from ddptui.analysis.extent import shortfall
from ddptui.config.launch_modes import LAUNCH_MODES
from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.findings.compare import RunningResults
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes
from ddptui.host.load import LoadMeter, descendants
from ddptui.host.machine import describe
from ddptui.host.terminal import is_dumb
from ddptui.live import headline
from ddptui.live.headline import refusal
from ddptui.live.monitor import RunMonitor
from ddptui.report import table
from ddptui.run import lab
from ddptui.run.output import as_table, show
from ddptui.run.quiet import can_wait, wait_until_quiet
from ddptui.run.resume import Resumption
from ddptui.store.journal import RunLost
from ddptui.store.runs import Run
from ddptui.text.door import CLEAR_LINE
from ddptui.text.words import count, printable
from ddptui.wire.records import Ended, Launched, Message, Notice, Refused, Restarted

REDRAW_EVERY_S = 0.25  # slow enough for a terminal over SSH
EXIT_CODES = {"ok": 0, "failed": 1, "interrupted": 130}


def run(preset: Preset, runs: Path, *, as_json: bool, usual: Sequence[str] = (), quiet_within_s: float = 0.0) -> int:
    """Run a preset and return the exit code. Finished launches are recorded and printed even after a failure. usual:
    see table.text. quiet_within_s: how long to wait for a quiet machine before the first launch. Raises PresetError for
    a trial that would never end."""
    _check_ends(preset)
    narrator = Narrator(preset, sys.stderr)
    run = Run.create(runs, preset, describe())
    narrator.print(f"{preset.title}: {count(len(preset.trials), 'trial')}, {count(preset.repeats, 'repeat')}")
    with run.held():
        return _launches(run, narrator, as_json=as_json, usual=usual, quiet_within_s=quiet_within_s)


def resume(begun: Resumption, *, as_json: bool, usual: Sequence[str] = (), quiet_within_s: float = 0.0) -> int:
    """Resume a run: launch its missing repeats, as `run` would have. Raises RunError, and PresetError as `run` does."""
    run, preset, lock = begun
    with lock:
        _check_ends(preset)
        outcomes = begun.finished()
        narrator = Narrator(preset, sys.stderr, outcomes)
        for line in resumption(preset, outcomes, run.note_resumption(describe())):
            narrator.print(line)
        return _launches(run, narrator, as_json=as_json, usual=usual, quiet_within_s=quiet_within_s)


def _check_ends(preset: Preset) -> None:
    for trial in preset.trials:
        if trial.trains_until_stopped:
            remedy = "run it in the console, or limit it, for example with --set steps=200"
            raise PresetError(f"trial {trial.name} trains until you stop it: {remedy}")


def _launches(run: Run, narrator: "Narrator", *, as_json: bool, usual: Sequence[str], quiet_within_s: float) -> int:
    """Launch the repeats that are missing in the narrator's outcomes, until the end or an interrupt, and print the
    results. Returns the exit code."""
    preset = narrator.preset
    running_results = RunningResults(preset, run.name, run.environment(), narrator.outcomes)
    stopped = ""  # why the run had to stop
    try:
        if quiet_within_s and can_wait(preset):
            wait_until_quiet(quiet_within_s, narrator.print)
        narrator.watch_load()
        with closing(lab.run_preset(preset, run, results=running_results)) as stream:
            try:
                for message in stream:
                    narrator.add(message)
            except KeyboardInterrupt as interrupt:
                stream.throw(interrupt)  # stops the ranks, and raises the interrupt again
    except KeyboardInterrupt as interrupt:
        for note in getattr(interrupt, "__notes__", ["the ranks are stopped"]):
            narrator.print(f"interrupted; {note}")
        narrator.print(f"`ddptui --resume {run.name}` launches what is missing")
    except (RunLost, OSError) as error:
        stopped = lab.why_stopped(error)
        if isinstance(error, RunLost) and run.is_there():
            stopped += f"; once there is room again, continue with `ddptui --resume {run.name}`"
    if not run.is_there():
        stopped = stopped or f"{run.folder}: it has been moved or deleted"
        stopped += "; if you moved it, continue with `ddptui --resume` and its new path"
    if stopped:
        narrator.print(f"stopped: {stopped}")
    results = running_results.results
    if missing := shortfall(results):
        narrator.print(missing)
    if run.is_there():
        narrator.print(f"kept in {run.folder}")
    show(table.as_json(results, preset) if as_json else as_table(results, preset, usual))
    return EXIT_CODES["failed" if stopped else results.status]


def resumption(preset: Preset, outcomes: Outcomes, changed: dict[str, Any]) -> list[str]:
    """The lines printed when a run is resumed: how many launches are finished, and what has changed in the environment
    since the run started. changed: the changed entries with their new values."""
    failed = {outcome.trial for outcome in outcomes.values() if outcome.status == "failed"}
    done = sum(outcome.trial not in failed for outcome in outcomes.values())
    wanted = sum(preset.repeats for trial in preset.trials if trial.name not in failed)
    lines = [f"{preset.title}: {done} of {count(wanted, 'launch', 'launches')} finished"]
    lines += [f"not launched again, because they failed: {', '.join(sorted(failed))}"] if failed else []
    now = ", ".join(f"{key} {value}" for key, value in changed.items())
    return lines + ([f"the environment has changed since the run started: {now}"] if now else [])


def notice_lines(message: Message) -> list[str]:
    """The lines to print about a message: only problems of a launch."""
    match message:
        case Notice():
            return message.text.splitlines()
        case Refused():
            return [refusal(message)]
        case Restarted():
            return [f"the ranks were restarted: {message.failure.summary}"]
    return []


class Narrator:
    """Prints a run's progress: on a terminal as a line that is redrawn, elsewhere as two lines per launch."""

    def __init__(self, preset: Preset, output: TextIO | None, outcomes: Outcomes = NO_OUTCOMES) -> None:
        self.preset, self.outcomes = preset, outcomes
        self._output = output
        self._redraws = output is not None and output.isatty() and not is_dumb()
        self._monitor = RunMonitor(outcomes)
        self._live = self._monitor.live
        self._drawn_at = time.monotonic()
        self._cold: set[str] = set()  # reasons for cold starts that were already printed
        self._meter: LoadMeter | None = None  # dropped after the first reading
        self._labels = {trial.name: LAUNCH_MODES[trial.launch].label for trial in preset.trials}

    def watch_load(self) -> None:
        """Start measuring how busy this host is, to warn once if other programs disturb the ranks."""
        if self.preset.engine.name == "local":
            self._meter = LoadMeter(descendants, MOST_OTHER_LOAD, looks=True)

    def add(self, message: Message) -> None:
        """Process a message, and print what it changes."""
        if self._meter and (readings := self._meter.read()):
            self._meter = None
            if busy := busy_now(readings[0]):
                self.print(f"this machine is busy: {busy}")
        self._monitor.add([message])
        if isinstance(message, Launched) and message.start_why not in {"", *self._cold}:
            self._cold.add(message.start_why)
            self.print(f"{self._where()}  starts cold: {message.start_why}")
        if isinstance(message, Launched) and not self._redraws:
            self.print(f"{self._where()}  {self._labels[message.trial]}")
        if isinstance(message, Refused | Notice | Restarted):
            where = f"{self._where()}  " if self._live.status == "running" else ""  # else all launches have ended
            for line in notice_lines(message):
                self.print(f"{where}{line}")
        elif isinstance(message, Ended):
            self.print(f"{self._where(self._live.finished)}  {self._how_it_ended()}")
        elif self._redraws and (isinstance(message, Launched) or time.monotonic() - self._drawn_at > REDRAW_EVERY_S):
            self._drawn_at = time.monotonic()
            columns = shutil.get_terminal_size().columns - 1  # a full line would wrap, and \r could not go back
            self._write(CLEAR_LINE + printable(f"{self._where()}  {self._how_it_goes()}")[:columns])

    def print(self, line: str) -> None:
        """Print a line, replacing the line that is redrawn."""
        self._write(f"{CLEAR_LINE if self._redraws else ''}{printable(line)}\n")

    def _write(self, text: str) -> None:
        """Write to stderr. The run continues even if stderr is closed, or a pipe whose reader has exited."""
        if self._output is not None:
            try:
                self._output.write(text)
                self._output.flush()
            except OSError:
                self._output = None

    def _where(self, launch: int | None = None) -> str:
        of_repeats = f"  repeat {self._live.repeat} of {self.preset.repeats}" if self.preset.repeats > 1 else ""
        launches = headline.launches(self.preset, self._live)
        return f"[{launch or self._live.finished + 1}/{launches}] {self._live.trial}{of_repeats}"

    def _how_it_goes(self) -> str:
        live = self._live
        if not live.step:
            here = len(live.ranks)
            return f"starting, {count(here, 'rank')} connected" if here else live.notice or "starting"
        if live.called:
            return "  ".join(filter(None, [f"{live.step} of {live.steps}", live.called, self._time_left()]))
        figures = [f"step {live.step} of {live.steps}"]
        figures += [f"loss {live.loss:.3f}"] if live.loss is not None else []
        figures += [f"{live.samples_per_s:.0f} samples/s"] if live.samples_per_s is not None else []
        self._monitor.look(time.monotonic_ns())  # judges the last seconds
        culprit = self._monitor.judgement.analysis.culprit if self._monitor.judgement else None
        figures += [f"waiting for rank {culprit.rank} ({culprit.phase})"] if culprit else []
        return "  ".join(filter(None, [*figures, self._time_left()]))

    def _how_it_ended(self) -> str:
        live = self._live
        if live.status != "ok":
            return f"{live.status}: {(live.error or '').splitlines()[0] if live.error else 'stopped'}"
        if live.called:
            return f"{live.step} of {live.steps} tried  {self._time_left()}".rstrip()
        loss = f"last loss {live.loss:.3f}  " if live.loss is not None else ""  # the table shows a mean over many steps
        return f"{count(live.step, 'step')}  {loss}{self._time_left()}".rstrip()

    def _time_left(self) -> str:
        left = headline.left_s(self.preset, self._live, time.monotonic_ns())
        return f"about {headline.clock(left)} left" if left is not None else ""
