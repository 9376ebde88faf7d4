"""Lets two ranks communicate over NCCL on one GPU, for `ddptui doctor --gpu-report`. An experiment.

NCCL refuses two ranks on one GPU of one host. With an NCCL_HOSTID each, it takes them for ranks of two hosts; without
the ways that only one host has, they communicate over a socket of the loopback interface.
"""

import os
import statistics
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from workers.instruments.clock import Clock
from workers.instruments.cuda_clock import clock_of
from workers.primitives.numbers import Scrambled, wrong_elements
from workers.primitives.point_to_point import IsendIrecv
from workers.primitives.primitive import Setting
from workers.rank import guard
from workers.rank.group import host_store, leave_group
from workers.rank.node import LOCALHOST

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


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank has measured."""

    sums_right: bool
    came_ns: list[int]  # the host's time at which its GPU came to the all_reduce of each round
    took_ns: list[int]  # how long the GPU was in it
    exchanged_right: bool
    exchange_ns: int


def measure() -> dict[str, Any]:
    """Start the ranks, and compare what they have measured. Raises a rank's error."""
    store = host_store()
    mp.start_processes(_run_rank, (store.port,), nprocs=RANKS, start_method="spawn")
    reports = [msgspec.json.decode(store.get(f"report-{rank}"), type=Report) for rank in range(RANKS)]
    return compared(reports)


def compared(reports: Sequence[Report]) -> dict[str, Any]:
    """The findings of both ranks as one. late_ns: by how much rank 1's GPU came later; wait_ns: by how much longer rank
    0's was in the all_reduce; both medians over the rounds."""
    first, second = reports
    return {
        "sums_right": first.sums_right and second.sums_right,
        "late_ns": median_difference(second.came_ns, first.came_ns),
        "wait_ns": median_difference(first.took_ns, second.took_ns),
        "exchanged_right": all(report.exchanged_right for report in reports),
        "exchange_ns": max(report.exchange_ns for report in reports),
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
    dist.init_process_group(
        "nccl",
        store=store,
        rank=rank,
        world_size=RANKS,
        timeout=TIMEOUT,
        device_id=device,
    )
    store.set(f"report-{rank}", msgspec.json.encode(report_of(rank, device, clock_of(device))).decode())
    dist.barrier()
    leave_group()


def report_of(rank: int, device: torch.device, clock: Clock) -> Report:
    """Sum in rounds, rank 1 always late; then exchange 64 MB."""
    rounds = [sum_once(rank, device, clock) for _ in range(ROUNDS)]
    exchanged_right, exchange_ns = exchange(rank, device)
    return Report(
        sums_right=all(each.right for each in rounds),
        came_ns=[each.came_ns for each in rounds],
        took_ns=[each.took_ns for each in rounds],
        exchanged_right=exchanged_right,
        exchange_ns=exchange_ns,
    )


class Round(NamedTuple):
    """One all_reduce, as one rank saw it."""

    right: bool
    came_ns: int
    took_ns: int


def sum_once(rank: int, device: torch.device, clock: Clock) -> Round:
    """All-reduce, rank 1 being late. Raises RuntimeError if the GPU does not get there."""
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
    return Round(bool((tensor == 3.0).all()), came[0], lengths[0])


def exchange(rank: int, device: torch.device, elements: int = ELEMENTS) -> tuple[bool, int]:
    """Send to the other rank and receive from it, as the primitive isend/irecv does. Returns whether all values were
    right, and the time in ns."""
    primitive, numbers = IsendIrecv(Setting(rank, RANKS, 0, elements, torch.float32, device)), Scrambled(seed=1)
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
