"""A shared file, by hand: RANK and WORLD_SIZE are processes, INIT_METHOD names the file that they meet in."""

from ddptui.host.place.place import Place, PlaceError
from ddptui.host.place.reading import MEANINGS, Environ, node_place, number, quoted, said, text, unsaid

SETTER = "whoever starts the processes sets it for each of them, as init_method='file://…' wants"
SCHEME = "file://"
NUMBERS = ("RANK", "WORLD_SIZE")


def detected(environ: Environ) -> bool:
    """A file alone says no place: tasks of Slurm may meet in one, too."""
    return environ.get("INIT_METHOD", "").startswith(SCHEME) and all(environ.get(name) for name in NUMBERS)


def place(environ: Environ) -> Place:
    world = number(environ, "WORLD_SIZE", SETTER, 1)
    rank = number(environ, "RANK", SETTER, 0, world - 1)
    here = node_place(environ, rank, world, SETTER)
    meanings = {"RANK": "the process", "WORLD_SIZE": "processes", **MEANINGS}
    return Place(
        kind="file",
        rank=rank,
        world=world,
        local_rank=here.local_rank,
        local_world=here.local_world,
        node=here.node,
        nodes=here.nodes,
        file=_path(text(environ, "INIT_METHOD", SETTER)),
        says=said(environ, meanings) + unsaid(environ),
    )


def _path(url: str) -> str:
    path = url.removeprefix(SCHEME)
    if path == url or not path.startswith("/"):
        raise PlaceError(f"INIT_METHOD={quoted(url)} names no shared file: file:///folder/that/all/nodes/see/name")
    return path
