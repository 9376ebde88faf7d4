"""`ddptui watch`: a training of the user's own, as it is."""

import shutil
import sys
from typing import TYPE_CHECKING

import click

from ddptui.cli.common import RUNS_OPTION, SET_OPTION, Refusal, interruptible, overrides_of, refusing

if TYPE_CHECKING:
    from ddptui.config.preset import Preset

OF_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.command(context_settings=OF_COMMAND)
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Watch so many steps, then let go of the training.")
@click.option("--skip", type=click.IntRange(0), default=3, metavar="N", help="Steps to leave out first (default: 3).")
@click.option("--every", type=click.IntRange(1), default=1, metavar="N", help="Report one step in so many.")
@click.option("--name", help="Its name in the list of runs (default: the script's).")
@click.option("--no-ui", is_flag=True, help="The training keeps this terminal; the report follows on stderr.")
@click.option("--kill-on-exit", is_flag=True, help="End the training when the console ends.")
@SET_OPTION
@RUNS_OPTION
@click.option("--json", "as_json", is_flag=True, help="With --no-ui: results.json on stderr, instead of the report.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def watch(
    context: click.Context,
    /,
    command: tuple[str, ...],
    steps: int | None,
    skip: int,
    every: int,
    name: str | None,
    no_ui: bool,
    kill_on_exit: bool,
    assignments: tuple[str, ...],
    runs: str | None,
    as_json: bool,
) -> None:
    """Watch a training of your own, without a change to it: ddptui watch -- torchrun --nproc_per_node=2 train.py"""
    from ddptui.engines.local.foreign import Terms
    from ddptui.store.runs import runs_folder

    before = context.obj or {}  # `ddptui --runs DIR watch …`
    preset = _preset(command, name, skip, steps, (*before.get("assignments", ()), *assignments))
    folder = runs_folder(runs or before.get("runs"))
    in_terminal = no_ui or as_json or not sys.stdout.isatty()
    terms = Terms(in_terminal=in_terminal, outlives=not kill_on_exit, every=every)
    if in_terminal:
        from ddptui.run.watch import watch as watch_here

        sys.exit(interruptible(lambda: watch_here(preset, folder, terms, as_json=as_json)))
    from ddptui.tui.start import start

    sys.exit(start(folder, preset, drawn_a_second=None, theme=None, terms=terms))


def _preset(
    command: tuple[str, ...], name: str | None, skip: int, steps: int | None, assignments: tuple[str, ...]
) -> "Preset":
    """The command as a preset. Raises Refusal."""
    from ddptui.config.trial import TrialError
    from ddptui.config.watched import preset_of
    from ddptui.engines.local.foreign import NOT_FOUND
    from ddptui.engines.preflight_machine import check_temporary_folder

    if not command:
        raise Refusal("which command? as in `ddptui watch -- torchrun --nproc_per_node=2 train.py`")
    if shutil.which(command[0]) is None:
        raise Refusal(f"{command[0]}: {NOT_FOUND}")
    with refusing(TrialError):
        preset = preset_of(command, name=name, skip=skip, steps=steps, overrides=overrides_of(assignments))
    check_temporary_folder()
    return preset
