"""How ranks meet: at an address and port, where each leaves its own; or over a file that all can see."""

import gc
import os
import sys
import tempfile
from datetime import timedelta
from typing import NamedTuple

import torch.distributed as dist

from ddptui.preset import PATIENCE, Trial
from workers.node import ANY_PORT, LOCALHOST, Node
from workers.rank import Rank, choose_backend

START_S = 300  # for all ranks to meet: the last one may start late
LONGEST_JITTER = 10  # × the mean; longer than that is one sleep in 20,000
INIT_METHOD = "INIT_METHOD"  # file:///PATH, of a file that is not there yet: an old one names ranks that are gone


class Meeting(NamedTuple):
    """Where ranks meet. Without an address, `init_method` says it, as torch has it."""

    address: str | None = None
    port: int = ANY_PORT
    init_method: str = "env://"


IN_ENVIRONMENT = Meeting()  # MASTER_ADDR and MASTER_PORT say where


def host_store(address: str = LOCALHOST, port: int = ANY_PORT) -> dist.TCPStore:
    """Open the meeting place in the process that starts the ranks. Port 0: one that is free, so that two labs can run
    at once; the store holds it from now on, so that nobody takes it before the ranks are there."""
    return dist.TCPStore(address, port, is_master=True, wait_for_workers=False)


def open_meeting(trial: Trial, node: Node) -> tuple[Meeting, dist.TCPStore | None]:
    """Where the ranks that this process will start meet those of other nodes; and on the first node the store, which
    is there as long as somebody keeps it."""
    if trial.init_method == "file":
        of_our_own = f"file://{tempfile.gettempdir()}/ddptui-meeting-{os.getpid()}"
        if INIT_METHOD not in os.environ and len(node.ranks) < trial.world_size:
            sys.exit(f"{INIT_METHOD}=file:///PATH is missing: a new file that all nodes can see, where the ranks meet")
        return Meeting(init_method=os.environ.get(INIT_METHOD, of_our_own)), None
    store = host_store(node.address, node.port) if node.is_first else None
    return Meeting(node.address, store.port if store else node.port), store


def join_group(me: Rank, meeting: Meeting) -> None:
    """Become a member of the group."""
    backend, _ = choose_backend(me.trial, me.device)
    store = dist.TCPStore(meeting.address, meeting.port, is_master=False) if meeting.address else None
    dist.init_process_group(
        backend,
        store=store,
        init_method=None if store else meeting.init_method,
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
