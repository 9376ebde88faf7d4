"""Kubeflow's TrainJob (Trainer v2): a pod is a node, and PET_… are torchrun's own options. RANK is not set."""

from ddptui.host.place.place import Place, PlaceError, place_of_node
from ddptui.host.place.reading import Environ, number, port, said, text

SETTER = "a TrainJob of a torch runtime sets it in its pods"
MEANINGS = {
    "PET_NODE_RANK": "the node",
    "PET_NNODES": "nodes",
    "PET_NPROC_PER_NODE": "processes a node",
}


def detected(environ: Environ) -> bool:
    return bool(environ.get("PET_NODE_RANK")) and not environ.get("RANK")


def place(environ: Environ) -> Place:
    nodes = number(environ, "PET_NNODES", SETTER, 1)
    return place_of_node(
        "trainjob",
        number(environ, "PET_NODE_RANK", SETTER, 0, nodes - 1),
        nodes,
        _processes(environ),
        said(environ, MEANINGS),
        text(environ, "PET_MASTER_ADDR", SETTER),
        port(environ, "PET_MASTER_PORT", SETTER),
    )


def _processes(environ: Environ) -> int:
    """torchrun would count GPUs where a word stands; of the other nodes nobody here can."""
    value = text(environ, "PET_NPROC_PER_NODE", SETTER)
    if value in ("auto", "gpu", "cpu"):
        raise PlaceError(f"PET_NPROC_PER_NODE={value} is no number: say trainer.numProcPerNode in the TrainJob")
    return number(environ, "PET_NPROC_PER_NODE", SETTER, 1)
