"""Lets two ranks form a group over gloo and sum once, as in every run; or one rank over NCCL. For `ddptui doctor`."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from ddptui.wire.messages import Nccl
from workers.rank import guard
from workers.rank.device import nccl_of
from workers.rank.group import host_store, leave_group
from workers.rank.node import LOCALHOST

RANKS = 2
TIMEOUT = timedelta(seconds=30)  # for a rank that does not come


def meet_over_gloo(start_method: str) -> float:
    """Start two ranks and let them sum. Returns the time of the sum in s. Raises a rank's error."""
    store = host_store()
    if start_method == "forkserver":
        mp.set_forkserver_preload(["workers.doctor.meeting"])
    mp.start_processes(_run_rank, (store.port,), nprocs=RANKS, start_method=start_method)
    return float(store.get("sum_s"))


def _run_rank(rank: int, port: int) -> None:
    guard.die_with_parent()
    guard.die_with_console()  # once more, since threads do not survive a fork
    torch.set_num_threads(1)
    store = dist.TCPStore(LOCALHOST, port, is_master=False, timeout=TIMEOUT)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=TIMEOUT)
    begin = time.monotonic()
    _sum_is_right(torch.full((1000,), rank + 1.0), expected=3.0)
    if rank == 0:
        store.set("sum_s", str(time.monotonic() - begin))
    leave_group()


def meet_over_nccl() -> tuple[float, Nccl | None]:
    """Sum with one rank, in this process, on the first GPU. Returns the time of the sum in s, and the NCCL that did it.
    None: torch does not say."""
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, timeout=TIMEOUT)
    try:
        begin = time.monotonic()
        _sum_is_right(torch.ones(1000, device=device), expected=1.0)
        return time.monotonic() - begin, nccl_of(device)
    finally:
        leave_group()


def _sum_is_right(tensor: torch.Tensor, expected: float) -> None:
    dist.all_reduce(tensor)
    if not bool((tensor == expected).all()):
        raise RuntimeError(f"all_reduce gave {tensor[0].item():g}, and {expected:g} is right")
