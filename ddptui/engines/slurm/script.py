"""The batch script of a run's job, as a user would write it by hand: each of its tasks is a node that joins the run."""

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from ddptui.config.engine import OF_SBATCH, EngineOptions
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.engines.join.engine import TICKET, parts_of
from ddptui.engines.slurm.keeper import SlurmError
from ddptui.host.folders import python_path

SCRIPT, LOG = "job.sh", "job.log"  # files in the run's folder
PREFIX = f"{TICKET}-"  # of the ticket of a job
OURS = {
    "--array": "-a", "--chdir": "-D", "--clusters": "-M", "--error": "-e", "--job-name": "-J", "--nodes": "-N",
    "--ntasks": "-n", "--ntasks-per-node": "", "--open-mode": "", "--output": "-o", "--parsable": "", "--requeue": "",
    "--test-only": "", "--wait": "-W", "--wrap": "",
}  # fmt: skip


def nodes_needed(trials: Iterable[Trial], nodes: int) -> int:
    """The nodes of the job: as many as the largest trial takes."""
    return max(len(parts_of(trial, nodes)) for trial in trials)


def sbatch_options(trials: Iterable[Trial], engine: EngineOptions, folder: Path, name: str) -> list[str]:
    """The options of sbatch for a job of this name. `folder`: the run's. Raises SlurmError."""
    if not str(folder).isprintable() or "\\" in str(folder):  # Slurm takes a backslash out of the path of a log
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
        f"--output={str(folder / LOG).replace('%', '%%')}",  # %j and the like stand for values
        "--open-mode=append",
        "--no-requeue",
    ]


def _cores(trial: Trial, nodes: int) -> int:
    """How many cores of a node a trial uses."""
    ranks = trial.world_size if trial.launch in ONE_PROCESS else len(parts_of(trial, nodes)[0].ranks)
    return ranks * (trial.threads or 1)


def render(options: Iterable[str], ticket: Path, python: str = sys.executable) -> str:
    """The script of the job with these options of sbatch. `ticket`: the file with which its nodes join."""
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
    """The script of a run of these trials, with placeholders for the run. Raises SlurmError."""
    folder = Path("/RUNS/RUN")
    return render(sbatch_options(trials, engine, folder, "ddptui-RUN-TOKEN"), folder / f"{PREFIX}TOKEN", "python")


def engine_options(engine: EngineOptions) -> list[str]:
    """What a user has chosen, as sbatch reads it. Raises SlurmError."""
    chosen = [f"--{key}={value}" for key in OF_SBATCH if (value := getattr(engine, key)) is not None]
    return chosen + [word for option in engine.options for word in _words(option)]


def _words(option: str) -> list[str]:
    """A further option of sbatch, as words of its command line. Raises SlurmError."""
    try:
        words = shlex.split(option)
    except ValueError:
        raise SlurmError(f"option {option!r}: a quote is not closed") from None
    if not words or not words[0].startswith("-") or words[0].strip("-") == "" or "--" in words:
        raise SlurmError(f"option {option!r} is none of sbatch's, which begin with - or --")
    for name, letter in OURS.items():
        if any(word.partition("=")[0] == name or (letter and word.startswith(letter)) for word in words):
            raise SlurmError(f"option {option!r}: ddptui sets {name} itself, from its own --nodes")
    return words
