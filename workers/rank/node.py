"""Determines which ranks this machine has: all of them, or, with several machines, those that the environment says:

NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=15432 python -m workers.spawn world_size=4
"""

import os
import sys
from typing import NamedTuple

from ddptui.config.preset import spread
from ddptui.config.trial import Trial
from ddptui.host.network import NetworkError, interface_towards, resolve

LOCALHOST = "127.0.0.1"
ANY_PORT = 0  # the system chooses a free port


class Node(NamedTuple):
    """This machine among the machines of a run."""

    number: int
    ranks: range
    address: str  # address and port are those of node 0, where all ranks meet
    port: int


def this_node(trial: Trial) -> Node:
    """The node that the environment describes. Ends the process with a message if a variable is wrong."""
    if "NNODES" not in os.environ:
        return Node(0, range(trial.world_size), LOCALHOST, ANY_PORT)
    nodes, number, port = (_number(name) for name in ("NNODES", "NODE_RANK", "MASTER_PORT"))
    parts = spread(trial.world_size, nodes)
    if number >= len(parts):
        sys.exit(f"NODE_RANK={number}: no rank is left for this node; use fewer than {nodes} nodes")
    address = os.environ.get("MASTER_ADDR", LOCALHOST)
    return Node(number, parts[number], choose_interface(address) if nodes > 1 else address, port)


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
