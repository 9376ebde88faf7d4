"""Commands about the user's files: new, init, config, and delete and restore for runs."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ddptui.cli.common import RUNS_OPTION, Refusal, load_settings, refusing
from ddptui.cli.completion import files, run_names
from ddptui.cli.watch import OF_COMMAND

if TYPE_CHECKING:
    from ddptui.config.command_presets import Launchers, UserCommand


START = '''"""Averages the gradients over the ranks. Fill in the line that is missing, then run

    {command}
"""

import torch.distributed as dist
from torch import Tensor


def average(tensors: list[Tensor]) -> None:
    """Replace each tensor with its mean over all ranks, in place.

    tensors: this rank's gradients, or parameters, in the model's order, which is the same on all ranks.
    """
    ranks = dist.get_world_size()
    for tensor in tensors:
        # Missing: sum this tensor over the ranks, e.g. by dist.all_reduce, or by dist.reduce and dist.broadcast.
        tensor /= ranks
'''


@click.command()
@click.argument("what", type=click.Choice(["strategy"]))
@click.argument("file", type=click.Path(path_type=Path))
def new(what: str, file: Path) -> None:
    """Write the start of a strategy of your own: FILE, with a function that averages.

    One collective is left to fill in. The preset own-average grades it: see docs/strategies.md.
    """
    from ddptui.config.parser import PresetError
    from ddptui.store.presets import write_new

    if file.suffix != ".py":
        raise Refusal(f"{file}: the name of a Python file ends in .py, e.g. average.py")
    chosen = "" if str(file) == "average.py" else f" --set {shlex.quote(f'yours:strategy={file}:average')}"
    command = f"ddptui run own-average{chosen}"
    with refusing(PresetError):
        write_new(file, START.format(command=command))
    click.echo(f"Wrote {file}. Fill in the collective, then have it graded:")
    click.echo(f"  {command}")


MOST_BYTES = 2**24  # largest script that is read
EXAMPLES = "`ddptui init train.py`, or a whole command: `ddptui init -- torchrun --nproc_per_node=2 train.py`"


@click.command(context_settings=OF_COMMAND)
@click.option("--name", help="The preset's name, and its file's (default: the script's).")
@click.argument(
    "words", metavar="TRAIN.PY [ARGUMENTS] | -- COMMAND", nargs=-1, type=click.UNPROCESSED, shell_complete=files
)
def init(words: tuple[str, ...], name: str | None) -> None:
    """Write a preset for a training of your own.

    The preset launches TRAIN.PY with torchrun, or COMMAND as given, three times, from the current folder. Its file,
    written there, shows by examples how to try other arguments, another environment, and delays.
    """
    from ddptui.config.command_presets import REPEATS, file_name, name_of, preset_text
    from ddptui.config.parser import PresetError
    from ddptui.config.trial import TrialError
    from ddptui.store.presets import write_new

    launched = _launched(words)
    with refusing(TrialError, PresetError):
        file = file_name(name_of(launched.command) if name is None else name)
        write_new(Path(file), preset_text(file, launched))
    click.echo(f"Wrote {file}. It launches the training {REPEATS} times, one after the other. To run it:")
    click.echo(f"  ddptui run {file}")
    click.echo("To watch a single launch without the preset:")
    click.echo(f"  ddptui watch -- {shlex.join(launched.command)}")


def _launched(words: tuple[str, ...]) -> "UserCommand":
    """The command that the preset launches: of a script, or as typed. Raises Refusal."""
    from ddptui.config.command_presets import UserCommand, launched

    if not words:
        raise Refusal(f"name the script, e.g. {EXAMPLES}")
    first, *others = words
    if first.startswith("-"):
        raise Refusal(f"{first}: not an option of ddptui init; the script comes first, then its arguments")
    if first.endswith(".py"):
        return launched(first, tuple(others), _text_of(first), _launchers())
    if shutil.which(first) is not None:
        return UserCommand(words)
    if os.path.exists(first):
        raise Refusal(f"{first}: neither a Python file (.py) nor a program; e.g. {EXAMPLES}")
    raise Refusal(f"{first}: no such file or program; e.g. {EXAMPLES}")


def _text_of(script: str) -> str:
    """Returns the text of a Python file. Raises Refusal."""
    from ddptui.host.folders import read_plain
    from ddptui.text.words import did_you_mean

    try:
        return read_plain(Path(script), MOST_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        here = [path.name for path in Path().glob("*.py")]
        hint = did_you_mean(script, here, "give its path relative to this folder")
        raise Refusal(f"{script}: no such file; {hint}") from None
    except OSError as error:
        raise Refusal(f"{script}: {error.strerror}; name a Python file that you can read") from None


def _launchers() -> "Launchers":
    """What launches a script here: torchrun, or, where it is not on PATH, that of ddptui's own Python."""
    from ddptui.config.command_presets import Launchers
    from ddptui.host import gpus

    seen = 0 if gpus.surely_none() else gpus.count(gpus.ask())
    if shutil.which("torchrun") is None and Path(sys.executable).with_name("torchrun").exists():
        return Launchers((sys.executable, "-m", "torch.distributed.run"), sys.executable, seen)
    return Launchers(("torchrun",), "python", seen)


