"""The command line: `start` is the program's entry, `main` runs presets and holds the commands of the files beside it.

Every command imports what it needs when it is called: `ddptui --help` and a refusal load no zmq, msgspec or rich.
"""

import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddptui import __version__
from ddptui.cli import door
from ddptui.cli.common import (
    INTERRUPTED,
    RUNS_OPTION,
    SET_OPTION,
    USAGE_ERROR,
    PresetRequest,
    Refusal,
    engine_options,
    given,
    handle,
    interruptible,
    load_preset,
    os_error_line,
    refusing,
)
from ddptui.cli.init import init
from ddptui.cli.inspect import columns, compare, presets, project, runs, show, verify
from ddptui.cli.machine import doctor, join, manifest, place, selftest
from ddptui.cli.trash import delete, restore
from ddptui.cli.watch import attach, watch
from ddptui.text.words import did_you_mean

if TYPE_CHECKING:
    from ddptui.config.preset import Preset
    from ddptui.store.runs import Run

# color: else click would drop sequences, where the door spells them out
SETTINGS = {"help_option_names": ["-h", "--help"], "color": True}


def start() -> None:
    """Run the command line as a program. From the first moment on, an interrupt ends it with exit code 130."""
    handle(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the shell closed it (`ddptui >&-`); print and click need an object there
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    door.install()
    try:
        main()
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (else Python reports the same error again at exit)
        Refusal(os_error_line(error)).show()
        sys.exit(USAGE_ERROR)


class Commands(click.Group):
    """The commands; a word that is none may be a preset."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Raises Refusal for a word that is no command."""
        found = super().get_command(context, name)
        if found is None and not name.startswith("-"):
            otherwise = f"to run a preset: `ddptui --preset {name}`; `ddptui --help` lists the commands"
            raise Refusal(f"no command {name!r}; {did_you_mean(name, self.commands, otherwise)}")
        return found


class Whole(click.IntRange):
    """A whole number between two bounds."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Raises BadParameter."""
        try:
            return super().convert(value, parameter, context)
        except click.BadParameter:
            self.fail(f"expected a whole number from {self.min} to {self.max}, got {value}", parameter, context)


@click.group(cls=Commands, invoke_without_command=True, context_settings=SETTINGS)
@click.option("--preset", "preset", metavar="NAME_OR_FILE", help="The preset to run.")
@click.option("--resume", metavar="RUN", help="Finish an interrupted run: launch what is missing.")
@click.option("--no-ui", is_flag=True, help="Run headless: progress on stderr, the comparison on stdout.")
@SET_OPTION
@click.option("--repeats", type=Whole(1, 1000), help="Launches of each trial.")
@click.option("--no-retry", is_flag=True, help="Launch no repeat again that other programs have disturbed.")
@engine_options
@RUNS_OPTION
@click.option("--refresh", type=click.FloatRange(0.2, 30), help="Console: screen refreshes per second.")
@click.option("--theme", help="Console: its theme (default: the one chosen last).")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
@click.version_option(__version__, prog_name="ddptui")
@click.pass_context
def main(
    context: click.Context,
    /,
    preset: str | None,
    resume: str | None,
    no_ui: bool,
    assignments: tuple[str, ...],
    repeats: int | None,
    no_retry: bool,
    runs: str | None,
    refresh: float | None,
    theme: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """A lab console for distributed data-parallel training."""
    engine = given(options)
    context.obj = {"runs": runs, "assignments": assignments, "engine": engine}
    if runs == "":
        raise Refusal("--runs names no folder: leave it out for the default one")
    if context.invoked_subcommand:
        if engine and context.invoked_subcommand != "presets":
            raise Refusal("--engine and its options say where a preset runs; they mean nothing to this command")
        if preset or resume or no_ui or repeats or no_retry or as_json or refresh or theme:
            raise Refusal("--preset and its options run a preset or the console; they mean nothing to a command")
        return
    if resume and (preset or assignments or repeats or engine):
        raise Refusal("--resume keeps the run's own settings: leave out --preset, --set, --repeats and --engine")
    request = PresetRequest(preset, assignments, repeats, engine, retry=not no_retry)
    if not (no_ui or as_json or not sys.stdout.isatty()):
        sys.exit(open_console(request, resume, runs, refresh, theme))
    if theme or refresh:
        raise Refusal("--theme and --refresh are for the console's screens: leave them out when running headless")
    if not resume and preset is None:
        raise Refusal("which preset? `ddptui presets` lists them; then `ddptui --preset NAME --no-ui`")
    sys.exit(run_headless(request, resume, runs, as_json))


def run_headless(request: PresetRequest, resume: str | None, runs: str | None, as_json: bool) -> int:
    """Run a preset, or launch what is missing in a run; progress goes to stderr, the comparison to stdout."""
    from ddptui.config.parser import PresetError
    from ddptui.run import headless
    from ddptui.run.lab import RETRIES
    from ddptui.store.runs import runs_folder

    retries = RETRIES if request.retry else 0

    def work() -> int:
        folder = runs_folder(runs)
        with refusing(PresetError):
            if resume:
                run, preset = _resumable(resume, folder)
                return headless.resume(preset, run, as_json=as_json, retries=retries)
            return headless.run(load_preset(request), folder, as_json=as_json, retries=retries)

    return interruptible(work)


def open_console(
    request: PresetRequest, resume: str | None, runs: str | None, refreshes_per_s: float | None, theme: str | None
) -> int:
    """Open the console's screens: on a preset, on a run to resume, or on the start screen. Raises Refusal."""
    gc.disable()  # until the first screen is drawn: collecting while all is being built takes a tenth of the start
    from ddptui.host.folders import user_config
    from ddptui.store.runs import RunError, runs_folder
    from ddptui.tui.settings import theme_names

    if not sys.stdin.isatty():
        raise Refusal("the console wants a terminal to read keys from; without one, run headless: --no-ui")
    if theme is not None and theme not in theme_names():
        raise Refusal(f"--theme {theme}: not one of {', '.join(theme_names())}")
    if request.name is None and (request.assignments or request.repeats or request.engine):
        raise Refusal("--set, --repeats and --engine change a preset: name it with --preset")
    user_config("presets")  # raises where there is no home, before a screen would
    folder = runs_folder(runs)
    preset = load_preset(request) if request.name is not None else None
    with refusing(RunError):
        resumed = _resumable(resume, folder) if resume is not None else None

    from ddptui.tui.start import start

    return start(folder, preset, resumed, drawn_a_second=refreshes_per_s, theme=theme, retry=request.retry)


def _resumable(name: str, runs: Path) -> "tuple[Run, Preset]":
    """A run and its preset, if that can be started here. Raises RunError, Refusal."""
    from ddptui.config.parser import PresetError
    from ddptui.engines.preflight import prepare
    from ddptui.store.runs import find_run

    run = find_run(runs, name)
    with refusing(PresetError):
        return run, prepare(run.preset())


for command in (
    watch, attach, init, presets, columns, runs, show, compare, delete, restore, project, verify, doctor, selftest,
    join, manifest, place,
):  # fmt: skip
    main.add_command(command)
