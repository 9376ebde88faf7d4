"""Which node a rank is on, where a rank is told by hand: by whatever is said of it, or a node of its own."""

from typing import NamedTuple

from ddptui.place.place import PlaceError
from ddptui.place.reading import Environ, number

MEANINGS = {
    "LOCAL_RANK": "this process among those of its node",
    "LOCAL_WORLD_SIZE": "processes of this node",
    "NODE_RANK": "the node",
    "NNODES": "nodes",
}
UNSAID = "nothing says which ranks share a node: each counts as a node of its own (LOCAL_RANK, LOCAL_WORLD_SIZE would)"


class Standing(NamedTuple):
    local_rank: int
    local_world: int
    node: int
    nodes: int


def standing(environ: Environ, rank: int, world: int, setter: str) -> Standing:
    """Ranks are on nodes in blocks, if nothing else is said."""
    local_world = _local_world(environ, world, setter)
    local_rank = rank % local_world
    if environ.get("LOCAL_RANK"):
        local_rank = number(environ, "LOCAL_RANK", setter, 0, local_world - 1)
    nodes = number(environ, "NNODES", setter, 1, world) if environ.get("NNODES") else -(-world // local_world)
    node = number(environ, "NODE_RANK", setter, 0, nodes - 1) if environ.get("NODE_RANK") else rank // local_world
    if node >= nodes:
        raise PlaceError(f"rank {rank}, with {local_world} on its node, is on none of NNODES={nodes} nodes: {setter}")
    return Standing(local_rank, local_world, node, nodes)


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
