"""A command that is typed after `ddptui watch`, as a preset of one trial. Pure."""

from itertools import pairwise
from typing import Any

from ddptui.config.parser import MOST_IN_NAME, NOT_IN_NAME, parse
from ddptui.config.preset import Preset
from ddptui.text.argv import as_text, shell_line


def preset_of(
    command: tuple[str, ...], *, name: str | None, skip: int, steps: int | None, overrides: dict[str, Any]
) -> Preset:
    """The preset. name: of the trial; None: that of the script. skip: steps of the warm-up. steps: that are watched
    after it; None: all. Raises TrialError."""
    called = name or name_of(command)
    text = [*map(as_text, command)]
    trial = {"name": called, "command": text, "warmup_steps": skip}
    trial |= {} if steps is None else {"steps": skip + steps}
    return parse(called, {"kind": "command", "title": shell_line(text), "trial": [trial]}, overrides)


def name_of(command: tuple[str, ...]) -> str:
    """The name of the script that a command runs, or of its module or program, as a folder can have it."""
    scripts = [word for word in command if word.endswith(".py")]
    modules = [module for flag, module in pairwise(command) if flag == "-m"]
    chosen = next(iter([*scripts, *modules[-1:], *command[:1]]), "")
    plain = NOT_IN_NAME.sub("-", chosen.rstrip("/").rpartition("/")[2].removesuffix(".py")).lstrip("_.+-")
    return plain[:MOST_IN_NAME] or "command"
