"""Renders the batch script of a run's job. Each of its tasks is a node that joins the run."""

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.preset import OF_SBATCH, EngineOptions
from ddptui.config.trial import Trial
from ddptui.engines.join.engine import TICKET, parts_of
from ddptui.engines.slurm.keeper import SlurmError
from ddptui.host.folders import python_path

SCRIPT, LOG = "job.sh", "job.log"  # files in the run's folder
PREFIX = f"{TICKET}-"  # prefix of the file name of a job's ticket
OURS = {
    "--array": "-a", "--chdir": "-D", "--clusters": "-M", "--error": "-e", "--job-name": "-J", "--nodes": "-N",
    "--ntasks": "-n", "--ntasks-per-node": "", "--open-mode": "", "--output": "-o", "--parsable": "", "--requeue": "",
    "--test-only": "", "--wait": "-W", "--wrap": "",
}  # fmt: skip


def nodes_needed(trials: Iterable[Trial], nodes: int) -> int:
    """The number of nodes that the largest trial needs."""
    return max(len(parts_of(trial, nodes)) for trial in trials)


def sbatch_options(trials: Iterable[Trial], engine: EngineOptions, folder: Path, name: str) -> list[str]:
    """The options of sbatch for a job with this name. folder: the run's folder. Raises SlurmError."""
    if not str(folder).isprintable() or "\\" in str(folder):  # Slurm removes backslashes from the path of a log
        raise SlurmError(f"{str(folder)!r} has a backslash or an unprintable character: name another one with --runs")
    trials = [*trials]
    nodes = nodes_needed(trials, engine.nodes)
    return [
        f"--cpus-per-task={max(_cores(trial, nodes) for trial in trials)}",
        *engine_options(engine),
        f"--job-name={name}",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        f"--chdir={folder}",
        f"--output={str(folder / LOG).replace('%', '%%')}",  # Slurm would replace %j and the like
        "--open-mode=append",
        "--no-requeue",
    ]


def _cores(trial: Trial, nodes: int) -> int:
    """The number of cores that a trial uses on a node."""
    ranks = trial.world_size if trial.launch in ONE_PROCESS else len(parts_of(trial, nodes)[0].ranks)
    return ranks * (trial.threads or 1)


def render(options: Iterable[str], ticket: Path, python: str = sys.executable) -> str:
    """The script of a job with these options of sbatch. ticket: the file with the ticket by which its nodes join."""
    join = [python, "-P", "-m", "ddptui", "join", "--as", "slurm", str(ticket)]
    lines = [
        "#!/bin/bash",
        "# The job of a run. Each of its tasks is a node, which starts the ranks of launch after launch.",
        "",
        *(f"#SBATCH {shlex.quote(option)}" for option in options),
        "",
        f"export PYTHONPATH={shlex.quote(python_path())}",
        "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK  # srun no longer inherits it",
        "# --kill-on-bad-exit: without one of its nodes, the job is of no use. --wait=0: they need not end together.",
        f"exec srun --export=ALL --kill-on-bad-exit=1 --wait=0 {shlex.join(join)}",
    ]
    return "\n".join(lines) + "\n"


def example(trials: Iterable[Trial], engine: EngineOptions) -> str:
    """The script for a run of these trials, with placeholders for the run's folder. Raises SlurmError."""
    folder = Path("/RUNS/RUN")
    return render(sbatch_options(trials, engine, folder, "ddptui-RUN-TOKEN"), folder / f"{PREFIX}TOKEN", "python")


def engine_options(engine: EngineOptions) -> list[str]:
    """The user's options, in the form of sbatch. Raises SlurmError."""
    chosen = [f"--{key}={value}" for key in OF_SBATCH if (value := getattr(engine, key)) is not None]
    return chosen + [word for option in engine.options for word in _words(option)]


def _words(option: str) -> list[str]:
    """An additional option of sbatch, split into words of a command line. Raises SlurmError."""
    try:
        words = shlex.split(option)
    except ValueError:
        raise SlurmError(f"option {option!r}: a quote is not closed") from None
    if not words or not words[0].startswith("-") or words[0].strip("-") == "" or "--" in words:
        raise SlurmError(f"option {option!r} is not an option of sbatch, which begins with - or --")
    for name, letter in OURS.items():
        if any(word.partition("=")[0] == name or (letter and word.startswith(letter)) for word in words):
            raise SlurmError(f"option {option!r}: ddptui sets {name} itself, from its own --nodes")
    return words
