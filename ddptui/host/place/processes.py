"""Environments that describe one process: torchrun's, and those that a user or a script sets by hand."""

from ddptui.host.place.place import Place, PlaceError
from ddptui.host.place.variables import Environ, meanings_of, number, port, quoted, text

OF_TORCHRUN = "torchrun sets it for the processes that it starts"
OF_ENV = "the script that starts the processes sets it for each of them, as init_method='env://' needs"
OF_FILE = "the script that starts the processes sets it for each of them, as init_method='file://…' needs"
PROCESS = {"RANK": "the process", "WORLD_SIZE": "processes"}
LOCAL = {"LOCAL_RANK": "this process among those of its node", "LOCAL_WORLD_SIZE": "processes of this node"}
GROUPS = {"GROUP_RANK": "the node", "GROUP_WORLD_SIZE": "nodes"}
NODES = {"NODE_RANK": "the node", "NNODES": "nodes"}
NO_NODE = "nothing says which ranks share a node: each counts as a node of its own (LOCAL_RANK, LOCAL_WORLD_SIZE would)"
SCHEME = "file://"


def is_torchrun(environ: Environ) -> bool:
    """Whether torchrun, or torch.distributed.launch, which is the same, has started this process."""
    return bool(environ.get("TORCHELASTIC_RUN_ID"))


def torchrun(environ: Environ) -> Place:
    """RANK and WORLD_SIZE count processes, GROUP_RANK and GROUP_WORLD_SIZE nodes. Raises PlaceError."""
    world = number(environ, "WORLD_SIZE", OF_TORCHRUN, 1)
    local_world = number(environ, "LOCAL_WORLD_SIZE", OF_TORCHRUN, 1, world)
    nodes = number(environ, "GROUP_WORLD_SIZE", OF_TORCHRUN, 1, world)
    return Place(
        kind="torchrun",
        rank=number(environ, "RANK", OF_TORCHRUN, 0, world - 1),
        world=world,
        local_rank=number(environ, "LOCAL_RANK", OF_TORCHRUN, 0, local_world - 1),
        local_world=local_world,
        node=number(environ, "GROUP_RANK", OF_TORCHRUN, 0, nodes - 1),
        nodes=nodes,
        address=text(environ, "MASTER_ADDR", OF_TORCHRUN),
        port=port(environ, "MASTER_PORT", OF_TORCHRUN),
        says=meanings_of(environ, PROCESS | LOCAL | GROUPS),
    )


def is_env(environ: Environ) -> bool:
    """Whether the variables that init_method='env://' needs are set."""
    return all(environ.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))


def env(environ: Environ) -> Place:
    """By hand: the ranks meet at an address. Raises PlaceError."""
    address = text(environ, "MASTER_ADDR", OF_ENV)
    return _by_hand(environ, "env", OF_ENV, address=address, port=port(environ, "MASTER_PORT", OF_ENV))


def is_file(environ: Environ) -> bool:
    """Whether INIT_METHOD names a file, and a rank is set. A file alone says no place: tasks of Slurm may meet in one,
    too."""
    return environ.get("INIT_METHOD", "").startswith(SCHEME) and all(environ.get(name) for name in PROCESS)


def file(environ: Environ) -> Place:
    """By hand: the ranks meet in a shared file. Raises PlaceError."""
    return _by_hand(environ, "file", OF_FILE, file=_path(text(environ, "INIT_METHOD", OF_FILE)))


def _by_hand(
    environ: Environ, kind: str, setter: str, *, address: str | None = None, port: int | None = None, file: str = ""
) -> Place:
    """RANK and WORLD_SIZE count processes. Without other variables, ranks are on nodes in blocks."""
    world = number(environ, "WORLD_SIZE", setter, 1)
    rank = number(environ, "RANK", setter, 0, world - 1)
    local_world = _local_world(environ, world, setter)
    local_rank = rank % local_world
    if environ.get("LOCAL_RANK"):
        local_rank = number(environ, "LOCAL_RANK", setter, 0, local_world - 1)
    nodes = number(environ, "NNODES", setter, 1, world) if environ.get("NNODES") else -(-world // local_world)
    node = number(environ, "NODE_RANK", setter, 0, nodes - 1) if environ.get("NODE_RANK") else rank // local_world
    if node >= nodes:
        raise PlaceError(f"rank {rank}, with {local_world} on its node, is on none of NNODES={nodes} nodes: {setter}")
    has_node = any(environ.get(name) for name in LOCAL | NODES)
    return Place(
        kind=kind,
        rank=rank,
        world=world,
        local_rank=local_rank,
        local_world=local_world,
        node=node,
        nodes=nodes,
        address=address,
        port=port,
        file=file or None,
        says=meanings_of(environ, PROCESS | LOCAL | NODES) + (() if has_node else (NO_NODE,)),
    )


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


def _path(url: str) -> str:
    path = url.removeprefix(SCHEME)
    if path == url or not path.startswith("/"):
        raise PlaceError(f"INIT_METHOD={quoted(url)} names no shared file: file:///folder/that/all/nodes/see/name")
    return path
