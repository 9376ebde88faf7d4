"""Presets that launch the user's own training: for `ddptui watch COMMAND`, and the TOML file with examples to uncomment
that `ddptui init` writes. Pure."""

import re
from itertools import pairwise
from typing import Any, NamedTuple

from ddptui.config.parser import MOST_IN_NAME, NAME_RULE, NOT_IN_NAME, TRIAL_NAME, parse
from ddptui.config.preset import Preset
from ddptui.config.trial import TrialError
from ddptui.config.values import literal
from ddptui.text.sanitize import as_text, shell_line
from ddptui.text.words import printable

REPEATS = 3
FEWEST_RANKS = 2
AS_IT_IS = "as-it-is"  # the trial that the examples are compared with
# Patterns that show how a script starts its ranks. An unused import of multiprocessing alone does not match.
STARTS_RANKS = re.compile(
    r"\b(?:mp|multiprocessing)\.(?:spawn|start_processes|Process)\s*\("
    r"|^[ \t]*from[ \t]+(?:torch\.)?multiprocessing[ \t]+import\b.*\b(?:spawn|start_processes|Process)\b",
    re.MULTILINE,
)
LIGHTNING = re.compile(r"^[ \t]*(?:from|import)[ \t]+(?:pytorch_)?lightning\b", re.MULTILINE)
HAS_RANKS = re.compile(
    r"\btorch\.distributed\b|\btorch\s+import\s+distributed\b|\binit_process_group\b|\bDistributedDataParallel\b"
    r"|\b(?:accelerate|transformers|deepspeed)\b"
)
COMMENT = re.compile(r"#.*")

TEXT = """\
# Written by `ddptui init`. Each trial launches your training and watches it; your script does not change.
# To run it, in this folder:  ddptui run {file}
# To see what it launches:    ddptui presets {file}
# A line that begins with # and no space is an example: remove the # and fill in your own values.

kind = "command"
title = {title}
baseline = "{as_it_is}"  # the trial that the others are compared with
repeats = {repeats}  # launches of each trial, each to its end: make the training short, or set `steps`

[defaults]  # for every trial
{why}command = {command}
#steps = 200  # end each launch after this many steps
#warmup_steps = 10  # leave the first 10 steps out of all figures; the default is 3

[[trial]]
name = "{as_it_is}"

# Environment variables, one trial for each list. The script reads them: os.environ["BUCKET_MB"].
#[matrix]
#env = [["BUCKET_MB=25"], ["BUCKET_MB=100"], ["BUCKET_MB=100", "NUM_WORKERS=4"]]

# Other arguments: use one that your script takes.
#[[trial]]
#name = "4-workers"
#command = {longer}

# A delay: rank 1 sleeps for 20 ms in every backward. Other places are data, forward and aggregate.
#[[trial]]
#name = "late-backward"
#bottleneck = [{{ at = "backward", ranks = [1], sleep_ms = 20 }}]
"""


def preset_of(
    command: tuple[str, ...],
    *,
    name: str | None,
    skip: int,
    steps: int | None,
    stall_s: float = 20.0,
    overrides: dict[str, Any],
) -> Preset:
    """The preset for a command. name: the trial's; None: the script's. skip: the number of warm-up steps. steps: the
    number of steps to watch after them; None: all. stall_s: seconds without a step until the ranks' positions are
    reported. Raises TrialError."""
    called = name or name_of(command)
    text = [*map(as_text, command)]
    trial = {"name": called, "command": text, "warmup_steps": skip, "stall_s": stall_s}
    trial |= {} if steps is None else {"steps": skip + steps}
    return parse(called, {"kind": "command", "title": shell_line(text), "trial": [trial]}, overrides)


def name_of(command: tuple[str, ...]) -> str:
    """The name of the script, module or program that a command runs, made valid as a folder's name."""
    scripts = [word for word in command if word.endswith(".py")]
    modules = [module for flag, module in pairwise(command) if flag == "-m"]
    chosen = next(iter([*scripts, *modules[-1:], *command[:1]]), "")
    plain = NOT_IN_NAME.sub("-", chosen.rstrip("/").rpartition("/")[2].removesuffix(".py")).lstrip("_.+-")
    return plain[:MOST_IN_NAME] or "command"


class Launchers(NamedTuple):
    """The programs that can launch a script on this machine. gpus: the number of GPUs; None if it is not known."""

    torchrun: tuple[str, ...]
    python: str
    gpus: int | None


class UserCommand(NamedTuple):
    """A command for a preset. why: the lines of comment that explain it in the preset."""

    command: tuple[str, ...]
    why: tuple[str, ...] = ()


def launched(script: str, arguments: tuple[str, ...], text: str, launchers: Launchers) -> UserCommand:
    """The command that launches a script, chosen from its text, and the comment that says why."""
    ranks = max(launchers.gpus or 0, FEWEST_RANKS)
    why_so_many = {
        None: f"{ranks} ranks: change this to the number of your GPUs.",
        0: f"{ranks} ranks on the CPU: there is no GPU here.",
        1: f"{ranks} ranks, but there is only one GPU here. If each rank needs its own, use --nproc_per_node=1.",
    }.get(launchers.gpus, f"{ranks} ranks, one for each GPU here.")
    run = (script, *arguments)
    by_torchrun = (*launchers.torchrun, "--standalone", f"--nproc_per_node={ranks}", *run)
    by_itself = (launchers.python, *run)
    code = COMMENT.sub("", text)
    if STARTS_RANKS.search(code):
        seems = f"{script} seems to start its ranks itself, with multiprocessing. If it does not, use:"
        return UserCommand(by_itself, (seems, f"command = {literal(by_torchrun)}"))
    if LIGHTNING.search(code):
        imports = f"{script} imports Lightning, which starts the ranks itself: its Trainer's `devices` sets how many."
        return UserCommand(by_itself, (imports,))
    if HAS_RANKS.search(code):
        return UserCommand(by_torchrun, (why_so_many,))
    lacks = f"{script} does not mention torch.distributed. If it trains in one process, use:"
    return UserCommand(by_torchrun, (why_so_many, lacks, f"command = {literal(by_itself)}"))


def file_name(name: str) -> str:
    """The file name of a preset with this name. Raises TrialError if no file can have it."""
    stem = name.removesuffix(".toml")
    if not TRIAL_NAME.fullmatch(stem):
        raise TrialError(f"--name {name}", NAME_RULE)
    return f"{stem}.toml"


def preset_text(file: str, launched: UserCommand) -> str:
    """The text of the preset file called `file`. Raises TrialError if TOML cannot represent the command."""
    table: dict[str, Any] = {"kind": "command", "trial": [{"command": [*launched.command]}]}
    parse(file, table, {})  # raises for what TOML cannot represent, such as a file name that is not UTF-8
    return TEXT.format(
        file=file,
        title=literal(f"Who waits for whom in {name_of(launched.command)}?"),
        as_it_is=AS_IT_IS,
        repeats=REPEATS,
        why="".join(f"# {printable(line)}\n" for line in launched.why),
        command=literal(launched.command),
        longer=literal((*launched.command, "--num-workers", "4")),
    )
