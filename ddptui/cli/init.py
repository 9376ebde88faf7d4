"""`ddptui init`: writes a preset that launches the user's own training."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ddptui.cli.common import Refusal, refusing
from ddptui.cli.completion import files
from ddptui.cli.watch import OF_COMMAND

if TYPE_CHECKING:
    from ddptui.config.command_presets import Launchers, UserCommand

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
