"""Kubeflow's PyTorchJob (training operator, v1): RANK is the pod, in all releases. WORLD_SIZE is how many pods there
are in the old ones, and pods × nprocPerNode in the last ones, which set PET_… beside it."""

from ddptui.host.place.place import Place, PlaceError, place_of_node
from ddptui.host.place.reading import Environ, number, port, said, text

SETTER = "a PyTorchJob with a Master sets it in its pods"
WORDS = ("auto", "gpu", "cpu")


def detected(environ: Environ) -> bool:
    """An old release looks like env://, and with one process a pod it is."""
    return bool(environ.get("PET_NNODES") and environ.get("RANK")) and not environ.get("LOCAL_RANK")


def place(environ: Environ) -> Place:
    world = number(environ, "WORLD_SIZE", SETTER, 1)
    nodes = number(environ, "PET_NNODES", SETTER, 1) if environ.get("PET_NNODES") else world
    each = _processes(environ, world, nodes)
    return place_of_node(
        "pytorchjob",
        number(environ, "RANK", SETTER, 0, nodes - 1),
        nodes,
        each,
        said(environ, _meanings(world, nodes)),
        text(environ, "MASTER_ADDR", SETTER),
        port(environ, "MASTER_PORT", SETTER),
    )


def _processes(environ: Environ, world: int, nodes: int) -> int:
    """A word leaves it to torchrun how many; then WORLD_SIZE counts one a pod."""
    named = environ.get("PET_NPROC_PER_NODE", "")
    if not named or named in WORDS:
        each, rest = divmod(world, nodes)
        if rest or not each:
            raise PlaceError(f"WORLD_SIZE={world} is no multiple of PET_NNODES={nodes}: {SETTER}")
        return each
    each = number(environ, "PET_NPROC_PER_NODE", SETTER, 1)
    if world not in (nodes, nodes * each):
        raise PlaceError(f"WORLD_SIZE={world} is neither {nodes} pods nor {nodes} × {each} processes: {SETTER}")
    return each


def _meanings(world: int, nodes: int) -> dict[str, str]:
    return {
        "RANK": "the node (pod), not the process",
        "WORLD_SIZE": "nodes (pods), not processes" if world == nodes else "processes of all nodes together",
        "PET_NNODES": "nodes",
        "PET_NPROC_PER_NODE": "processes a node",
    }
