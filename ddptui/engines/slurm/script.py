"""The batch script of a job, as a user would write it by hand. Each task reads from wire.env beside it, which only the
user can read, where the console is: its address and keys are in no environment that Slurm distributes."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from ddptui.config.engine import OF_SBATCH, EngineOptions, spread
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.engines import command
from ddptui.engines.base import LAUNCHER_LOG
from ddptui.engines.command import arguments, torch_launcher
from ddptui.engines.slurm.keeper import WIRE_ENV
from ddptui.host import launchers
from ddptui.host.network import FIRST_PORT, PORTS

ENDED = "ended"  # the file where the script leaves its exit code; an array a line for each of its jobs
OURS = (
    "array", "chdir", "clusters", "distribution", "error", "job-name", "nodes", "ntasks", "ntasks-per-node",
    "open-mode", "output", "parsable", "requeue", "test-only", "wait", "wrap",
)  # fmt: skip
OURS_IN_SHORT = {"a": "array", "D": "chdir", "M": "clusters", "m": "distribution", "e": "error", "J": "job-name",
                 "N": "nodes", "n": "ntasks", "o": "output", "W": "wait"}  # fmt: skip
FLAGS = "HhOQsVv"  # sbatch's short options without a value: the next letter of the word is an option, too
WHAT_A_TASK_IS = {
    "rank": "A task of Slurm is a rank.",
    "node": "A task of Slurm is a node, which starts its ranks itself.",
    "array": "A rank is a job of an array, and they meet by themselves, at a file.",
}


class ScriptError(ValueError):
    """A value that cannot be written into a script. One line."""


def render(trial: Trial, engine: EngineOptions, folder: Path, name: str, python: str = sys.executable) -> str:
    """The script of one launch. `folder` is the launch's, where the job runs; `name` the job's. Raises ScriptError."""
    what = "One process, started directly." if trial.launch in ONE_PROCESS else WHAT_A_TASK_IS[engine.tasks]
    # what the script sets itself, a task inherits; the user's variables of these names it must not
    set_by_script = {"INIT_METHOD"} if meets_at_a_file(trial, engine) else set()
    if _task_is_node(trial, engine):
        set_by_script |= {"MASTER_ADDR", "MASTER_PORT"}
    strangers = [name for name in launchers.NAMES if name not in set_by_script]
    strangers += [f"${{!{prefix}@}}" for prefix in launchers.PREFIXES]  # bash: all names that begin so
    lines = [
        "#!/bin/bash",
        f"# Trial {trial.name}: {trial.world_size} {'rank' if trial.world_size == 1 else 'ranks'}. {what}",
        "",
        *(f"#SBATCH {option}" for option in _options(trial, engine, folder, name)),
        "",
        "set -euo pipefail",
        f"trap 'echo \"$?\" >> {ENDED}' EXIT  # so that the console need not ask Slurm all the time",
        f"[ -e {WIRE_ENV} ] || {{ echo 'the console is gone: nothing is started' >&2; exit 1; }}",
        *_meeting(trial, engine, folder, name),
        "",
        "# What each task does. wire.env holds the console's address and the launch's token.",
        "task() {",
        "    # Slurm alone says where this is",
        f"    unset {' '.join(strangers)}",
        f"    source ./{WIRE_ENV} || exit 1",
        *(f"    {line}" for line in _task(trial, engine, python)),
        "}",
        "export -f task",
        "",
        "# --kill-on-bad-exit: a failed task ends the others, which wait for it. --wait=0: one that succeeds does not.",
        "srun --export=ALL --kill-on-bad-exit=1 --wait=0 bash -c task",
    ]
    return "\n".join(lines) + "\n"


def example(trial: Trial, engine: EngineOptions) -> str:
    """The script of a launch, with placeholders for the run. Raises ScriptError."""
    return render(trial, engine, Path(f"/RUNS/RUN/trial-{trial.name}/repeat-1"), job_name("RUN", trial, 1), "python")


def job_name(run: str, trial: Trial, repeat: int) -> str:
    """The name of a job, which says its run, trial and repeat."""
    return f"ddptui-{run}-{trial.name}-{repeat}"


def check_options(engine: EngineOptions) -> None:
    """Raises ScriptError for values that no script can hold, and for options that ddptui sets itself."""
    for key in OF_SBATCH:
        _spelled(getattr(engine, key) or "-")
    for option in engine.options:
        _as_typed(option)


def wire_env(variables: Mapping[str, str]) -> str:
    """The contents of wire.env."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def meeting(engine: EngineOptions, folder: Path, name: str) -> Path:
    """The file at which ranks without an address meet: a new one for each launch, in a folder that all nodes see."""
    return Path(engine.shared) / f"{name}.meeting" if engine.shared else folder / "meeting"


def meets_at_a_file(trial: Trial, engine: EngineOptions) -> bool:
    """Whether the ranks meet at a file; the others at an address."""
    return trial.launch not in ONE_PROCESS and (engine.tasks == "array" or trial.init_method == "file")


def _task_is_node(trial: Trial, engine: EngineOptions) -> bool:
    return trial.launch not in ONE_PROCESS and engine.tasks == "node"


def _options(trial: Trial, engine: EngineOptions, folder: Path, name: str) -> Iterator[str]:
    yield f"--job-name={_spelled(name)}"
    yield from _size(trial, engine)
    for key in OF_SBATCH:
        if (value := getattr(engine, key)) is not None:
            yield f"--{key}={_spelled(value)}"
    yield f"--chdir={_spelled(str(folder))}"
    yield f"--output={_spelled(str(folder / LAUNCHER_LOG).replace('%', '%%'))}"  # %j and the like stand for values
    yield "--open-mode=append"  # the keeper writes into the same file
    yield "--no-requeue"  # a launch begins once
    for option in engine.options:
        yield _as_typed(option)


