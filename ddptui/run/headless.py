"""`--no-ui`: runs a preset, or watches a command, without a screen.

The command may also run on other hosts: then one process listens, and one on each host joins.
"""

import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from ddptui.analysis.repeats import shortfall
from ddptui.config.catalog import LAUNCH_MODES
from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.config.settings import KEYS
from ddptui.engines.join.ticket import Ticket
from ddptui.engines.local.command import CommandLaunch, WatchMode, start_for_console_elsewhere
from ddptui.findings.compare import RunningResults
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes
from ddptui.host.machine import describe, is_dumb
from ddptui.live import headline
from ddptui.live.monitor import RunMonitor
from ddptui.report import table
from ddptui.run import runner
from ddptui.run.listing import as_table, output_width, show_result
from ddptui.run.prepare import Resumption, can_wait, wait_until_quiet
from ddptui.store.journal import RunLost
from ddptui.store.runs import ANSWERS, Run
from ddptui.text.drawing import cut
from ddptui.text.sanitize import CLEAR_LINE
from ddptui.text.words import count, printable
from ddptui.wire.connection import HUB, KEYS_VARIABLE, TOKEN
from ddptui.wire.records import Ended, Launched, Message, Notice, Refused, Restarted

REDRAW_EVERY_S = 0.25  # slow enough for a terminal over SSH
EXIT_CODES = {"ok": 0, "failed": 1, "interrupted": 130}


def run(preset: Preset, runs: Path, *, as_json: bool, pinned: Sequence[str] = (), quiet_within_s: float = 0.0) -> int:
    """Run a preset and return the exit code. Finished launches are recorded and printed even after a failure. pinned:
    see table.text. quiet_within_s: how long to wait for a quiet machine before the first launch. Raises PresetError for
    a trial that would never end."""
    _check_ends(preset)
    narrator = Narrator(preset, sys.stderr)
    run = Run.create(runs, preset, describe())
    narrator.print(f"{preset.localized_title}: {count(len(preset.trials), 'trial')}, {count(preset.repeats, 'repeat')}")
    with run.held():
        return _launches(run, narrator, as_json=as_json, pinned=pinned, quiet_within_s=quiet_within_s)


def resume(begun: Resumption, *, as_json: bool, pinned: Sequence[str] = (), quiet_within_s: float = 0.0) -> int:
    """Resume a run: launch its missing repeats, as `run` would have. Raises RunError, and PresetError as `run` does."""
    run, preset, lock = begun
    with lock:
        _check_ends(preset)
        outcomes = begun.finished()
        narrator = Narrator(preset, sys.stderr, outcomes)
        live = narrator.live
        wanted = count(headline.launches(preset, live), "launch", "launches")
        narrator.print(f"{preset.localized_title}: {live.finished} of {wanted} finished")
        if live.failures:
            narrator.print(f"not launched again, because they failed: {', '.join(sorted(live.failures))}")
        if changed := run.note_resumption(describe()):
            now = ", ".join(f"{key} {value}" for key, value in changed.items())
            narrator.print(f"the environment has changed since the run started: {now}")
        return _launches(run, narrator, as_json=as_json, pinned=pinned, quiet_within_s=quiet_within_s)


def _check_ends(preset: Preset) -> None:
    for trial in preset.trials:
        if trial.trains_until_stopped:
            remedy = "run it in the console, or limit it, for example with --set steps=200"
            raise PresetError(f"trial {trial.name} trains until you stop it: {remedy}")


def _launches(run: Run, narrator: "Narrator", *, as_json: bool, pinned: Sequence[str], quiet_within_s: float) -> int:
    """Launch the repeats that are missing in the narrator's outcomes, until the end or an interrupt, and print the
    results. Returns the exit code."""
    preset, has_failed = narrator.preset, False
    running_results = RunningResults(preset, run.name, run.environment(), narrator.outcomes)
    try:
        if quiet_within_s and can_wait(preset):
            wait_until_quiet(quiet_within_s, narrator.print)
        with closing(runner.run_preset(preset, run, results=running_results)) as stream:
            for message in stream:
                narrator.add(message)
    except KeyboardInterrupt as interrupt:
        for note in getattr(interrupt, "__notes__", ["the ranks are stopped"]):
            narrator.print(f"interrupted; {note}")
    except (RunLost, OSError) as error:
        has_failed = True
        narrator.print(f"stopped: {runner.why_stopped(error)}")
    results = running_results.results
    if missing := shortfall(results):
        narrator.print(missing)
    if not run.is_there():
        has_failed = True
        narrator.print(f"{run.folder} was moved or deleted: if you moved it, resume the run by its new path")
    else:
        if has_failed or results.status == "interrupted":
            narrator.print(f"`ddptui --resume {run.name}` launches what is missing")
        narrator.print(f"kept in {run.folder}")
        if asked := len(preset.questions):
            how = f"answer with {KEYS['answer'].default} on its result in the console, or in {run.folder / ANSWERS}"
            narrator.print(f"{count(asked, 'question')}, which `ddptui show {run.name}` prints: {how}")
    show_result(table.as_json(results, preset) if as_json else as_table(results, preset, pinned))
    return EXIT_CODES["failed" if has_failed else results.status]


def notice_lines(message: Message) -> list[str]:
    """The lines to print about a message: only problems of a launch."""
    match message:
        case Notice():
            return message.text.splitlines()
        case Refused():
            return [headline.refusal(message)]
        case Restarted():
            return [f"the ranks were restarted: {message.failure.summary}"]
    return []


