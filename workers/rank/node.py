"""Which ranks this machine has. On one machine: all of them. On several, each one's environment says it:

NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=15432 python -m workers.spawn world_size=4
"""

import os
import sys
from typing import NamedTuple

from ddptui.config.engine import spread
from ddptui.config.trial import Trial
from ddptui.host.network import NetworkError, interface_towards, resolve

LOCALHOST = "127.0.0.1"
ANY_PORT = 0  # one that is free


class Node(NamedTuple):
    """This machine among those of a run."""

    number: int
    ranks: range
    address: str  # with the port: where all ranks meet, on node 0
    port: int


def this_node(trial: Trial) -> Node:
    """The node that the environment describes. Ends the process with one line if it is wrong."""
    if "NNODES" not in os.environ:
        return Node(0, range(trial.world_size), LOCALHOST, ANY_PORT)
    nodes, number, port = (_number(name) for name in ("NNODES", "NODE_RANK", "MASTER_PORT"))
    parts = spread(trial.world_size, nodes)
    if number >= len(parts):
        sys.exit(f"NODE_RANK={number}: {trial.world_size} ranks on {nodes} nodes leave nothing for this one")
    address = os.environ.get("MASTER_ADDR", LOCALHOST)
    return Node(number, parts[number], choose_interface(address) if nodes > 1 else address, port)


def choose_interface(host: str) -> str:
    """Have ranks use the network interface that leads to `host`, and return its address; or end the process."""
    try:
        address = resolve(host)
        name = interface_towards(address).name
    except NetworkError as error:
        sys.exit(f"{error}")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", name)  # else it takes that of this machine's name, perhaps loopback
    os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")  # = means: this one, not all that begin so
    return address


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    if not text.isdecimal():
        sys.exit(f"{name}={text}: with NNODES, each node needs NODE_RANK, MASTER_ADDR and MASTER_PORT, too")
    return int(text)
