"""Environments that describe a node, which starts its ranks itself: PAI-DLC's, and Kubeflow's two kinds of job."""

from ddptui.host.place.place import Environ, Place, PlaceError, Variables

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
    """Whether Alibaba's PAI-DLC has set the variables."""
    # It sets no LOCAL_RANK: where there is one, a launcher inside the node has set RANK for its own processes.
    has_torch_variables = any(name in environ for name in ("LOCAL_RANK", "PET_NNODES"))
    named = environ.get("NPROC_PER_NODE") or environ.get("DLC_JOB_ID")  # the id is undocumented: only a hint
    return bool(environ.get("RANK") and named) and not has_torch_variables


def dlc(environ: Environ) -> Place:
    """RANK and WORLD_SIZE count nodes, whatever a node runs. Raises PlaceError."""
    # the table: https://www.alibabacloud.com/help/en/pai/general-environment-variables
    variables = Variables(environ, OF_DLC)
    nodes = variables.number("WORLD_SIZE", 1)
    gpus = variables.number("NPROC_PER_NODE") if variables.has("NPROC_PER_NODE") else 0
    says = variables.meanings(DLC) + (() if gpus else (NO_GPUS,))
    return _node("dlc", variables, variables.number("RANK", 0, nodes - 1), nodes, gpus or 1, says)


def is_pytorchjob(environ: Environ) -> bool:
    """Whether Kubeflow's training operator, v1, has set the variables."""
    # an old release sets no PET_…, so it looks like env://, and with one process a pod it is the same
    return bool(environ.get("PET_NNODES") and environ.get("RANK")) and not environ.get("LOCAL_RANK")


def pytorchjob(environ: Environ) -> Place:
    """RANK is the pod in all releases. WORLD_SIZE counts pods in old ones, and pods × nprocPerNode in the last ones,
    which set PET_… as well. Raises PlaceError."""
    variables = Variables(environ, OF_PYTORCHJOB)
    world = variables.number("WORLD_SIZE", 1)
    nodes = variables.number("PET_NNODES", 1) if variables.has("PET_NNODES") else world
    if environ.get("PET_NPROC_PER_NODE", "") in ("", *COUNTED_BY_TORCHRUN):  # then WORLD_SIZE counts one rank a pod
        ranks, rest = divmod(world, nodes)
        if rest or not ranks:
            raise variables.error(f"WORLD_SIZE={world} is no multiple of PET_NNODES={nodes}")
    else:
        ranks = variables.number("PET_NPROC_PER_NODE", 1)
        if world not in (nodes, nodes * ranks):
            raise variables.error(f"WORLD_SIZE={world} is neither {nodes} pods nor {nodes} × {ranks} processes")
    meanings = {
        "RANK": "the node (pod), not the process",
        "WORLD_SIZE": "nodes (pods), not processes" if world == nodes else "processes of all nodes together",
        "PET_NNODES": "nodes",
    }
    node = variables.number("RANK", 0, nodes - 1)
    return _node("pytorchjob", variables, node, nodes, ranks, variables.meanings(meanings | PER_NODE))


def is_trainjob(environ: Environ) -> bool:
    """Whether Kubeflow's Trainer, v2, has set the variables: PET_… are torchrun's own options, and RANK is not set."""
    return bool(environ.get("PET_NODE_RANK")) and not environ.get("RANK")


def trainjob(environ: Environ) -> Place:
    """A pod is a node. Raises PlaceError."""
    variables = Variables(environ, OF_TRAINJOB)
    nodes = variables.number("PET_NNODES", 1)
    node = variables.number("PET_NODE_RANK", 0, nodes - 1)
    value = variables.text("PET_NPROC_PER_NODE")
    if value in COUNTED_BY_TORCHRUN:  # torchrun would count this pod's GPUs; those of the others are unknown here
        raise PlaceError(f"PET_NPROC_PER_NODE={value} is no number: set trainer.numProcPerNode in the TrainJob")
    ranks = variables.number("PET_NPROC_PER_NODE", 1)
    return _node("trainjob", variables, node, nodes, ranks, variables.meanings(TRAINJOB), prefix="PET_")


def _node(
    kind: str, variables: Variables, node: int, nodes: int, ranks: int, says: tuple[str, ...], *, prefix: str = ""
) -> Place:
    """The place of a node with a block of `ranks` ranks, as many as every other node has."""
    return Place(
        kind=kind,
        rank=node * ranks,
        world=nodes * ranks,
        local_rank=0,
        local_world=ranks,
        node=node,
        nodes=nodes,
        address=variables.text(f"{prefix}MASTER_ADDR"),
        port=variables.port(f"{prefix}MASTER_PORT"),
        is_node=True,
        says=says,
    )