def _size(trial: Trial, engine: EngineOptions) -> Iterator[str]:
    """The numbers of nodes, tasks, and cores a task. Nodes have blocks of ranks; the larger blocks come first."""
    threads = trial.threads or 1
    cores = threads
    if trial.launch in ONE_PROCESS:
        yield from ("--nodes=1", "--ntasks=1")
        cores = threads * trial.world_size
    elif engine.tasks == "array":
        yield from (f"--array=0-{trial.world_size - 1}", "--nodes=1", "--ntasks=1")
    else:
        blocks = spread(trial.world_size, engine.nodes)
        yield f"--nodes={len(blocks)}"
        if engine.tasks == "node":
            yield from (f"--ntasks={len(blocks)}", "--ntasks-per-node=1")
            cores = threads * len(blocks[0])
        else:
            yield f"--ntasks={trial.world_size}"
            if len(blocks[0]) == len(blocks[-1]):
                yield f"--ntasks-per-node={len(blocks[0])}"
            yield "--distribution=block"  # successive ranks share a node
    if cores > 1:
        yield f"--cpus-per-task={cores}"


def _meeting(trial: Trial, engine: EngineOptions, folder: Path, name: str) -> Iterator[str]:
    """The variables with which the tasks find each other, and their cores."""
    if any(option.startswith(("--cpus-per-task", "-c")) for option in (*_size(trial, engine), *engine.options)):
        yield "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK  # srun no longer inherits it"
    if meets_at_a_file(trial, engine):
        path = meeting(engine, folder, name)
        if any(sign in str(path) for sign in "?#"):  # torch would read what follows as a query or a fragment
            raise ScriptError(f"{path}: ranks cannot meet at a file with ? or # in its path: choose another folder")
        yield f"export INIT_METHOD={shlex.quote(f'file://{path}')}"
    if _task_is_node(trial, engine):
        yield 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)'
        yield f"MASTER_PORT=$(({FIRST_PORT} + SLURM_JOB_ID % {PORTS}))"
        yield "export MASTER_ADDR MASTER_PORT"  # apart: `export A=$(…)` would hide a failure from set -e


def _task(trial: Trial, engine: EngineOptions, python: str) -> Iterator[str]:
    """The lines that start a task's rank, or a node's ranks."""
    if not _task_is_node(trial, engine):
        yield f"exec {shlex.join(command.command(trial, python))}"  # exec: signals reach Python, not a shell
    elif trial.launch != "launch":
        yield "export NNODES=$SLURM_JOB_NUM_NODES NODE_RANK=$SLURM_NODEID"
        yield f"exec {shlex.join(command.command(trial, python))}"
    else:  # one launcher a node
        blocks = spread(trial.world_size, engine.nodes)
        most, least = len(blocks[0]), len(blocks[-1])
        larger = sum(len(block) == most for block in blocks)
        # where the blocks are uneven, the first nodes have a rank more
        ranks = str(most) if most == least else f"$((SLURM_NODEID < {larger} ? {most} : {least}))"
        yield f"exec {shlex.join([python, '-m', torch_launcher()])} \\"
        yield f"    --nnodes={len(blocks)} --node_rank=$SLURM_NODEID --nproc_per_node={ranks} \\"
        yield "    --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT \\"
        yield f"    {shlex.join(['-m', 'workers.launch', *arguments(trial)])}"


def _spelled(value: str) -> str:
    """A value, quoted as sbatch reads it. Raises ScriptError."""
    if not value.isprintable():
        raise ScriptError(f"{value!r} cannot be written into a script: it contains an unprintable character")
    if "\\" in value:
        raise ScriptError(f"{value!r} cannot be written into a script: sbatch interprets the backslash")
    plain = all(char.isalnum() or char in "/._-+:=,@%[]()*" for char in value)
    return value if plain and value else '"' + value.replace('"', '\\"') + '"'


def _as_typed(option: str) -> str:
    """A further option of sbatch. Raises ScriptError if it is none, or one that ddptui sets itself."""
    try:
        words = shlex.split(option)
    except ValueError:
        raise ScriptError(f"option {option!r}: a quote is not closed") from None
    if not words or not words[0].startswith("-") or words[0].strip("-") == "" or "--" in words:
        raise ScriptError(f"option {option!r} is none of sbatch's, which begin with - or --")
    if any(word.startswith("#") for word in words) or not option.isprintable():  # sbatch takes # for a comment
        raise ScriptError(f"option {option!r} cannot be written into a script")
    if name := next(filter(None, map(_ours, words)), None):
        raise ScriptError(f"option {option!r}: ddptui sets --{name} itself, from its own --nodes and --tasks")
    return option


def _ours(word: str) -> str | None:
    """The option of ddptui's own that a word would set."""
    if word.startswith("--"):
        given = word[2:].partition("=")[0]
        # sbatch accepts abbreviated long options
        return given if given in OURS else next((name for name in OURS if given and name.startswith(given)), None)
    letters = word[1:] if word.startswith("-") else ""  # several short options may share a word
    last = next((letter for letter in letters if letter not in FLAGS), "")  # what follows it is its value
    return OURS_IN_SHORT.get(last)
