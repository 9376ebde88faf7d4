"""What every rank has, however it was launched: its number, its device, its end of the wire, its log."""

import os
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial, TrialError, threads_per_rank
from ddptui.config.trial_text import from_arguments
from ddptui.host.machine import available_cores, own_clock
from ddptui.wire.connection import HUB, LOGS, TOKEN
from ddptui.wire.messages import VERSION, Failed, Hello, Position
from workers.instruments.reporter import Reporter
from workers.rank import guard, network
from workers.rank.delays import Delays, RankDelays
from workers.rank.device import DeviceChoice, choose_backend, choose_device, describe


@dataclass
class Rank:
    trial: Trial
    rank: int
    world_size: int  # of the process group; 1 where there is none
    device: torch.device
    reporter: Reporter
    delays: Delays
    start_ns: int = 0  # from its Hello until it was about to meet the others
    shares_gpu: bool = False  # with other ranks of this host


def read_trial(arguments: list[str]) -> Trial:
    """The trial that the command line spells. Ends the process with one line when it is wrong."""
    try:
        return from_arguments(arguments)
    except TrialError as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}")


def pin_threads(trial: Trial, here: range) -> int:
    """Give this rank its part of the host's cores, whatever the launcher would have given it."""
    threads = threads_per_rank(trial, available_cores(), len(here))
    torch.set_num_threads(threads)
    return threads


@contextmanager
def rank_process(trial: Trial, rank: int, here: range, *, has_parent: bool = True) -> Iterator[Rank]:
    """The frame around a rank's life: guarded, logged, announced; delayed at the start if the trial says so.

    `here`: the ranks of this host, which share its cores and GPUs. `has_parent`: a launcher started this rank and it
    must not outlive it.
    """
    network.enter(rank)
    if has_parent:
        guard.die_with_parent()
    guard.die_with_console()  # once more, since threads do not survive a fork
    log_to_file(rank)
    if trial.sched_batch:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # now, so that gloo's threads inherit it
    threads = pin_threads(trial, here)
    reporter = Reporter(rank, heartbeat=trial.instruments == "on")
    try:
        device, _, shared = placed(trial, rank, here, threads, reporter)
        delays = RankDelays(trial.bottleneck, rank, seed=trial.seed, warmup_steps=trial.warmup_steps, device=device)
        begin = time.monotonic_ns()
        reporter.position = lambda: Position(asleep=delays.asleep)
        delays.start()
        yield Rank(trial, rank, trial.world_size, device, reporter, delays, time.monotonic_ns() - begin, shared)
    except BaseException as error:
        traceback.print_exc()
        reporter.send(Failed(rank=rank, at_ns=time.monotonic_ns(), error=f"{type(error).__name__}: {error}"))
        raise
    finally:
        reporter.close()
        sys.stdout.flush()
        sys.stderr.flush()


def placed(trial: Trial, rank: int, here: range, threads: int, reporter: Reporter) -> DeviceChoice:
    """Choose the rank's device and say Hello: in any case, since who has not is not heard when it says what failed."""
    try:
        chosen = choose_device(trial, rank, here)
        words = hello(trial, rank, chosen, threads)
    except RuntimeError:
        reporter.send(hello(trial, rank, None, threads))
        raise
    reporter.send(words)
    reporter.set_device(chosen.device)
    return chosen


def hello(trial: Trial, rank: int, chosen: DeviceChoice | None, threads: int) -> Hello:
    """chosen: none where there is no device to be had. Raises RuntimeError for a group that cannot be."""
    backend, backend_why = None, ""
    if chosen and trial.launch not in ONE_PROCESS:
        backend, backend_why = choose_backend(trial, chosen.device, chosen.shared)
    return Hello(
        version=VERSION,
        token=os.environ.get(TOKEN, ""),
        rank=rank,
        world_size=trial.world_size,
        at_ns=time.monotonic_ns(),
        host=socket.gethostname(),
        pid=os.getpid(),
        device=describe(trial, chosen.device) if chosen else "none",
        device_why=chosen.why if chosen else "",
        threads=threads,
        torch=str(torch.__version__),
        backend=backend,
        backend_why=backend_why,
        clock=own_clock(),
    )


def log_to_file(rank: int) -> None:
    """Send this process's output, that of native code too, to rank-R.log in the folder that the console named."""
    if HUB not in os.environ:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(Path(os.environ[LOGS]) / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
