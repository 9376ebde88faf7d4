"""Alibaba's PAI-DLC: RANK is the node and WORLD_SIZE how many nodes there are, whatever a node runs. As in the table of
https://www.alibabacloud.com/help/en/pai/general-environment-variables; DLC_JOB_ID is not in it, and only a hint."""

from ddptui.host.place.place import Place, place_of_node
from ddptui.host.place.reading import Environ, number, port, said, text

SETTER = "PAI-DLC sets it on the nodes of a PyTorch job"
MEANINGS = {
    "RANK": "the node, not the process",
    "WORLD_SIZE": "nodes, not processes",
    "NPROC_PER_NODE": "processes a node (its GPUs)",
}
ALONE = "NPROC_PER_NODE says no GPUs: one process a node"


def detected(environ: Environ) -> bool:
    """LOCAL_RANK is not the platform's: somebody has started processes since, and says theirs."""
    of_torch = any(name in environ for name in ("LOCAL_RANK", "PET_NNODES"))
    return bool(environ.get("RANK") and (environ.get("NPROC_PER_NODE") or environ.get("DLC_JOB_ID"))) and not of_torch


def place(environ: Environ) -> Place:
    nodes = number(environ, "WORLD_SIZE", SETTER, 1)
    gpus = number(environ, "NPROC_PER_NODE", SETTER) if environ.get("NPROC_PER_NODE") else 0
    return place_of_node(
        "dlc",
        number(environ, "RANK", SETTER, 0, nodes - 1),
        nodes,
        gpus or 1,
        said(environ, MEANINGS) + (() if gpus else (ALONE,)),
        text(environ, "MASTER_ADDR", SETTER),
        port(environ, "MASTER_PORT", SETTER),
    )