class Narrator:
    """Prints a run's progress: two lines per launch, and on a terminal between them a line that is redrawn."""

    def __init__(self, preset: Preset, output: TextIO, outcomes: Outcomes = NO_OUTCOMES) -> None:
        self.preset, self.outcomes = preset, outcomes
        self._output = output
        self._redraws = output.isatty() and not is_dumb()
        self._monitor = RunMonitor(outcomes)
        self.live = self._monitor.live
        self._drawn_at = 0.0
        self._labels = {trial.name: LAUNCH_MODES[trial.launch].label for trial in preset.trials}

    def add(self, message: Message) -> None:
        """Process a message, and print what it changes."""
        self._monitor.add([message])
        is_running = self.live.status == "running"
        for line in notice_lines(message):
            self.print(f"{self._launch()}{line}" if is_running else line)  # else all launches have ended
        match message:
            case Launched():
                cold = f"; starts cold: {message.start_why}" if message.start_why else ""
                self.print(self._launch() + self._labels[message.trial] + cold)
            case Ended():
                self.print(self._launch() + self._progress())
            case _ if self._redraws and is_running and time.monotonic() - self._drawn_at > REDRAW_EVERY_S:
                self._drawn_at = time.monotonic()
                columns = shutil.get_terminal_size().columns - 1  # a full line would wrap, and \r could not go back
                self._write(CLEAR_LINE + cut(printable(self._launch() + self._progress()), columns))

    def _launch(self) -> str:
        live, repeats = self.live, self.preset.repeats
        number = live.finished + (live.status == "running")
        of_repeats = f"  repeat {live.repeat} of {repeats}" if repeats > 1 else ""
        return f"[{number}/{headline.launches(self.preset, live)}] {live.trial}{of_repeats}  "

    def _progress(self) -> str:
        """How far the launch has come, or how it has ended."""
        live, now_ns = self.live, time.monotonic_ns()
        if live.status not in ("running", "ok"):
            return f"{live.status}: {(live.error or 'stopped').splitlines()[0]}"
        steps, sentence = count(live.step, "call" if live.called else "step"), ""
        if live.status == "running":
            self._monitor.look(now_ns)  # judges the last seconds
            steps = headline.steps(live) if live.step else ""
            sentence = headline.headline_text(self._monitor, {}, self.preset, now_ns)
        loss = f"last loss {live.loss:.3f}" if live.loss is not None else ""  # the table shows a mean over many steps
        left_s = headline.left_s(self.preset, live, now_ns)
        left = f"about {headline.clock(left_s)} left" if left_s is not None else ""
        return "  ".join(filter(None, [steps, loss, left, sentence]))

    def print(self, line: str) -> None:
        """Print a line, replacing the line that is redrawn."""
        self._write(f"{CLEAR_LINE if self._redraws else ''}{printable(line)}\n")

    def _write(self, text: str) -> None:
        """Write to stderr. The run continues even if stderr is a pipe whose reader has exited."""
        with suppress(OSError):
            print(text, end="", file=self._output, flush=True)


def watch(preset: Preset, runs: Path, terms: WatchMode, *, as_json: bool, pinned: Sequence[str] = ()) -> int:
    """Watch a preset's only command to its end, then print the report. The command runs in this terminal, or another
    process has started it; then Ctrl-C ends the watching. Returns the command's exit code, or 2 if it could not be
    started; of a command that another process has started, 0 if all went well. pinned: see table.text."""
    controls = runner.RunControls()
    if not terms.in_terminal:
        signal.signal(signal.SIGINT, lambda *_: controls.stop())
    run = Run.create(runs, preset, describe())
    results = RunningResults(preset, run.name, run.environment())
    try:
        with run.held(), closing(runner.run_preset(preset, run, controls, results=results, terms=terms)) as stream:
            for line in (line for message in stream for line in notice_lines(message)):
                tell(line)
    except (RunLost, OSError) as error:
        tell(f"no longer watched: {error}; the training goes on")
    if as_json:
        say(table.as_json(results.results, preset))
    elif any(trial.repeats for trial in results.results.trials):
        say(f"\n{table.text(results.results, preset, output_width(), pinned=pinned)}")
    else:
        for line in (line for trial in results.results.trials for line in (trial.error or "").splitlines()):
            tell(line)
    if terms.saw_nothing:
        run.remove()
    tell("nothing was watched, so no run was saved" if terms.saw_nothing else f"kept in {run.folder}")
    if terms.in_terminal:
        return exit_code_of(terms.launch) if terms.launch is not None else 2
    return EXIT_CODES[results.results.status]


def join(ticket: Ticket, command: Sequence[str]) -> int:
    """Run a command in this terminal; the console that issued the ticket watches its ranks. Returns the command's exit
    code. Raises LaunchRefused."""
    assert ticket.watching is not None
    variables = {HUB: ticket.endpoint, TOKEN: ticket.token, KEYS_VARIABLE: ticket.keys.spell()}
    with TemporaryDirectory(prefix="ddptui-") as folder:
        return exit_code_of(start_for_console_elsewhere(command, ticket.watching, variables, Path(folder)))


def exit_code_of(launch: CommandLaunch) -> int:
    """Wait for the end of a command. Returns its exit code as a shell would: 128 + number for a signal."""
    code = launch.wait(tell)
    return code if code >= 0 else 128 - code


def tell(line: str) -> None:
    """Print a line, marked as ddptui's, amid the training's own output."""
    say(f"ddptui: {printable(line)}")


def say(text: str) -> None:
    """Print on stderr. Errors are ignored: the training continues even if stderr is closed."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
