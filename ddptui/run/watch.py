"""`ddptui watch --no-ui`: the command has the terminal, as if nothing watched it; the report follows on stderr."""

import sys
from contextlib import closing, suppress
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


def watch(preset: Preset, runs: Path, terms: Terms, *, as_json: bool) -> int:
    """Run a preset's only command in this terminal, and watch it. Returns the command's own exit code; 2 if it could
    not be started."""
    run = Run.create(runs, preset, describe())
    results = RunningResults(preset, run.name, run.environment())
    try:
        with run.held(), closing(lab.run_preset(preset, run, results=results, terms=terms)) as stream:
            told: set[str] = set()  # a notice may also be why there are no figures
            for message in stream:
                for line in said(message):
                    if line not in told:
                        tell(line)
                    told.add(line)
    except (RunLost, OSError) as error:
        tell(f"no longer watched: {error}; the training goes on")
    if terms.launch is None:
        return 2
    if as_json:
        say(table.as_json(results.results, preset))
    elif any(trial.repeats for trial in results.results.trials):
        say(f"\n{table.text(results.results, preset, width())}")
    tell(f"kept in {run.folder}")
    code = terms.launch.wait()
    return code if code >= 0 else 128 - code  # as a shell has it


def said(message: Message) -> list[str]:
    """The lines about a message that the terminal gets: only what hinders the watching."""
    match message:
        case Notice():
            return [message.text]
        case Refused():
            return [refusal(message)]
        case Ended(error=str(error)):
            return [error.splitlines()[0]]
    return []


def tell(line: str) -> None:
    """Print a line that the training's own output may stand around."""
    say(f"ddptui: {printable(line)}")


def say(text: str) -> None:
    """Print on stderr. The training goes on even if nobody reads it."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
