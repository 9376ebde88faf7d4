"""How ranks meet: at an address and port, where each leaves its own; or over a file that all can see."""

import gc
import os
import socket
import sys
import tempfile
from datetime import timedelta
from typing import NamedTuple

import torch.distributed as dist

from ddptui.config.trial import PATIENCE, Trial
from workers.rank.device import choose_backend
from workers.rank.node import ANY_PORT, LOCALHOST, Node
from workers.rank.process import Rank

MOST_WAITING = 1024  # ranks, between the port and the store
START_S = 300  # for all ranks to meet: the last one may start late
LONGEST_JITTER = 10  # × the mean; longer than that is one sleep in 20,000
INIT_METHOD = "INIT_METHOD"  # file:///PATH, of a file that is not there yet: an old one names ranks that are gone
BY_HAND = (
    "mpirun -n {} sh -c 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE MASTER_ADDR=localhost "
    "MASTER_PORT=29500 python -m workers.task backend=mpi …'"
)


class Meeting(NamedTuple):
    """Where ranks meet. Without an address, `init_method` says it, as torch has it."""

    address: str | None = None
    port: int = ANY_PORT
    init_method: str = "env://"


IN_ENVIRONMENT = Meeting()  # MASTER_ADDR and MASTER_PORT say where


def open_port(address: str = LOCALHOST, port: int = ANY_PORT) -> socket.socket:
    """Listen where the ranks will meet; whoever comes before the store is there waits. Port 0: one that is free, so
    that two labs can run at once. Ranks of other hosts may know this one by an address that it does not know itself."""
    if address == LOCALHOST:
        return socket.create_server((address, port), backlog=MOST_WAITING)
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, dualstack_ipv6=both, backlog=MOST_WAITING)


def host_store(port: socket.socket | None = None) -> dist.TCPStore:
    """Open the meeting place, which is there as long as somebody keeps it. It has a thread: who forks does so before,
    since a fork takes no threads along, but whatever locks they hold."""
    port = port or open_port()
    number = port.getsockname()[1]
    return dist.TCPStore(LOCALHOST, number, is_master=True, wait_for_workers=False, master_listen_fd=port.detach())


def open_meeting(trial: Trial, node: Node) -> tuple[Meeting, socket.socket | None]:
    """Where the ranks that this process will start meet those of other nodes; and on the first node the port for the
    store."""
    if trial.init_method == "file":
        of_our_own = f"file://{tempfile.gettempdir()}/ddptui-meeting-{os.getpid()}"
        if INIT_METHOD not in os.environ and len(node.ranks) < trial.world_size:
            sys.exit(f"{INIT_METHOD}=file:///PATH is missing: a new file that all nodes can see, where the ranks meet")
        return Meeting(init_method=os.environ.get(INIT_METHOD, of_our_own)), None
    port = open_port(node.address, node.port) if node.is_first else None
    return Meeting(node.address, port.getsockname()[1] if port else node.port), port


def join_group(me: Rank, meeting: Meeting) -> None:
    """Become a member of the group.

    NCCL is not told the rank's GPU (`device_id`), but takes that of the tensors that it is given. Where it is told,
    torch 2.6 and 2.7.0 have it connect without blocking, and NCCL 2.26 then hangs now and again.
    """
    backend, _ = choose_backend(me.trial, me.device, me.shares_gpu)
    patience = timedelta(seconds=timeout_s(me.trial))
    if backend == "mpi":
        join_over_mpi(me, patience)
        return
    store = dist.TCPStore(meeting.address, meeting.port, is_master=False) if meeting.address else None
    dist.init_process_group(
        backend,
        store=store,
        init_method=None if store else meeting.init_method,
        rank=me.rank,
        world_size=me.world_size,
        timeout=patience,
    )


def join_over_mpi(me: Rank, patience: timedelta) -> None:
    """MPI itself says who is which rank, and where they meet. Raises RuntimeError when it says otherwise than whoever
    told this process: then its ranks were started without mpirun, and each is alone in a world of its own."""
    dist.init_process_group("mpi", timeout=patience)
    told, wanted = (dist.get_rank(), dist.get_world_size()), (me.rank, me.world_size)
    if told != wanted:
        leave_group()
        raise RuntimeError(
            f"backend = 'mpi': MPI says rank {told[0]} of {told[1]}, the trial rank {wanted[0]} of {wanted[1]}: start "
            f"the ranks with --engine slurm and launch = 'task', or by hand `{BY_HAND.format(wanted[1])}` (Open MPI)"
        )


def timeout_s(trial: Trial) -> float:
    """What torch waits for a rank that does not come: longer than the console, which can say who it is, and than the
    delays that were put in; but not its own half an hour."""
    longest_ms = max((bottleneck.sleep_ms for bottleneck in trial.bottleneck), default=0)
    return START_S + PATIENCE * trial.stall_s + LONGEST_JITTER * longest_ms / 1000


def leave_group() -> None:
    """Leave the group, and let go of whatever still holds it (a DDP, say, that refers to itself): only then have its
    threads ended. One that still drops a tensor when Python shuts down aborts the process."""
    dist.destroy_process_group()
    gc.collect()
