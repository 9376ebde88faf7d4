"""Forms a process group of two ranks over gloo, or of one over NCCL, and calls one all_reduce. For `ddptui doctor`."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from ddptui.wire.messages import Nccl
from workers.rank import guard
from workers.rank.device import nccl_of
from workers.rank.group import LOCALHOST, host_store, leave_group

RANKS = 2
TIMEOUT = timedelta(seconds=30)  # how long to wait for a rank that does not connect


def meet_over_gloo(start_method: str) -> float:
    """Start two ranks that call all_reduce once. Returns the time of the call in s. Raises a rank's error."""
    store = host_store()
    if start_method == "forkserver":
        mp.set_forkserver_preload(["workers.doctor.meeting"])
    mp.start_processes(_run_rank, (store.port,), nprocs=RANKS, start_method=start_method)
    return float(store.get("sum_s"))


def _run_rank(rank: int, port: int) -> None:
    guard.die_with_parent()
    guard.die_with_console()  # again after the fork: threads are not inherited
    torch.set_num_threads(1)
    store = dist.TCPStore(LOCALHOST, port, is_master=False, timeout=TIMEOUT)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=TIMEOUT)
    begin = time.monotonic()
    _sum_is_right(torch.full((1000,), rank + 1.0), expected=3.0)
    if rank == 0:
        store.set("sum_s", str(time.monotonic() - begin))
    leave_group()


def meet_over_nccl() -> tuple[float, Nccl | None]:
    """Call all_reduce with one rank, in this process, on the first GPU. Returns the time of the call in s, and the NCCL
    used; None if torch does not report it."""
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
