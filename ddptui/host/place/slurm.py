"""A task of srun is a process. Where they meet is said nowhere: it follows from the list of nodes and the job's id."""

from ddptui.host.network import FIRST_PORT, PORTS
from ddptui.host.place.place import Place, PlaceError
from ddptui.host.place.reading import LARGEST_ID, Environ, first_set, number, said, text
from ddptui.host.place.slurm_nodes import counts, node_names

SETTER = "srun sets it for the tasks that it starts"


def detected(environ: Environ) -> bool:
    return bool(environ.get("SLURM_PROCID"))


def place(environ: Environ) -> Place:
    """Of the step where it says so, else of the job, which may have more nodes than the step."""
    tasks = first_set(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    world = number(environ, tasks, SETTER, 1)
    _check_step(environ, world)
    how_many = first_set(environ, "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES")
    nodes = number(environ, how_many, SETTER, 1)
    node = number(environ, "SLURM_NODEID", SETTER, 0, nodes - 1)
    local_world = _tasks_of_node(environ, node)
    node_list = first_set(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    return Place(
        kind="slurm",
        rank=number(environ, "SLURM_PROCID", SETTER, 0, world - 1),
        world=world,
        local_rank=number(environ, "SLURM_LOCALID", SETTER, 0, local_world - 1),
        local_world=local_world,
        node=node,
        nodes=nodes,
        address=node_names(text(environ, node_list, SETTER))[0],
        port=port_of_job(number(environ, "SLURM_JOB_ID", SETTER, 0, LARGEST_ID)),
        says=said(environ, _meanings(tasks, how_many, node_list)),
    )


def port_of_job(job: int) -> int:
    return FIRST_PORT + job % PORTS


def _check_step(environ: Environ, world: int) -> None:
    """The batch script itself is called task 0, too, and is none of the ranks."""
    if world > 1 and not (environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID")):
        raise PlaceError("SLURM_STEP_ID is not set: this is the batch script; its ranks are started with srun")


def _tasks_of_node(environ: Environ, node: int) -> int:
    name = first_set(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    each = counts(text(environ, name, SETTER))
    if node >= len(each) or each[node] < 1:
        raise PlaceError(f"{name}={environ[name]} says no tasks of node {node} (SLURM_NODEID): {SETTER}")
    return each[node]


def _meanings(tasks: str, nodes: str, node_list: str) -> dict[str, str]:
    return {
        "SLURM_PROCID": "the process",
        tasks: "processes",
        "SLURM_LOCALID": "this process among those of its node",
        "SLURM_NODEID": "the node",
        nodes: "nodes",
        node_list: "the first of them has rank 0: they meet there",
        "SLURM_JOB_ID": f"the port follows from it: {FIRST_PORT} + id % {PORTS}",
    }
