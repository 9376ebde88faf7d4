"""How ranks meet: all connect to one address and port, and leave their own addresses there."""

import gc
from datetime import timedelta

import torch.distributed as dist

from ddptui.preset import PATIENCE, Trial
from workers.rank import Rank, choose_backend

ADDRESS = "127.0.0.1"
START_S = 300  # for all ranks to meet: the last one may start late
LONGEST_JITTER = 10  # × the mean; longer than that is one sleep in 20,000


def host_store() -> dist.TCPStore:
    """Open the meeting place in the process that starts the ranks. Port 0: one that is free, so that two labs can run
    at once; the store holds it from now on, so that nobody takes it before the ranks are there."""
    return dist.TCPStore(ADDRESS, 0, is_master=True, wait_for_workers=False)


def join_group(me: Rank, port: int | None) -> None:
    """Become a member of the group. Without a port, the environment says where the others are (env://)."""
    backend, _ = choose_backend(me.trial, me.device)
    store = dist.TCPStore(ADDRESS, port, is_master=False) if port is not None else None
    dist.init_process_group(
        backend,
        store=store,
        init_method="env://" if store is None else None,
        rank=me.rank,
        world_size=me.world_size,
        timeout=timedelta(seconds=patience_s(me.trial)),
    )


def patience_s(trial: Trial) -> float:
    """What torch waits for a rank that does not come: longer than the console, which can say who it is, and than the
    delays that were put in; but not its own half an hour."""
    longest_ms = max((bottleneck.sleep_ms for bottleneck in trial.bottleneck), default=0)
    return START_S + PATIENCE * trial.stall_s + LONGEST_JITTER * longest_ms / 1000


def leave_group() -> None:
    """Leave the group, and let go of whatever still holds it (a DDP, say, that refers to itself): only then have its
    threads ended. One that still drops a tensor when Python shuts down aborts the process."""
    dist.destroy_process_group()
    gc.collect()
