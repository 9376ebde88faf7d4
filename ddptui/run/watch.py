"""`ddptui watch` without a screen: the command uses the terminal as if it were not watched, and the report is printed
on stderr afterwards. The command may also run on other hosts: then one process listens, and one on each host joins."""

import signal
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from ddptui.config.preset import Preset
from ddptui.engines.join.ticket import Ticket
from ddptui.engines.local.command import CommandLaunch, WatchMode, start_for_console_elsewhere
from ddptui.findings.compare import RunningResults
from ddptui.host.machine import describe
from ddptui.report import table
from ddptui.run import lab
from ddptui.run.headless import EXIT_CODES, notice_lines
from ddptui.run.output import width
from ddptui.store.journal import RunLost
from ddptui.store.runs import Run
from ddptui.text.words import printable
from ddptui.wire.connection import HUB, KEYS_VARIABLE, TOKEN


def watch(preset: Preset, runs: Path, terms: WatchMode, *, as_json: bool, usual: Sequence[str] = ()) -> int:
    """Watch a preset's only command to its end, then print the report. The command runs in this terminal, or another
    process has started it; then Ctrl-C ends the watching. Returns the command's exit code, or 2 if it could not be
    started; of a command that another process has started, 0 if all went well. usual: see table.text."""
    controls = lab.Controls()
    if not terms.in_terminal:
        signal.signal(signal.SIGINT, lambda *_: controls.stop())
    run = Run.create(runs, preset, describe())
    results = RunningResults(preset, run.name, run.environment())
    try:
        with run.held(), closing(lab.run_preset(preset, run, controls, results=results, terms=terms)) as stream:
            for line in (line for message in stream for line in notice_lines(message)):
                tell(line)
    except (RunLost, OSError) as error:
        tell(f"no longer watched: {error}; the training goes on")
    if as_json:
        say(table.as_json(results.results, preset))
    elif any(trial.repeats for trial in results.results.trials):
        say(f"\n{table.text(results.results, preset, width(), usual=usual)}")
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
    way = {HUB: ticket.endpoint, TOKEN: ticket.token, KEYS_VARIABLE: ticket.keys.spell()}
    with TemporaryDirectory(prefix="ddptui-") as folder:
        return exit_code_of(start_for_console_elsewhere(command, ticket.watching, way, Path(folder)))


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
