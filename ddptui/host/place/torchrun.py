"""torchrun, and torch.distributed.launch, which is the same: RANK and WORLD_SIZE are processes, groups are nodes."""

from ddptui.host.place.place import Place
from ddptui.host.place.reading import Environ, number, port, said, text

SETTER = "torchrun sets it for the processes that it starts"
MEANINGS = {
    "RANK": "the process",
    "WORLD_SIZE": "processes",
    "LOCAL_RANK": "this process among those of its node",
    "LOCAL_WORLD_SIZE": "processes of this node",
    "GROUP_RANK": "the node",
    "GROUP_WORLD_SIZE": "nodes",
}


def detected(environ: Environ) -> bool:
    return bool(environ.get("TORCHELASTIC_RUN_ID"))


def place(environ: Environ) -> Place:
    world = number(environ, "WORLD_SIZE", SETTER, 1)
    local_world = number(environ, "LOCAL_WORLD_SIZE", SETTER, 1, world)
    nodes = number(environ, "GROUP_WORLD_SIZE", SETTER, 1, world)
    return Place(
        kind="torchrun",
        rank=number(environ, "RANK", SETTER, 0, world - 1),
        world=world,
        local_rank=number(environ, "LOCAL_RANK", SETTER, 0, local_world - 1),
        local_world=local_world,
        node=number(environ, "GROUP_RANK", SETTER, 0, nodes - 1),
        nodes=nodes,
        address=text(environ, "MASTER_ADDR", SETTER),
        port=port(environ, "MASTER_PORT", SETTER),
        says=said(environ, MEANINGS),
    )
