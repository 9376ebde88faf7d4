"""Forms the process group of the ranks that this machine has; they meet at an address and port, or through a file.

NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=15432 python -m workers.spawn world_size=4
"""

import gc
import os
import secrets
import socket
import sys
import tempfile
from datetime import timedelta
from typing import NamedTuple

import torch.distributed as dist

from ddptui.config.preset import NodeRanks, spread
from ddptui.config.trial import PATIENCE, Trial
from ddptui.host.network import NetworkError, interface_towards, resolve
from workers.rank.device import choose_backend
from workers.rank.process import Rank

LOCALHOST = "127.0.0.1"
ANY_PORT = 0  # the system chooses a free port


def this_node(trial: Trial) -> NodeRanks:
    """This machine's ranks, which the environment describes. Ends the process with a message if a variable is wrong."""
    if "NNODES" not in os.environ:
        return NodeRanks(0, 1, range(trial.world_size), LOCALHOST, ANY_PORT)
    nodes, number, port = (_number(name) for name in ("NNODES", "NODE_RANK", "MASTER_PORT"))
    parts = spread(trial.world_size, nodes)
    if number >= len(parts):
        sys.exit(f"NODE_RANK={number}: no rank is left for this node; use fewer than {nodes} nodes")
    address = os.environ.get("MASTER_ADDR", LOCALHOST)
    return NodeRanks(number, nodes, parts[number], choose_interface(address) if nodes > 1 else address, port)


def choose_interface(host: str) -> str:
    """Have ranks use the network interface that leads to `host`. Returns the address of `host`. Ends the process with a
    message if there is no such interface."""
    try:
        address = resolve(host)
        name = interface_towards(address).name
    except NetworkError as error:
        sys.exit(f"{error}")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", name)  # else gloo takes that of the host's name, perhaps loopback
    os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")  # without =, NCCL treats the name as a prefix
    return address


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    if not text.isdecimal():
        sys.exit(f"{name}={text}: not a number. If NNODES is set, also set NODE_RANK, MASTER_ADDR and MASTER_PORT")
    return int(text)


MOST_WAITING = 1024  # ranks that may connect to the port before the store serves it
START_S = 300  # timeout for all ranks to meet: the last one may start late
LONGEST_JITTER = 10  # × the mean of a random delay; one in 20,000 is longer
INIT_METHOD = "INIT_METHOD"  # variable: file:///PATH of a file that must not exist yet, or it would name old ranks
MPIRUN_EXAMPLE = (
    "mpirun -n {} sh -c 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE MASTER_ADDR=localhost "
    "MASTER_PORT=29500 python -m workers.task backend=mpi …'"
)


class Rendezvous(NamedTuple):
    """The place where ranks meet: an address and port, or, without an address, torch's `init_method`."""

    address: str | None = None
    port: int = ANY_PORT
    init_method: str = "env://"


FROM_ENVIRONMENT = Rendezvous()  # by MASTER_ADDR and MASTER_PORT


def open_rendezvous(trial: Trial, node: NodeRanks) -> tuple[Rendezvous, socket.socket | None]:
    """The place where this process's ranks will meet those of other nodes, and, on the first node, the port that the
    store will serve. Ends the process with a message if INIT_METHOD is required but not set."""
    if trial.init_method == "file":
        # a random name, not the process id, which another container with the same /tmp may also have
        temporary = f"file://{tempfile.gettempdir()}/ddptui-meeting-{secrets.token_hex(8)}"
        if INIT_METHOD not in os.environ and len(node.ranks) < trial.world_size:
            sys.exit(f"{INIT_METHOD}=file:///PATH is missing: a new file that all nodes can access, where ranks meet")
        return Rendezvous(init_method=os.environ.get(INIT_METHOD, temporary)), None
    port = open_port(node.address, node.port) if node.node == 0 else None
    return Rendezvous(node.address, port.getsockname()[1] if port else node.port), port


def open_port(address: str = LOCALHOST, port: int = ANY_PORT) -> socket.socket:
    """Listen on the port where the ranks will meet. Ranks that connect before the store serves it wait."""
    if address == LOCALHOST:
        return socket.create_server((address, port), backlog=MOST_WAITING)
    # For ranks of other hosts, listen on all interfaces: they may use an address that this host does not know itself.
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, dualstack_ipv6=both, backlog=MOST_WAITING)


def host_store(port: socket.socket | None = None) -> dist.TCPStore:
    """Serve the store through which ranks meet, as long as the returned object lives. It has a thread, so call this
    after the last fork: a fork copies the locks that threads hold, but not the threads that would release them."""
    port = port or open_port()
    number = port.getsockname()[1]
    return dist.TCPStore(LOCALHOST, number, is_master=True, wait_for_workers=False, master_listen_fd=port.detach())


def join_group(me: Rank, rendezvous: Rendezvous) -> None:
    """Join the process group."""
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
        # without it, torch's newer NCCL implementation, nccl2, would derive the device from the rank
        device_id=me.device if backend == "nccl" else None,
    )


def join_over_mpi(me: Rank, timeout: timedelta) -> None:
    """Join the group of MPI, which decides which process is which rank. Raises RuntimeError if that is not the trial's
    rank."""
    dist.init_process_group("mpi", timeout=timeout)
    actual, expected = (dist.get_rank(), dist.get_world_size()), (me.rank, me.world_size)
    if actual != expected:  # without mpirun, each rank has a world of size 1
        leave_group()
        by_hand = MPIRUN_EXAMPLE.format(me.world_size)
        raise RuntimeError(
            f"backend = 'mpi': MPI says rank {actual[0]} of {actual[1]}, the trial rank {expected[0]} of "
            f"{expected[1]}: start the ranks by hand, `{by_hand}` (Open MPI)"
        )


def timeout_s(trial: Trial) -> float:
    """Torch's timeout for a late rank, in s (its default is 30 minutes)."""
    # Longer than injected delays, and longer than the console waits, since only the console can name the late rank.
    longest_ms = max((bottleneck.sleep_ms for bottleneck in trial.bottleneck), default=0)
    return START_S + PATIENCE * trial.stall_s + LONGEST_JITTER * longest_ms / 1000


def leave_group() -> None:
    """Leave the group, and end its threads: a thread that frees a tensor while Python shuts down aborts the process."""
    dist.destroy_process_group()
    gc.collect()  # the threads end with the last reference to the group, which may be in a cycle with a DDP
