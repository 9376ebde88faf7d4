"""`ddptui` without a command: run a preset, or resume a run, headless or in the console. Each returns the exit code."""

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ddptui.cli.common import PresetRequest, Refusal, interruptible, load_preset, refusing

if TYPE_CHECKING:
    from ddptui.config.preset import Preset
    from ddptui.store.runs import Run


def run_headless(request: PresetRequest, runs: str | None, as_json: bool) -> int:
    """Run a preset; progress goes to stderr, the comparison to stdout."""
    from ddptui.run import headless

    return interruptible(lambda folder: headless.run(load_preset(request), folder, as_json=as_json), runs)


def resume_headless(name: str, runs: str | None, as_json: bool) -> int:
    """Launch what is missing in a run, as `run_headless` would have."""
    from ddptui.run import headless

    def work(folder: Path) -> int:
        run, preset = _resumable(name, folder)
        return headless.resume(preset, run, as_json=as_json)

    return interruptible(work, runs)


def _resumable(name: str, runs: Path) -> "tuple[Run, Preset]":
    """A run and its preset, if that can be started here. Raises RunError, Refusal."""
    from ddptui.config.parser import PresetError
    from ddptui.engines.preflight import prepare
    from ddptui.store.runs import find_run

    run = find_run(runs, name)
    with refusing(PresetError):
        return run, prepare(run.preset())


def open_console(
    request: PresetRequest, resume: str | None, runs: str | None, refreshes_per_s: float | None, theme: str | None
) -> int:
    """Open the console's screens: on a preset, on a run to resume, or on the start screen. Raises Refusal."""
    gc.disable()  # until the first screen is drawn: collecting while all is being built takes a tenth of the start
    from ddptui.store.runs import RunError, runs_folder
    from ddptui.tui.settings import theme_names

    if not sys.stdin.isatty():
        raise Refusal("the console wants a terminal to read keys from; without one, run headless: --no-ui")
    if theme is not None and theme not in theme_names():
        raise Refusal(f"--theme {theme}: not one of {', '.join(theme_names())}")
    if request.name is None and (request.assignments or request.repeats or request.engine):
        raise Refusal("--set, --repeats and --engine change a preset: name it with --preset")
    folder = runs_folder(runs)
    preset = load_preset(request) if request.name is not None else None
    with refusing(RunError):
        resumed = _resumable(resume, folder) if resume is not None else None

    from ddptui.tui.start import start

    return start(folder, preset, resumed, drawn_a_second=refreshes_per_s, theme=theme)
