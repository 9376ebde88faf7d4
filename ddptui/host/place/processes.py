"""Environments that describe one process: torchrun's, and those that a user or a script sets by hand."""

from ddptui.host.place.place import Environ, Place, PlaceError, Variables, quoted

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
    variables = Variables(environ, OF_TORCHRUN)
    world = variables.number("WORLD_SIZE", 1)
    local_world = variables.number("LOCAL_WORLD_SIZE", 1, world)
    nodes = variables.number("GROUP_WORLD_SIZE", 1, world)  # torchrun calls the processes of one agent a group
    return Place(
        kind="torchrun",
        rank=variables.number("RANK", 0, world - 1),
        world=world,
        local_rank=variables.number("LOCAL_RANK", 0, local_world - 1),
        local_world=local_world,
        node=variables.number("GROUP_RANK", 0, nodes - 1),
        nodes=nodes,
        address=variables.text("MASTER_ADDR"),
        port=variables.port("MASTER_PORT"),
        says=variables.meanings(PROCESS | LOCAL | GROUPS),
    )


def is_env(environ: Environ) -> bool:
    """Whether the variables that init_method='env://' needs are set."""
    return all(environ.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))


def env(environ: Environ) -> Place:
    """By hand: the ranks meet at an address. Raises PlaceError."""
    variables = Variables(environ, OF_ENV)
    return _by_hand("env", variables, variables.text("MASTER_ADDR"), variables.port("MASTER_PORT"))


def is_file(environ: Environ) -> bool:
    """Whether INIT_METHOD names a file, and a rank is set."""
    # a file alone says no place: tasks of Slurm may meet in one, too
    return environ.get("INIT_METHOD", "").startswith(SCHEME) and all(environ.get(name) for name in PROCESS)


def file(environ: Environ) -> Place:
    """By hand: the ranks meet in a shared file. Raises PlaceError."""
    variables = Variables(environ, OF_FILE)
    url = variables.text("INIT_METHOD")
    path = url.removeprefix(SCHEME)
    if path == url or not path.startswith("/"):
        raise PlaceError(f"INIT_METHOD={quoted(url)} names no shared file: file:///folder/that/all/nodes/see/name")
    return _by_hand("file", variables, file=path)


def _by_hand(
    kind: str, variables: Variables, address: str | None = None, port: int | None = None, file: str | None = None
) -> Place:
    """RANK and WORLD_SIZE count processes. Without other variables, ranks are on nodes in blocks."""
    world = variables.number("WORLD_SIZE", 1)
    rank = variables.number("RANK", 0, world - 1)
    local_world = _local_world(variables, world)
    local_rank, node, nodes = rank % local_world, rank // local_world, -(-world // local_world)  # rounded up
    if variables.has("LOCAL_RANK"):
        local_rank = variables.number("LOCAL_RANK", 0, local_world - 1)
    if variables.has("NNODES"):
        nodes = variables.number("NNODES", 1, world)
    if variables.has("NODE_RANK"):
        node = variables.number("NODE_RANK", 0, nodes - 1)
    if node >= nodes:
        raise variables.error(f"rank {rank}, with {local_world} on its node, is on none of NNODES={nodes} nodes")
    has_node = any(map(variables.has, LOCAL | NODES))
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
        file=file,
        says=variables.meanings(PROCESS | LOCAL | NODES) + (() if has_node else (NO_NODE,)),
    )


def _local_world(variables: Variables, world: int) -> int:
    if variables.has("LOCAL_WORLD_SIZE"):
        return variables.number("LOCAL_WORLD_SIZE", 1, world)
    if variables.has("NNODES"):
        nodes = variables.number("NNODES", 1, world)
        if world % nodes:  # which nodes have a rank more is not known
            raise variables.error(f"LOCAL_WORLD_SIZE is not set, and {world} ranks on NNODES={nodes} are uneven")
        return world // nodes
    if variables.has("LOCAL_RANK"):
        raise variables.error("LOCAL_WORLD_SIZE is not set, but LOCAL_RANK is")
    return 1
