"""`ddptui watch --no-ui`: the command has the terminal, as if nothing watched it; the report follows on stderr."""

import sys
from contextlib import closing
from pathlib import Path

from ddptui.analysis.compare import RunningResults
from ddptui.config.preset import Preset
from ddptui.engines.local.foreign import Terms
from ddptui.host.machine import describe
from ddptui.live.headline import refusal
from ddptui.report import table
from ddptui.run import lab
from ddptui.run.output import width
from ddptui.store.journal import RunLost
from ddptui.store.runs import Run
from ddptui.text.words import printable
from ddptui.wire.records import Ended, Message, Notice, Refused


def watch(preset: Preset, runs: Path, terms: Terms) -> int:
    """Run a preset's only command in this terminal, and watch it. Returns the command's own exit code; 2 if it could
    not be started."""
    run = Run.create(runs, preset, describe())
    results = RunningResults(preset, run.name, run.environment())
    try:
        with run.held(), closing(lab.run_preset(preset, run, results=results, terms=terms)) as stream:
            for message in stream:
                for line in said(message):
                    say(line)
    except (RunLost, OSError) as error:
        say(f"no longer watched: {error}; the training goes on")
    if terms.launch is None:
        return 2
    if any(trial.repeats for trial in results.results.trials):
        say("", table.text(results.results, preset, width()).rstrip())
    say(f"kept in {run.folder}")
    code = terms.launch.wait()
    return code if code >= 0 else 128 - code  # as a shell has it


def said(message: Message) -> list[str]:
    """What of a message the terminal is told: what goes wrong with the watching."""
    match message:
        case Notice():
            return [message.text]
        case Refused():
            return [refusal(message)]
        case Ended(error=str(error)):
            return [error.splitlines()[0]]
    return []


def say(*lines: str) -> None:
    """Print lines on stderr. The training goes on even if nobody reads them."""
    try:
        for line in lines:
            for part in line.split("\n"):
                print(f"ddptui: {printable(part)}" if len(lines) == 1 else printable(part), file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = sys.stderr
