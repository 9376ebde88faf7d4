"""The command line and the environment that start the ranks of a trial, for each launch mode."""

import os
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from ddptui.config.catalog import LAUNCH_MODES
from ddptui.config.preset import NodeRanks, links_of
from ddptui.config.trial import Trial, threads_per_rank
from ddptui.config.values import to_arguments
from ddptui.engines.local import links
from ddptui.host.folders import python_path
from ddptui.host.machine import steadying


def command(trial: Trial, python: str = sys.executable, part: NodeRanks | None = None) -> list[str]:
    """The exact command line that starts a trial, or one node's part of it. `environment` returns its variables."""
    part = part or links.part(trial)
    rendered = [python, *_launcher(trial, part), "-m", f"workers.{trial.launch}", *arguments(trial)]
    return links.wrapped(rendered, links_of(trial))


def arguments(trial: Trial) -> list[str]:
    """The trial as `key=value` arguments, without fields that have their defaults or that the command implies."""
    left_out = {"launch", "start"} | ({"world_size"} if LAUNCH_MODES[trial.launch].passes_ranks else set())
    return [argument for argument in to_arguments(trial) if argument.partition("=")[0] not in left_out]


def _launcher(trial: Trial, part: NodeRanks | None) -> Iterable[str]:
    """torch's launcher and its options; empty if the entry point starts the ranks itself."""
    if not LAUNCH_MODES[trial.launch].by_torch:
        return []
    launcher = ["-m", torch_launcher()]
    if part is None:  # --standalone: one host, any free port
        return [*launcher, "--standalone", f"--nproc_per_node={trial.world_size}"]
    return [  # unlike the other entry points, torch's launcher ignores the variables of Part.environment
        *launcher,
        f"--nnodes={part.nodes}",
        f"--node_rank={part.node}",
        f"--nproc_per_node={len(part.ranks)}",
        f"--master_addr={part.address}",
        f"--master_port={part.port}",
    ]


def torch_launcher() -> str:
    """The module of torch's launcher: torch.distributed.launch, or torch.distributed.run if this torch no longer has
    the former. Imports neither."""
    torch = find_spec("torch")
    gone = torch is not None and torch.origin and not (Path(torch.origin).parent / "distributed/launch.py").exists()
    return "torch.distributed.run" if gone else "torch.distributed.launch"


def environment(trial: Trial, cores: int, ranks_here: int | None = None) -> dict[str, str]:
    """The environment variables by which a rank finds ddptui's modules and uses its share of the cores."""
    threads = threads_per_rank(trial, cores, ranks_here)
    return {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": str(threads), **steadying(os.environ)}