@click.command()
@click.option("--keys", is_flag=True, help="List the console's keys instead, with their names in [keys].")
def config(keys: bool) -> None:
    """Show your settings, and where each comes from.

    They are kept in one file, config.toml; this command prints its path. Command-line options override it.
    """
    from ddptui.config.settings import KEYS
    from ddptui.store import settings

    if keys:
        chosen = load_settings().keys
        for name, (default, meaning) in KEYS.items():
            click.echo(f"{name:10}  {' '.join(chosen.get(name, (default,))):6}  {meaning}")
        return
    path = settings.path()
    found = settings.in_force(load_settings())
    click.echo(f"{path}{'' if path.exists() else ' (does not exist: create it to change a setting)'}\n")
    names = max(map(len, found))
    values = max(len(each.value) for each in found.values())
    for name, (value, source) in found.items():
        click.echo(f"{name:{names}}  {value:{values}}  {source}")


@click.command()
@click.argument("names", metavar="RUN…", nargs=-1, shell_complete=run_names)
@click.option("--empty-trash", is_flag=True, help="Delete all runs in the trash permanently.")
@RUNS_OPTION
def delete(names: tuple[str, ...], empty_trash: bool, runs: str | None) -> None:
    """Move runs to the trash.

    `ddptui restore` brings back the runs that were deleted last. The trash is in the folder of runs and occupies disk
    space until --empty-trash deletes it permanently.
    """
    from ddptui.store.runs import RunError, find_run, runs_folder
    from ddptui.store.trash import discard, empty
    from ddptui.text.words import count

    folder = runs_folder(runs)
    if bool(names) == empty_trash:
        raise Refusal("name the runs to delete (`ddptui runs` lists them), or give --empty-trash alone")
    with refusing(RunError):
        if empty_trash:
            return click.echo(f"deleted permanently: {count(empty(folder), 'run')}", err=True)
        found = {run.folder: run for run in (find_run(folder, name) for name in names)}  # a run named twice counts once
    moved = discard(folder, [*found.values()])
    for run in moved.runs:
        click.echo(f"moved to the trash: {run.name}", err=True)
    if moved.runs:
        click.echo("`ddptui restore` brings back the runs that were deleted last", err=True)
    if moved.problems:
        raise Refusal("; ".join(moved.problems))


@click.command()
@click.argument("run", required=False)
@RUNS_OPTION
def restore(run: str | None, runs: str | None) -> None:
    """Restore runs from the trash.

    RUN is a run's name; without it, the runs of the last deletion are restored. `ddptui runs --trash` lists the trash.
    """
    from ddptui.store.runs import runs_folder
    from ddptui.store.trash import restore

    moved = restore(runs_folder(runs), run)
    for back in moved.runs:
        click.echo(f"restored: {back.name}", err=True)
    if moved.problems:
        raise Refusal("; ".join(moved.problems))
