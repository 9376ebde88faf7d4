"""Checks, before anything starts, whether this host can submit the jobs of a run."""

import shlex
import shutil
from typing import NamedTuple

from ddptui.config.engine import OF_SBATCH, EngineOptions
from ddptui.config.parser import PresetError
from ddptui.engines.slurm.keeper import SlurmError, run
from ddptui.engines.slurm.script import ScriptError, check_options
from ddptui.text.words import did_you_mean

COMMANDS = ("sbatch", "squeue", "scancel", "sinfo")
ANSWER_S = 20.0  # Slurm's commands give up on a silent controller after about 10 s
NOT_NOW = "allocation failure"  # the nodes are down for now: the job would wait


class Partition(NamedTuple):
    """A partition, and its number of nodes of one kind."""

    name: str
    nodes: int
    is_default: bool


def check(engine: EngineOptions) -> None:
    """Raises PresetError if Slurm is missing, or would refuse the job."""
    try:
        check_options(engine)
        if missing := [command for command in COMMANDS if shutil.which(command) is None]:
            where = "run this on a host that submits jobs, such as a cluster's login node"
            raise SlurmError(f"{missing[0]} is not on PATH: {where} (on Debian, the package slurm-client has it)")
        # --all: partitions that are hidden from this user by default can be used, too
        printed = run("sinfo", "--all", "--noheader", "--format=%P|%D", within_s=ANSWER_S)
        _check_partitions(engine, read_partitions(printed))
        _test_submission(engine)
    except (SlurmError, ScriptError) as error:
        raise PresetError(f"--engine slurm: {error}") from None


def read_partitions(printed: str) -> list[Partition]:
    """Reads the output of `sinfo --format=%P|%D`, a line for each kind of node. The default partition has a star."""
    rows = [line.strip().split("|") for line in printed.splitlines()]
    pairs = [row for row in rows if len(row) == 2]
    return [Partition(name.rstrip("*"), int(nodes), name.endswith("*")) for name, nodes in pairs]


def _check_partitions(engine: EngineOptions, partitions: list[Partition]) -> None:
    """Raises SlurmError unless the partition exists and has the nodes. sbatch would accept a job that never starts."""
    known = sorted({partition.name for partition in partitions})
    wanted = engine.partition.split(",") if engine.partition else [one.name for one in partitions if one.is_default]
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known, f"the partitions are: {', '.join(known) or 'none'}")
            raise SlurmError(f"no partition {name!r}; {hint}")
    if not wanted:
        raise SlurmError(f"there is no default partition: choose one with --partition: {', '.join(known) or 'none'}")
    most = max(sum(one.nodes for one in partitions if one.name == name) for name in wanted)
    if engine.nodes > most and engine.tasks != "array":  # jobs of an array need no nodes at the same time
        which = f"partition {wanted[0]} has" if len(wanted) == 1 else f"partitions {', '.join(wanted)} have at most"
        raise SlurmError(f"{engine.nodes} nodes were requested, but {which} {most}: at most --nodes {most}")


def _test_submission(engine: EngineOptions) -> None:
    """Raises SlurmError if `sbatch --test-only` refuses an option, an account, or a resource that no node has."""
    arguments = [f"--{key}={value}" for key in OF_SBATCH if (value := getattr(engine, key)) is not None]
    options = [word for option in engine.options for word in shlex.split(option)]
    try:
        run("sbatch", "--test-only", "--nodes=1", "--ntasks=1", *arguments, *options, "--wrap=true", within_s=ANSWER_S)
    except SlurmError as error:
        if NOT_NOW not in str(error):  # the only refusal that may pass with time
            raise
