"""What every rank has, however it was launched: its number, device, connection to the console, log and network."""

import ctypes
import gc
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
from ddptui.host.clock import own_clock
from ddptui.host.machine import available_cores
from ddptui.wire.connection import HUB, LINKS, LOGS, TOKEN
from ddptui.wire.messages import VERSION, Failed, Hello, Position
from workers.instruments.delays import Delays, RankDelays
from workers.instruments.reporter import Reporter
from workers.rank import guard
from workers.rank.device import DeviceChoice, choose_backend, choose_device, describe

CLONE_NEWNET = 0x40000000  # linux/sched.h
# How long a rank that has failed stays. Where one is killed, the connections of others break, and they fail, too. The
# launcher of torch, which looks ten times a second, must find the killed one first.
NOTICED_AFTER_S = 0.3


@dataclass
class Rank:
    """One rank, as the training loop knows it."""

    trial: Trial
    rank: int
    world_size: int  # of the process group; 1 where there is none
    device: torch.device
    reporter: Reporter
    delays: Delays
    start_ns: int = 0  # the length of its delay at the start
    shares_gpu: bool = False  # with other ranks of this host


def read_trial(arguments: list[str]) -> Trial:
    """The trial that the command line describes. Ends the process with one line if it is wrong."""
    try:
        return from_arguments(arguments)
    except TrialError as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}")


def pin_threads(trial: Trial, local_ranks: range) -> int:
    """Have torch use as many threads as this rank's part of the host has cores. Returns the number."""
    threads = threads_per_rank(trial, available_cores(), len(local_ranks))
    torch.set_num_threads(threads)  # whatever OMP_NUM_THREADS says: torch's launcher sets it to 1
    return threads


@contextmanager
def rank_process(trial: Trial, rank: int, local_ranks: range, *, has_parent: bool = True) -> Iterator[Rank]:
    """The frame around a rank's life: guarded, logged, announced; and delayed at the start if the trial says so.

    local_ranks: of this host, which share its cores and GPUs. has_parent: the rank must not outlive its launcher. An
    error goes to the log and to the console, and is raised again.
    """
    enter_network(rank)  # first of all: a socket stays in the network where it was opened
    if has_parent:
        guard.die_with_parent()
    guard.die_with_console()  # once more, since threads do not survive a fork
    log_to_file(rank)
    if trial.sched_batch:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # now, so that gloo's threads inherit it
    threads = pin_threads(trial, local_ranks)
    reporter = Reporter(rank, heartbeat=trial.instruments == "on")
    try:
        device, _, shared = announce(trial, rank, local_ranks, threads, reporter)
        delays = RankDelays(trial.bottleneck, rank, seed=trial.seed, warmup_steps=trial.warmup_steps, device=device)
        begin = time.monotonic_ns()
        reporter.position = lambda: Position(asleep=delays.asleep)
        delays.start()
        yield Rank(trial, rank, trial.world_size, device, reporter, delays, time.monotonic_ns() - begin, shared)
        gc.freeze()  # or Python would look for garbage among all that was imported, a second before the process ends
    except BaseException as error:
        traceback.print_exc()
        reporter.send(Failed(rank=rank, at_ns=time.monotonic_ns(), error=f"{type(error).__name__}: {error}"))
        time.sleep(NOTICED_AFTER_S)
        raise
    finally:
        reporter.close()
        sys.stdout.flush()
        sys.stderr.flush()


def enter_network(rank: int) -> None:
    """Have this thread, and all that it starts, open sockets in the rank's own network. Raises OSError."""
    if LINKS not in os.environ:  # without slow links; with them the console is reached through a file, outside networks
        return
    launcher, *networks = os.environ[LINKS].split()
    with Path(f"/proc/{launcher}/fd/{networks[rank]}").open("rb") as network:
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"rank {rank} cannot enter its network: {os.strerror(number)}")


def announce(trial: Trial, rank: int, local_ranks: range, threads: int, reporter: Reporter) -> DeviceChoice:
    """Choose the rank's device, and send Hello."""
    try:
        choice = choose_device(trial, rank, local_ranks)
        message = hello(trial, rank, choice, threads)
    except RuntimeError:
        reporter.send(hello(trial, rank, None, threads))  # or the console would ignore the Failed that follows
        raise
    reporter.send(message)
    reporter.set_device(choice.device)
    return choice


def hello(trial: Trial, rank: int, choice: DeviceChoice | None, threads: int) -> Hello:
    """The rank's Hello. choice: None if there is no device. Raises RuntimeError if no backend fits it."""
    backend, backend_why = None, ""
    if choice and trial.launch not in ONE_PROCESS:
        backend, backend_why = choose_backend(trial, choice.device, choice.shared)
    return Hello(
        version=VERSION,
        token=os.environ.get(TOKEN, ""),
        rank=rank,
        world_size=trial.world_size,
        at_ns=time.monotonic_ns(),
        host=socket.gethostname(),
        pid=os.getpid(),
        device=describe(trial, choice.device) if choice else "none",
        device_why=choice.why if choice else "",
        threads=threads,
        torch=str(torch.__version__),
        backend=backend,
        backend_why=backend_why,
        clock=own_clock(),
    )


def log_to_file(rank: int) -> None:
    """Redirect this process's output, that of native code too, to rank-R.log in the folder that the console gave."""
    if HUB not in os.environ:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(Path(os.environ[LOGS]) / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
