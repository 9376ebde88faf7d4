"""The interfaces of engines and launches; the command line and environment that start the ranks of a trial."""

import os
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import psutil

from ddptui.config.catalog import LAUNCH_MODES
from ddptui.config.preset import NodeRanks, links_of
from ddptui.config.trial import StartKind, Trial, threads_per_rank
from ddptui.config.values import to_arguments
from ddptui.engines.local import links
from ddptui.engines.rank_server import RankServer
from ddptui.host.folders import python_path
from ddptui.host.machine import steadying
from ddptui.store.journal import RepeatJournal
from ddptui.wire.messages import Hello
from ddptui.wire.relay_file import Event

LAUNCHER_LOG = "launcher.log"  # in the folder of a repeat: the output of its launcher, or of a watched command
ELSEWHERE = "elsewhere"  # the status of a process on another host
REMOTE_SILENCE_S = "30"  # ranks on other hosts end if they receive nothing from the console for this long


class LaunchRefused(OSError):
    """The engine cannot start this launch. The message is one line that says why."""


class Launch(Protocol):
    """One launch. Its processes may start later and on other hosts: a job may be queued, a node may not have joined."""

    start: StartKind = "cold"  # warm: its ranks were forked from a process that has imported torch
    start_why: str = ""  # why the start is cold although the trial does not ask for a cold start
    ends_with_ranks: bool = False  # whether the launch has no process whose end the console could wait for

    # The defaults below suit a launch on other hosts, where the console cannot check processes.

    @property
    def exit_code(self) -> int | None:
        """The exit code; minus the signal number if a signal ended the launch; None while it runs."""

    @property
    def is_waiting(self) -> bool:
        """Queued or waiting for nodes; no ranks expected yet."""
        return False

    def take_notices(self) -> list[str]:
        """New notices since the last call, such as what the launch waits for. It is called often, so it must be
        fast."""
        return []

    def take_events(self) -> list[Event]:
        """New events of processes of a watched command that no relay knows."""
        return []

    def end_reason(self) -> str | None:
        """Why the launch ended, if the engine knows more than the ranks: a time limit, a lost node."""
        return None

    def add_rank(self, hello: Hello) -> None:
        """Registers a rank that has connected to the console."""
        return None

    def processes(self) -> list[psutil.Process]:
        """The processes of the launch on this host."""
        return []

    def process_status(self, hello: Hello) -> str | None:
        """The status of a rank's process, as psutil names it, or ELSEWHERE; None: the process has ended."""
        return ELSEWHERE

    def helpers_work(self, hello: Hello) -> bool:
        """Whether a process that the rank started is busy, such as a compiler. Slow: it walks the process tree."""
        return False

    def stop(self) -> None:
        """Ends every process of the launch, on all hosts, and waits until all have ended."""


class Engine(Protocol):
    """Starts the launches of one run, one after another."""

    is_local: bool = False  # whether the ranks are processes of this host

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        """The command that starts the launch, as it is recorded and shown."""

    def environment(self, trial: Trial) -> dict[str, str]:
        """The environment variables that the command needs to run without a console."""

    def open_hub(self, world_size: int) -> RankServer:
        """The hub to which the ranks of the next launch connect. Raises OSError."""

    def is_ready(self, trial: Trial, timeout_s: float) -> bool:
        """Whether `start` would not have to wait. Waits until it does not, at most timeout_s."""
        return True

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: RankServer) -> Launch:
        """Starts a launch. Raises OSError, and LaunchRefused."""

    def close(self) -> str | None:
        """Releases the engine's resources after the last launch. If a job may still be running, returns a sentence that
        says why, and how to cancel it; else None."""
        return None


def rank_command(trial: Trial, python: str = sys.executable, part: NodeRanks | None = None) -> list[str]:
    """The exact command line that starts a trial, or one node's part of it. See `rank_environment`, too."""
    part = part or links.part(trial)
    rendered = [python, *_launcher(trial, part), "-m", f"workers.{trial.launch}", *rank_arguments(trial)]
    return links.wrapped(rendered, links_of(trial))


def rank_arguments(trial: Trial) -> list[str]:
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
    return [  # unlike the other entry points, torch's launcher ignores the variables of NodeRanks.environment
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


def rank_environment(trial: Trial, cores: int, ranks_here: int | None = None) -> dict[str, str]:
    """The environment variables by which a rank finds ddptui's modules and uses its share of the cores."""
    threads = threads_per_rank(trial, cores, ranks_here)
    return {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": str(threads), **steadying(os.environ)}
