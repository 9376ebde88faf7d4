"""Whether this host can submit what an engine asks for: said before anything is started."""

import shlex
import shutil
from typing import NamedTuple

from ddptui.config.engine import EngineOptions
from ddptui.config.parser import PresetError
from ddptui.engines.slurm.keeper import SlurmError, run
from ddptui.engines.slurm.script import ScriptError, check_options
from ddptui.text.words import did_you_mean

COMMANDS = ("sbatch", "squeue", "scancel", "sinfo")
ENOUGH_S = 20.0  # Slurm's own patience with a controller that does not answer is 10 s or so
NOT_NOW = "allocation failure"  # nodes that are down for now: the job would wait


class Partition(NamedTuple):
    name: str
    nodes: int
    is_default: bool


def check(engine: EngineOptions) -> None:
    """Raises PresetError."""
    try:
        check_options(engine)
        if missing := [command for command in COMMANDS if shutil.which(command) is None]:
            raise SlurmError(
                f"{missing[0]} is not on PATH: run this where jobs are submitted, a cluster's login node "
                "(on Debian the package slurm-client has it)"
            )
        _check_partitions(
            engine, read_partitions(run("sinfo", "--all", "--noheader", "--format=%P|%D", within_s=ENOUGH_S))
        )
        _ask_for_a_test(engine)
    except (SlurmError, ScriptError) as error:
        raise PresetError(f"--engine slurm: {error}") from None


def read_partitions(printed: str) -> list[Partition]:
    """sinfo --format=%P|%D; the default partition has a star."""
    rows = [line.strip().split("|") for line in printed.splitlines()]
    return [
        Partition(name.rstrip("*"), int(nodes), name.endswith("*"))
        for name, nodes in (row for row in rows if len(row) == 2)
    ]


def _check_partitions(engine: EngineOptions, there: list[Partition]) -> None:
    """One that exists, and has so many nodes. (sbatch would take the job, and it would wait for ever.)"""
    known = sorted({partition.name for partition in there})
    wanted = engine.partition.split(",") if engine.partition else [each.name for each in there if each.is_default]
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known, f"there are {', '.join(known) or 'none'}")
            raise SlurmError(f"no partition {name!r}; {hint}")
    if not wanted:
        raise SlurmError(f"there is no default partition: choose one with --partition: {', '.join(known) or 'none'}")
    most = max(sum(each.nodes for each in there if each.name == name) for name in wanted)
    if engine.nodes > most and engine.tasks != "array":
        which = f"partition {wanted[0]} has" if len(wanted) == 1 else f"partitions {', '.join(wanted)} have at most"
        raise SlurmError(f"{engine.nodes} nodes, and {which} {most}: --nodes {most}")


def _ask_for_a_test(engine: EngineOptions) -> None:
    """sbatch itself says what it would refuse: an option, an account, a resource that no node has."""
    keys = {"partition": engine.partition, "account": engine.account, "gres": engine.gres, "time": engine.time}
    said = [f"--{key}={value}" for key, value in keys.items() if value is not None]
    options = [word for option in engine.options for word in shlex.split(option)]
    try:
        run("sbatch", "--test-only", "--nodes=1", "--ntasks=1", *said, *options, "--wrap=true", within_s=ENOUGH_S)
    except SlurmError as error:
        if NOT_NOW not in str(error):
            raise
