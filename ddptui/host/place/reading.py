"""Reads variables of an environment; an error names the variable, what is wrong with it, and who sets it."""

from collections.abc import Mapping
from typing import NamedTuple

from ddptui.host.place.place import PlaceError

Environ = Mapping[str, str]
MOST = 2**20  # ranks, or nodes: far more than there are
LARGEST_ID = 2**32  # of a job
LAST_PORT = 65535
LONGEST_QUOTE = 60


def text(environ: Environ, name: str, setter: str) -> str:
    """An empty variable counts as none: so do the platforms, which leave what they do not know empty."""
    value = environ.get(name, "").strip()
    if not value:
        raise PlaceError(f"{name} is not set: {setter}")
    return value


def number(environ: Environ, name: str, setter: str, low: int = 0, high: int = MOST) -> int:
    """A whole number from low to high, both included."""
    value = text(environ, name, setter)
    if not (value.isascii() and value.removeprefix("-").isdecimal() and len(value) < 20):
        raise PlaceError(f"{name}={quoted(value)} is no whole number: {setter}")
    if not low <= int(value) <= high:
        raise PlaceError(f"{name}={value} is out of range ({low} to {high}): {setter}")
    return int(value)


def port(environ: Environ, name: str, setter: str) -> int:
    return number(environ, name, setter, 1, LAST_PORT)


def first_set(environ: Environ, *names: str) -> str:
    """The first of these variables that is set; where none is, the last, to be missed under that name."""
    return next((name for name in names if environ.get(name, "").strip()), names[-1])


def said(environ: Environ, meanings: Mapping[str, str]) -> tuple[str, ...]:
    """Each variable that is set, and what it was read as."""
    return tuple(f"{name}={quoted(environ[name])}: {means}" for name, means in meanings.items() if environ.get(name))


def quoted(value: str) -> str:
    return printable(value)[:LONGEST_QUOTE]


def printable(value: str) -> str:
    """Nothing of it moves the cursor."""
    return value.encode("unicode_escape").decode()


MEANINGS = {
    "LOCAL_RANK": "this process among those of its node",
    "LOCAL_WORLD_SIZE": "processes of this node",
    "NODE_RANK": "the node",
    "NNODES": "nodes",
}
UNSAID = "nothing says which ranks share a node: each counts as a node of its own (LOCAL_RANK, LOCAL_WORLD_SIZE would)"


class NodePlace(NamedTuple):
    local_rank: int
    local_world: int
    node: int
    nodes: int


def node_place(environ: Environ, rank: int, world: int, setter: str) -> NodePlace:
    """Ranks are on nodes in blocks, if nothing else is said."""
    local_world = _local_world(environ, world, setter)
    local_rank = rank % local_world
    if environ.get("LOCAL_RANK"):
        local_rank = number(environ, "LOCAL_RANK", setter, 0, local_world - 1)
    nodes = number(environ, "NNODES", setter, 1, world) if environ.get("NNODES") else -(-world // local_world)
    node = number(environ, "NODE_RANK", setter, 0, nodes - 1) if environ.get("NODE_RANK") else rank // local_world
    if node >= nodes:
        raise PlaceError(f"rank {rank}, with {local_world} on its node, is on none of NNODES={nodes} nodes: {setter}")
    return NodePlace(local_rank, local_world, node, nodes)


def _local_world(environ: Environ, world: int, setter: str) -> int:
    if environ.get("LOCAL_WORLD_SIZE"):
        return number(environ, "LOCAL_WORLD_SIZE", setter, 1, world)
    if environ.get("NNODES"):
        nodes = number(environ, "NNODES", setter, 1, world)
        if world % nodes:
            raise PlaceError(f"LOCAL_WORLD_SIZE is not set, and {world} ranks on NNODES={nodes} are uneven: {setter}")
        return world // nodes
    if environ.get("LOCAL_RANK"):
        raise PlaceError(f"LOCAL_WORLD_SIZE is not set, but LOCAL_RANK is: {setter}")
    return 1


def unsaid(environ: Environ) -> tuple[str, ...]:
    return () if any(environ.get(name) for name in MEANINGS) else (UNSAID,)
