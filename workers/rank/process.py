"""Sets up the process of every rank, in any launch mode: device, connection to the console, log and network."""

import ctypes
import faulthandler
import gc
import os
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.trial import Trial, TrialError, own_codes, threads_per_rank
from ddptui.config.values import from_arguments
from ddptui.host.machine import available_cores, own_clock
from ddptui.wire.connection import HUB, LINKS, LOGS, TOKEN
from ddptui.wire.messages import VERSION, Failed, Hello, Position
from workers.instruments.delays import Delays, RankDelays
from workers.instruments.progress import as_stack
from workers.instruments.reporter import Reporter
from workers.own_code import load_own
from workers.rank import guard
from workers.rank.device import DeviceChoice, choose_backend, choose_device, describe
from workers.watch.ending import failure_of

CLONE_NEWNET = 0x40000000  # linux/sched.h
# How long a failed rank stays. If a rank is killed, the connections of others break, so that they also fail. The
# launcher of torch, which checks ten times a second, must find the killed rank first.
NOTICED_AFTER_S = 0.3


@dataclass
class Rank:
    """One rank, as the training loop sees it."""

    trial: Trial
    rank: int
    world_size: int  # size of the process group; 1 without a group
    device: torch.device
    reporter: Reporter
    delays: Delays
    start_ns: int = 0  # the length of its delay at the start
    shares_gpu: bool = False  # whether it shares its GPU with other ranks of this host


def read_trial(arguments: list[str]) -> Trial:
    """The trial that the command line describes. Ends the process with a message if it is invalid."""
    try:
        return from_arguments(arguments)
    except TrialError as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}")


def pin_threads(trial: Trial, local_ranks: range) -> int:
    """Have torch use this rank's share of the host's cores. Returns the number of threads."""
    threads = threads_per_rank(trial, available_cores(), len(local_ranks))
    torch.set_num_threads(threads)  # despite OMP_NUM_THREADS, which torch's launcher sets to 1
    return threads


@contextmanager
def rank_process(trial: Trial, rank: int, local_ranks: range, *, has_parent: bool = True) -> Iterator[Rank]:
    """Set up this process as a rank, and clean up afterwards: guards, log, Hello, and the delay at the start.

    local_ranks: the ranks on this host, which share its cores and GPUs. has_parent: the rank must not outlive its
    launcher. An error is logged, reported to the console, and raised again.
    """
    enter_network(rank)  # first: a socket stays in the network in which it was opened
    if has_parent:
        guard.die_with_parent()
    guard.die_with_console()  # again after the fork: threads are not inherited
    log_to_file(rank)
    if own_codes(trial):
        faulthandler.enable()  # if native code aborts, the log names the line of the user's code
    if trial.sched_batch:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # now, so that gloo's threads inherit it
    threads = pin_threads(trial, local_ranks)
    reporter = Reporter(rank, heartbeat=trial.instruments == "on")
    try:
        device, _, shared = announce(trial, rank, local_ranks, threads, reporter)
        delays = make_delays(trial, rank, device)
        begin = time.monotonic_ns()
        reporter.position = lambda: Position(asleep=delays.asleep)
        delays.start()
        yield Rank(trial, rank, trial.world_size, device, reporter, delays, time.monotonic_ns() - begin, shared)
        gc.freeze()  # else Python's last garbage collection would walk all imports for a second
    except BaseException as error:
        traceback.print_exception(error)
        said, stack = f"{type(error).__name__}: {error}".removesuffix(": "), as_stack(failure_of(error).stack)
        reporter.send(Failed(rank=rank, at_ns=time.monotonic_ns(), error=said, stack=stack))
        time.sleep(NOTICED_AFTER_S)
        raise
    finally:
        reporter.close()
        sys.stdout.flush()
        sys.stderr.flush()


def make_delays(trial: Trial, rank: int, device: torch.device) -> RankDelays:
    """The delays of one rank, or of one replica."""
    own, seed, warmup = partial(load_own, "bottleneck"), trial.seed, trial.warmup_steps
    return RankDelays(trial.bottleneck, rank, seed=seed, warmup_steps=warmup, device=device, own=own)


def enter_network(rank: int) -> None:
    """Move this thread, and all threads that it starts, into the rank's own network namespace. Raises OSError."""
    if LINKS not in os.environ:  # no slow links; with them, ranks reach the console through a Unix socket
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
        reporter.send(hello(trial, rank, None, threads))  # else the console would ignore the Failed that follows
        raise
    reporter.send(message)
    reporter.set_device(choice.device)
    return choice


def hello(trial: Trial, rank: int, choice: DeviceChoice | None, threads: int) -> Hello:
    """The rank's Hello. choice: None if there is no device. Raises RuntimeError if the backend cannot work."""
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
    """Redirect this process's output, including that of native code, to rank-R.log in the console's log folder."""
    if HUB not in os.environ:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(Path(os.environ[LOGS]) / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
