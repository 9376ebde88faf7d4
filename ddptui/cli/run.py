"""`ddptui run`: runs a preset in the console or headless. `begin` also resumes an interrupted run."""

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddptui.cli.common import (
    Refusal,
    changes_of,
    check_terminal,
    interruptible,
    load_preset,
    load_settings,
    refusing,
    run_options,
)
from ddptui.cli.completion import presets_and_files

if TYPE_CHECKING:
    from ddptui.config.settings import Settings
    from ddptui.run.prepare import Resumption

WHICH = "name a preset: `ddptui run NAME`; `ddptui presets` lists them"
NO_SCREEN = (
    "the console needs a terminal, and stdout is not one; `ddptui run NAME --no-ui` runs a preset without the console, "
    "`ddptui presets` lists them"
)


@click.command()
@click.argument("name", metavar="NAME_OR_FILE", required=False, shell_complete=presets_and_files)
@run_options
def run(name: str | None, **options: Any) -> None:
    """Run a preset, in the console or headless.

    On a terminal, the console opens and shows the run. With --no-ui or --json, or in a pipe, the preset runs headless.
    """
    if not name:
        raise Refusal(WHICH)
    sys.exit(begin(name, None, options))


def begin(preset: str | None, resume: str | None, options: dict[str, Any]) -> int:
    """Run a preset or resume a run; without either, open the console's start screen. Returns the exit code. Raises
    Refusal."""
    settings, is_headless = load_settings(), options["no_ui"] or options["as_json"]
    if not is_headless and sys.stdout.isatty():
        return open_console(preset, resume, options, settings)
    if not resume and preset is None:
        raise Refusal(WHICH if is_headless else NO_SCREEN)
    if options["theme"] or options["refresh"]:
        raise Refusal("--theme and --refresh have no effect without the console's screens: leave them out")
    return run_headless(preset or "", resume, options, settings)


def run_headless(name: str, resume: str | None, options: dict[str, Any], settings: "Settings") -> int:
    """Run a preset, or launch the missing repeats of a run. Progress goes to stderr, the comparison to stdout. Returns
    the exit code."""
    from ddptui.config.parser import PresetError
    from ddptui.run import headless
    from ddptui.store.runs import runs_folder

    def work() -> int:
        folder, as_json, quiet_s = runs_folder(options["runs"]), options["as_json"], options["wait_quiet"] or 0.0
        with refusing(PresetError):
            if resume:
                resumed = _resumption(resume, folder)
                return headless.resume(resumed, as_json=as_json, pinned=settings.columns, quiet_within_s=quiet_s)
            preset = load_preset(name, **changes_of(options))
            return headless.run(preset, folder, as_json=as_json, pinned=settings.columns, quiet_within_s=quiet_s)

    return interruptible(work)


def open_console(name: str | None, resume: str | None, options: dict[str, Any], settings: "Settings") -> int:
    """Open the console with a preset running, with a run to resume, or on the start screen. Returns the exit code.
    Raises Refusal."""
    gc.disable()  # until the first screen is drawn: garbage collection takes a tenth of the startup time
    from ddptui.config.settings import THEMES
    from ddptui.host.folders import user_config
    from ddptui.run.prepare import Calm
    from ddptui.store.runs import RunError, runs_folder

    check_terminal()
    if options["wait_quiet"]:
        raise Refusal("--wait-quiet S is for headless runs: the console asks whether to wait; 0 starts without asking")
    # Calm measures how busy this machine is while the screens are imported.
    calm = Calm() if options["wait_quiet"] is None else None
    if options["theme"] is not None and options["theme"] not in THEMES:
        raise Refusal(f"--theme {options['theme']}: not one of {', '.join(THEMES)}")
    if name is None and any(changes_of(options).values()):
        raise Refusal("options that change a preset need one: `ddptui run NAME --set KEY=VALUE`")
    user_config("presets")  # without a home folder this raises now, and not while a screen is drawn
    folder = runs_folder(options["runs"])
    preset = None if name is None else load_preset(name, **changes_of(options))
    with refusing(RunError):
        resumed = _resumption(resume, folder) if resume is not None else None

    from ddptui.tui.start import start

    pace, theme = options["refresh"], options["theme"]
    return start(folder, preset, resumed, settings=settings, refreshes_per_s=pace, theme=theme, calm=calm)


def _resumption(name: str, runs: Path) -> "Resumption":
    """Locks a run and checks that its missing repeats can be launched here. Raises RunError, Refusal."""
    from ddptui.config.parser import PresetError
    from ddptui.run.prepare import begin_resumption
    from ddptui.store.runs import find_run

    with refusing(PresetError):
        return begin_resumption(find_run(runs, name))
