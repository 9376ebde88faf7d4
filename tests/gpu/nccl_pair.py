"""Lets two ranks communicate over NCCL on one GPU. An experiment.

NCCL refuses two ranks on one GPU of one host. With an NCCL_HOSTID each, it takes them for ranks of two hosts; without
the ways that only one host has, they communicate over a socket of the loopback interface.
"""

import json
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from workers.instruments.clock import Clock
from workers.instruments.cuda_clock import clock_of
from workers.primitives.operations import IsendIrecv
from workers.primitives.primitive import Scrambled, Setting, wrong_elements
from workers.rank import guard
from workers.rank.group import LOCALHOST, host_store, leave_group

RANKS = 2
TIMEOUT = timedelta(seconds=60)
PUT_IN_S = 0.020  # by which rank 1 is late
ROUNDS = 20
SETTLE_ROUNDS = 5  # at first, which are not counted
ELEMENTS = 2**24  # 64 MB of float32
TWO_HOSTS = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
}


def measure() -> dict[str, Any]:
    """Start the ranks, and compare what they have measured. Raises a rank's error."""
    store = host_store()
    mp.start_processes(_run_rank, (store.port,), nprocs=RANKS, start_method="spawn")
    return compared(*(json.loads(store.get(f"report-{rank}")) for rank in range(RANKS)))


def compared(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """What both ranks have measured, as one. late_ns: by how much rank 1's GPU came later; wait_ns: by how much longer
    rank 0's was in the all_reduce; both medians over the rounds."""
    return {
        "sums_right": first["sums_right"] and second["sums_right"],
        "late_ns": median_difference(second["came_ns"], first["came_ns"]),
        "wait_ns": median_difference(first["took_ns"], second["took_ns"]),
        "exchanged_right": first["exchanged_right"] and second["exchanged_right"],
        "exchange_ns": max(first["exchange_ns"], second["exchange_ns"]),
    }


def median_difference(more: Sequence[int], less: Sequence[int]) -> float:
    """The median over the rounds that count, in ns."""
    return statistics.median(a - b for a, b in zip(more[SETTLE_ROUNDS:], less[SETTLE_ROUNDS:], strict=True))


def _run_rank(rank: int, port: int) -> None:
    guard.die_with_parent()
    guard.die_with_console()  # once more, since threads do not survive a fork
    os.environ.update(TWO_HOSTS, NCCL_HOSTID=f"host-{rank}")
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    store = dist.TCPStore(LOCALHOST, port, is_master=False, timeout=TIMEOUT)
    dist.init_process_group("nccl", store=store, rank=rank, world_size=RANKS, timeout=TIMEOUT, device_id=device)
    store.set(f"report-{rank}", json.dumps(measured_by(rank, device, clock_of(device))))
    dist.barrier()
    leave_group()


def measured_by(rank: int, device: torch.device, clock: Clock) -> dict[str, Any]:
    """Sum in rounds, rank 1 always late; then exchange 64 MB. Of each round: when the GPU came to the all_reduce, by
    the host's clock, and how long it was in it."""
    rights, came_ns, took_ns = zip(*(sum_once(rank, device, clock) for _ in range(ROUNDS)), strict=True)
    exchanged_right, exchange_ns = exchange(rank, device)
    return {
        "sums_right": all(rights),
        "came_ns": came_ns,
        "took_ns": took_ns,
        "exchanged_right": exchanged_right,
        "exchange_ns": exchange_ns,
    }


def sum_once(rank: int, device: torch.device, clock: Clock) -> tuple[bool, int, int]:
    """All-reduce, rank 1 being late. Returns whether the sum is right, when it began, and how long it took. Raises
    RuntimeError if the GPU does not get there."""
    tensor = torch.full((1000,), rank + 1.0, device=device)
    dist.all_reduce(torch.ones(1, device=device))  # both ranks begin the round together
    settle(device)
    time.sleep(PUT_IN_S * rank)
    begin = clock.now()
    dist.all_reduce(tensor)
    end = clock.now()
    settle(device)
    came, lengths = clock.resolve([begin]), clock.lengths([begin, end])
    if came is None or lengths is None:
        raise RuntimeError("the GPU has not reached a mark, although it has done all its work")
    return bool((tensor == 3.0).all()), came[0], lengths[0]


def exchange(rank: int, device: torch.device) -> tuple[bool, int]:
    """Send to the other rank and receive from it, as the primitive isend/irecv does. Returns whether all values were
    right, and the time in ns."""
    primitive, numbers = IsendIrecv(Setting(rank, RANKS, 0, ELEMENTS, torch.float32, device)), Scrambled(seed=1)
    primitive.fill(numbers)
    settle(device)
    begin_ns = time.monotonic_ns()
    primitive.call()
    settle(device)
    took_ns = time.monotonic_ns() - begin_ns
    wrong = sum(wrong_elements(actual, expected, RANKS) for actual, expected in primitive.expected(numbers))
    return wrong == 0, took_ns


def settle(device: torch.device) -> None:
    """Wait until a GPU has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
