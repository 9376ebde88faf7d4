"""How ranks meet: at an address and port, where each leaves its own; or through a file that all of them can see."""

import gc
import os
import secrets
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

MOST_WAITING = 1024  # ranks that have connected to the port before the store listens
START_S = 300  # for all ranks to meet: the last one may start late
LONGEST_JITTER = 10  # × the mean of a random delay; longer than that is one in 20,000
INIT_METHOD = "INIT_METHOD"  # file:///PATH of a file that does not exist yet: an old one names ranks that are gone
MPIRUN_EXAMPLE = (
    "mpirun -n {} sh -c 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE MASTER_ADDR=localhost "
    "MASTER_PORT=29500 python -m workers.task backend=mpi …'"
)


class Rendezvous(NamedTuple):
    """Where ranks meet: at an address and port; without an address, at torch's `init_method`."""

    address: str | None = None
    port: int = ANY_PORT
    init_method: str = "env://"


FROM_ENVIRONMENT = Rendezvous()  # in MASTER_ADDR and MASTER_PORT


def open_rendezvous(trial: Trial, node: Node) -> tuple[Rendezvous, socket.socket | None]:
    """Where the ranks that this process will start meet those of other nodes; and, on the first node, the port that
    the store will serve. Ends the process with one line where a file is missing."""
    if trial.init_method == "file":
        # not by a process id, which another container with the same /tmp may have, too
        temporary = f"file://{tempfile.gettempdir()}/ddptui-meeting-{secrets.token_hex(8)}"
        if INIT_METHOD not in os.environ and len(node.ranks) < trial.world_size:
            sys.exit(f"{INIT_METHOD}=file:///PATH is missing: a new file that all nodes can see, where the ranks meet")
        return Rendezvous(init_method=os.environ.get(INIT_METHOD, temporary)), None
    port = open_port(node.address, node.port) if node.number == 0 else None
    return Rendezvous(node.address, port.getsockname()[1] if port else node.port), port


def open_port(address: str = LOCALHOST, port: int = ANY_PORT) -> socket.socket:
    """Listen where the ranks will meet. Ranks that connect before the store serves it wait."""
    if address == LOCALHOST:
        return socket.create_server((address, port), backlog=MOST_WAITING)
    # For ranks of other hosts, on all interfaces: they may know this host by an address that it does not know itself.
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, dualstack_ipv6=both, backlog=MOST_WAITING)


def host_store(port: socket.socket | None = None) -> dist.TCPStore:
    """Serve the store through which ranks meet, until it is dropped. It has a thread, so call this after the last fork:
    a fork copies the locks that threads hold, but not the threads that would release them."""
    port = port or open_port()
    number = port.getsockname()[1]
    return dist.TCPStore(LOCALHOST, number, is_master=True, wait_for_workers=False, master_listen_fd=port.detach())


def join_group(me: Rank, rendezvous: Rendezvous) -> None:
    """Become a member of the process group."""
    backend, _ = choose_backend(me.trial, me.device, me.shares_gpu)
    timeout = timedelta(seconds=timeout_s(me.trial))
    if backend == "mpi":
        join_over_mpi(me, timeout)
        return
    store = dist.TCPStore(rendezvous.address, rendezvous.port, is_master=False) if rendezvous.address else None
    dist.init_process_group(
        backend,
        store=store,
        init_method=None if store else rendezvous.init_method,
        rank=me.rank,
        world_size=me.world_size,
        timeout=timeout,
        # torch's newer implementation of NCCL, nccl2, would go by the rank's number else
        device_id=me.device if backend == "nccl" else None,
    )


def join_over_mpi(me: Rank, timeout: timedelta) -> None:
    """Join where MPI decides which process is which rank. Raises RuntimeError if it disagrees with the trial."""
    dist.init_process_group("mpi", timeout=timeout)
    actual, expected = (dist.get_rank(), dist.get_world_size()), (me.rank, me.world_size)
    if actual != expected:  # started without mpirun: each rank is alone in a world of its own
        leave_group()
        by_hand = MPIRUN_EXAMPLE.format(me.world_size)
        raise RuntimeError(
            f"backend = 'mpi': MPI says rank {actual[0]} of {actual[1]}, the trial rank {expected[0]} of "
            f"{expected[1]}: start the ranks by hand, `{by_hand}` (Open MPI)"
        )


def timeout_s(trial: Trial) -> float:
    """How long torch waits for a late rank, in s; by default it would be 30 minutes."""
    # Longer than the injected delays, and than the console waits, since only the console can name the late rank.
    longest_ms = max((bottleneck.sleep_ms for bottleneck in trial.bottleneck), default=0)
    return START_S + PATIENCE * trial.stall_s + LONGEST_JITTER * longest_ms / 1000


def leave_group() -> None:
    """Leave the group, and end its threads: one that drops a tensor while Python shuts down aborts the process."""
    dist.destroy_process_group()
    gc.collect()  # threads end with the last reference to the group, which a DDP holds in a cycle
