"""Environments that describe a node, which starts its ranks itself: PAI-DLC's, and Kubeflow's two kinds of job."""

from ddptui.host.place.place import Place, PlaceError, place_of_node
from ddptui.host.place.variables import Environ, meanings_of, number, port, text

OF_DLC = "PAI-DLC sets it on the nodes of a PyTorch job"
OF_PYTORCHJOB = "a PyTorchJob with a Master sets it in its pods"
OF_TRAINJOB = "a TrainJob of a torch runtime sets it in its pods"
DLC = {
    "RANK": "the node, not the process",
    "WORLD_SIZE": "nodes, not processes",
    "NPROC_PER_NODE": "processes a node (its GPUs)",
}
NO_GPUS = "NPROC_PER_NODE says no GPUs: one process a node"
PER_NODE = {"PET_NPROC_PER_NODE": "processes a node"}
TRAINJOB = {"PET_NODE_RANK": "the node", "PET_NNODES": "nodes"} | PER_NODE
COUNTED_BY_TORCHRUN = ("auto", "gpu", "cpu")  # values of nproc_per_node for which torchrun counts what the node has


def is_dlc(environ: Environ) -> bool:
    """Whether Alibaba's PAI-DLC has set the variables. It sets no LOCAL_RANK: where there is one, a launcher inside the
    node has set RANK for its own processes."""
    has_torch_variables = any(name in environ for name in ("LOCAL_RANK", "PET_NNODES"))
    named = environ.get("NPROC_PER_NODE") or environ.get("DLC_JOB_ID")
    return bool(environ.get("RANK") and named) and not has_torch_variables


def dlc(environ: Environ) -> Place:
    """RANK and WORLD_SIZE count nodes, whatever a node runs. Raises PlaceError.

    As in the table of https://www.alibabacloud.com/help/en/pai/general-environment-variables; DLC_JOB_ID is not in it,
    and only a hint.
    """
    nodes = number(environ, "WORLD_SIZE", OF_DLC, 1)
    gpus = number(environ, "NPROC_PER_NODE", OF_DLC) if environ.get("NPROC_PER_NODE") else 0
    return place_of_node(
        "dlc",
        number(environ, "RANK", OF_DLC, 0, nodes - 1),
        nodes,
        gpus or 1,
        meanings_of(environ, DLC) + (() if gpus else (NO_GPUS,)),
        text(environ, "MASTER_ADDR", OF_DLC),
        port(environ, "MASTER_PORT", OF_DLC),
    )


def is_pytorchjob(environ: Environ) -> bool:
    """Whether Kubeflow's training operator, v1, has set the variables. An old release looks like env://, and with one
    process a pod it is the same."""
    return bool(environ.get("PET_NNODES") and environ.get("RANK")) and not environ.get("LOCAL_RANK")


def pytorchjob(environ: Environ) -> Place:
    """RANK is the pod in all releases. WORLD_SIZE counts pods in old ones, and pods × nprocPerNode in the last ones,
    which set PET_… as well. Raises PlaceError."""
    world = number(environ, "WORLD_SIZE", OF_PYTORCHJOB, 1)
    nodes = number(environ, "PET_NNODES", OF_PYTORCHJOB, 1) if environ.get("PET_NNODES") else world
    ranks = _ranks_of_pytorchjob(environ, world, nodes)
    meanings = {
        "RANK": "the node (pod), not the process",
        "WORLD_SIZE": "nodes (pods), not processes" if world == nodes else "processes of all nodes together",
        "PET_NNODES": "nodes",
    }
    return place_of_node(
        "pytorchjob",
        number(environ, "RANK", OF_PYTORCHJOB, 0, nodes - 1),
        nodes,
        ranks,
        meanings_of(environ, meanings | PER_NODE),
        text(environ, "MASTER_ADDR", OF_PYTORCHJOB),
        port(environ, "MASTER_PORT", OF_PYTORCHJOB),
    )


def _ranks_of_pytorchjob(environ: Environ, world: int, nodes: int) -> int:
    """The ranks of each pod. Where torchrun is to count them, WORLD_SIZE counts one a pod."""
    named = environ.get("PET_NPROC_PER_NODE", "")
    if not named or named in COUNTED_BY_TORCHRUN:
        ranks, rest = divmod(world, nodes)
        if rest or not ranks:
            raise PlaceError(f"WORLD_SIZE={world} is no multiple of PET_NNODES={nodes}: {OF_PYTORCHJOB}")
        return ranks
    ranks = number(environ, "PET_NPROC_PER_NODE", OF_PYTORCHJOB, 1)
    if world not in (nodes, nodes * ranks):
        raise PlaceError(f"WORLD_SIZE={world} is neither {nodes} pods nor {nodes} × {ranks} processes: {OF_PYTORCHJOB}")
    return ranks


def is_trainjob(environ: Environ) -> bool:
    """Whether Kubeflow's Trainer, v2, has set the variables: PET_… are torchrun's own options, and RANK is not set."""
    return bool(environ.get("PET_NODE_RANK")) and not environ.get("RANK")


def trainjob(environ: Environ) -> Place:
    """A pod is a node. Raises PlaceError."""
    nodes = number(environ, "PET_NNODES", OF_TRAINJOB, 1)
    return place_of_node(
        "trainjob",
        number(environ, "PET_NODE_RANK", OF_TRAINJOB, 0, nodes - 1),
        nodes,
        _ranks_of_trainjob(environ),
        meanings_of(environ, TRAINJOB),
        text(environ, "PET_MASTER_ADDR", OF_TRAINJOB),
        port(environ, "PET_MASTER_PORT", OF_TRAINJOB),
    )


def _ranks_of_trainjob(environ: Environ) -> int:
    """The ranks of each pod. torchrun would count this pod's GPUs for a word; those of the others are unknown here."""
    value = text(environ, "PET_NPROC_PER_NODE", OF_TRAINJOB)
    if value in COUNTED_BY_TORCHRUN:
        raise PlaceError(f"PET_NPROC_PER_NODE={value} is no number: set trainer.numProcPerNode in the TrainJob")
    return number(environ, "PET_NPROC_PER_NODE", OF_TRAINJOB, 1)
