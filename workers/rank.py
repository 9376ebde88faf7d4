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

from ddptui.clock_identity import own_clock
from ddptui.preset import Trial, TrialError, available_cores, from_arguments, threads_a_rank
from ddptui.wire import HUB, LOGS, TOKEN, VERSION, Failed, Hello, Position
from workers import guard, link
from workers.bottleneck import Delays, Sites
from workers.reporter import Reporter


@dataclass
class Rank:
    trial: Trial
    rank: int
    world_size: int  # of the process group; 1 where there is none
    device: torch.device
    reporter: Reporter
    delays: Sites
    start_ns: int = 0  # from its Hello until it was about to meet the others


def read_trial(arguments: list[str]) -> Trial:
    """The trial that the command line spells. Ends the process with one line when it is wrong."""
    try:
        return from_arguments(arguments)
    except TrialError as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}")


def choose_backend(trial: Trial, device: torch.device) -> tuple[str, str]:
    """The process group's backend, and why."""
    if trial.backend != "auto":
        return trial.backend, "the trial says so"
    return ("nccl", "the ranks are on GPUs") if device.type == "cuda" else ("gloo", "the ranks are on the CPU")


def choose_device(trial: Trial, rank: int, here: range) -> torch.device:
    """A GPU of its own for each rank of this host, or the first of several, or else the CPU. Raises RuntimeError for
    GPUs that are not there."""
    gpus = torch.cuda.device_count() if trial.device != "cpu" else 0
    if trial.launch == "task" and 0 < gpus == trial.gpus_per_rank:  # its own, and no other can be seen
        return torch.device("cuda", 0)
    if gpus >= len(here) * trial.gpus_per_rank:
        device = torch.device("cuda", here.index(rank) * trial.gpus_per_rank)
        torch.cuda.set_device(device)
        return device
    if trial.device == "cuda" or (gpus and trial.gpus_per_rank > 1):
        each = "a GPU" if trial.gpus_per_rank == 1 else f"{trial.gpus_per_rank} GPUs"
        raise RuntimeError(f"device = {trial.device!r} needs {each} a rank: {len(here)} ranks here, {gpus} GPUs")
    return torch.device("cpu")


def pin_threads(trial: Trial, here: range) -> int:
    """Give this rank its part of the host's cores, whatever the launcher would have given it."""
    threads = threads_a_rank(trial, available_cores(), len(here))
    torch.set_num_threads(threads)
    return threads


@contextmanager
def rank_process(trial: Trial, rank: int, here: range, *, has_parent: bool = True) -> Iterator[Rank]:
    """The frame around a rank's life: guarded, logged, announced; delayed at the start if the trial says so.

    `here`: the ranks of this host, which share its cores and GPUs. `has_parent`: a launcher started this rank and it
    must not outlive it.
    """
    link.enter(rank)
    if has_parent:
        guard.die_with_parent()
    guard.die_with_console()  # once more, since threads do not survive a fork
    log_to_file(rank)
    if trial.sched_batch:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # now, so that gloo's threads inherit it
    threads = pin_threads(trial, here)
    reporter = Reporter(rank, beats=trial.instruments == "on")
    try:
        device = choose_device(trial, rank, here)
        reporter.say(hello(trial, rank, device, threads))
        delays = Delays(trial.bottleneck, rank, seed=trial.seed, warmup_steps=trial.warmup_steps)
        begin = time.monotonic_ns()
        reporter.position = lambda: Position(asleep=delays.asleep)
        delays.start()
        yield Rank(trial, rank, trial.world_size, device, reporter, delays, time.monotonic_ns() - begin)
    except BaseException as error:
        traceback.print_exc()
        reporter.say(Failed(rank=rank, at_ns=time.monotonic_ns(), error=f"{type(error).__name__}: {error}"))
        raise
    finally:
        reporter.close()
        sys.stdout.flush()
        sys.stderr.flush()


def hello(trial: Trial, rank: int, device: torch.device, threads: int) -> Hello:
    has_group = trial.launch not in ("single", "dp")
    name, why = choose_backend(trial, device) if has_group else (None, "")
    stand_in = trial.launch == "dp" and device.type == "cpu"
    return Hello(
        version=VERSION,
        token=os.environ.get(TOKEN, ""),
        rank=rank,
        world_size=trial.world_size,
        at_ns=time.monotonic_ns(),
        host=socket.gethostname(),
        pid=os.getpid(),
        device=f"{device} (thread, CPU stand-in)" if stand_in else describe(device, trial.gpus_per_rank),
        threads=threads,
        torch=str(torch.__version__),
        backend=name,
        backend_why=why,
        clock=own_clock(),
    )


def describe(device: torch.device, several: int) -> str:
    """As the table names what a rank computes on."""
    if several == 1:
        return str(device)
    if device.type == "cpu":
        return f"{device} ({several} threads, CPU stand-in)"
    return f"{device}-{(device.index or 0) + several - 1}"


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
