"""Plain env://, by hand or by a script: RANK and WORLD_SIZE are processes."""

from ddptui.host.place.place import Place
from ddptui.host.place.reading import MEANINGS, Environ, node_place, number, port, said, text, unsaid

SETTER = "whoever starts the processes sets it for each of them, as init_method='env://' wants"
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR")


def detected(environ: Environ) -> bool:
    return all(environ.get(name) for name in NEEDED)


def place(environ: Environ) -> Place:
    world = number(environ, "WORLD_SIZE", SETTER, 1)
    rank = number(environ, "RANK", SETTER, 0, world - 1)
    here = node_place(environ, rank, world, SETTER)
    meanings = {"RANK": "the process", "WORLD_SIZE": "processes", **MEANINGS}
    return Place(
        kind="env",
        rank=rank,
        world=world,
        local_rank=here.local_rank,
        local_world=here.local_world,
        node=here.node,
        nodes=here.nodes,
        address=text(environ, "MASTER_ADDR", SETTER),
        port=port(environ, "MASTER_PORT", SETTER),
        says=said(environ, meanings) + unsaid(environ),
    )
