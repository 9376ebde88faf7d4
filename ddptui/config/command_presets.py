"""Presets of a training of the user's own: the command that is typed after `ddptui watch`; and the file that `ddptui
init` writes, TOML with examples to uncomment. Pure."""

import re
from itertools import pairwise
from typing import Any, NamedTuple

from ddptui.config.parser import MOST_IN_NAME, NAME_RULE, NOT_IN_NAME, TRIAL_NAME, parse
from ddptui.config.preset import Preset
from ddptui.config.trial import TrialError
from ddptui.config.trial_text import literal
from ddptui.text.argv import as_text, shell_line
from ddptui.text.words import printable

REPEATS = 3
FEWEST_RANKS = 2
AS_IT_IS = "as-it-is"  # the trial that the examples are compared with
# What a cheap look at a script finds. Names that are imported alone say nothing: many scripts never use them.
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
# Written by `ddptui init`. Each trial launches a training of yours, watched as it is: the script does not change.
# To run it, in this folder:  ddptui run {file}
# To see what it launches:    ddptui presets {file}
# A line that begins with # and no space is an example: remove the #, and put in values of your own.

kind = "command"
title = {title}
baseline = "{as_it_is}"  # the trial that the others are compared with
repeats = {repeats}  # launches of each trial, each to its end: make the training short, or give it `steps`

[defaults]  # of every trial
{why}command = {command}
#steps = 200  # end each launch after so many steps
#warmup_steps = 10  # leave so many of them out of every figure, instead of 3

[[trial]]
name = "{as_it_is}"

# Other variables of the environment, one trial for each list. The script reads them: os.environ["BUCKET_MB"].
#[matrix]
#env = [["BUCKET_MB=25"], ["BUCKET_MB=100"], ["BUCKET_MB=100", "NUM_WORKERS=4"]]

# Other arguments: write one that the script takes.
#[[trial]]
#name = "4-workers"
#command = {longer}

# A delay: rank 1 sleeps for 20 ms in every backward. It can also be at data, forward or aggregate.
#[[trial]]
#name = "late-backward"
#bottleneck = [{{ at = "backward", ranks = [1], sleep_ms = 20 }}]
"""


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


class Launchers(NamedTuple):
    """What can launch a script on this machine. gpus: how many it has; None: that is not known."""

    torchrun: tuple[str, ...]
    python: str
    gpus: int | None


class Launched(NamedTuple):
    """A command for a preset. why: what the preset says about it, in lines."""

    command: tuple[str, ...]
    why: tuple[str, ...] = ()


def launched(script: str, arguments: tuple[str, ...], text: str, launchers: Launchers) -> Launched:
    """The command that launches a script, from a look at its text; the preset says what was seen."""
    ranks = max(launchers.gpus or 0, FEWEST_RANKS)
    why_so_many = {
        None: f"{ranks} ranks: make it one for each GPU.",
        0: f"{ranks} ranks on the CPU: there is no GPU here.",
        1: f"{ranks} ranks, but there is one GPU here. If each rank needs its own: --nproc_per_node=1.",
    }.get(launchers.gpus, f"{ranks} ranks, one for each GPU here.")
    run = (script, *arguments)
    by_torchrun = (*launchers.torchrun, "--standalone", f"--nproc_per_node={ranks}", *run)
    by_itself = (launchers.python, *run)
    code = COMMENT.sub("", text)
    if STARTS_RANKS.search(code):
        seems = f"{script} seems to start its ranks itself, by multiprocessing. If it does not:"
        return Launched(by_itself, (seems, f"command = {literal(by_torchrun)}"))
    if LIGHTNING.search(code):
        imports = f"{script} imports Lightning, which starts the ranks itself: devices of its Trainer says how many."
        return Launched(by_itself, (imports,))
    if HAS_RANKS.search(code):
        return Launched(by_torchrun, (why_so_many,))
    lacks = f"{script} does not mention torch.distributed. If it trains in one process:"
    return Launched(by_torchrun, (why_so_many, lacks, f"command = {literal(by_itself)}"))


def file_name(name: str) -> str:
    """The file of a preset of this name. Raises TrialError if it cannot have it."""
    stem = name.removesuffix(".toml")
    if not TRIAL_NAME.fullmatch(stem):
        raise TrialError(f"--name {name}", NAME_RULE)
    return f"{stem}.toml"


def preset_text(file: str, launched: Launched) -> str:
    """The preset as text. file: its name. Raises TrialError if it cannot be written so that it reads back."""
    table: dict[str, Any] = {"kind": "command", "trial": [{"command": [*launched.command]}]}
    parse(file, table, {})  # refuses what no TOML can hold, such as a name that is not UTF-8
    return TEXT.format(
        file=file,
        title=literal(f"Who waits for whom in {name_of(launched.command)}?"),
        as_it_is=AS_IT_IS,
        repeats=REPEATS,
        why="".join(f"# {printable(line)}\n" for line in launched.why),
        command=literal(launched.command),
        longer=literal((*launched.command, "--num-workers", "4")),
    )
