"""Slurm's environments: a task of srun is a process, a job of an array is a node. Slurm's grammar of node lists is read
here, too, because scontrol may be missing on a node."""

import re
from itertools import product
from math import prod

from ddptui.host.network import FIRST_PORT, PORTS
from ddptui.host.place.place import LARGEST_ID, Environ, Place, PlaceError, Variables, quoted

OF_SRUN = "srun sets it for the tasks that it starts"
OF_ARRAY = "Slurm sets it for a job of sbatch --array=0-N"
ARRAY = {
    "SLURM_ARRAY_TASK_ID": "the node",
    "SLURM_ARRAY_TASK_MIN": "the first node's",
    "SLURM_ARRAY_TASK_COUNT": "nodes",
}
MOST_NAMES = 65_536  # a longer list is an error: no cluster has so many nodes
ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]\s]+\])+")  # up to a comma that is in no brackets
PART = re.compile(r"\[([^\[\]]+)\]|([^\[\]]+)")  # of an item: what is inside brackets, or outside
RANGE = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
COUNT = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?", re.ASCII)


def is_task(environ: Environ) -> bool:
    """Whether Slurm has started this process as a task."""
    return bool(environ.get("SLURM_PROCID"))


def task(environ: Environ) -> Place:
    """The place in the step; in the job, where no variable describes the step. Raises PlaceError."""
    variables = Variables(environ, OF_SRUN)
    # step before job: a job may have more nodes than its step
    tasks = variables.first_set("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    world = variables.number(tasks, 1)
    if world > 1 and not (variables.has("SLURM_STEP_ID") or variables.has("SLURM_STEPID")):
        # the batch script is called task 0 as well, but it is none of the ranks
        raise PlaceError("SLURM_STEP_ID is not set: this is the batch script; its ranks are started with srun")
    node_count = variables.first_set("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES")
    nodes = variables.number(node_count, 1)
    node = variables.number("SLURM_NODEID", 0, nodes - 1)
    local_world = _tasks_of_node(variables, node)
    node_list = variables.first_set("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    meanings = {
        "SLURM_PROCID": "the process",
        tasks: "processes",
        "SLURM_LOCALID": "this process among those of its node",
        "SLURM_NODEID": "the node",
        node_count: "nodes",
        node_list: "the first of them has rank 0: they meet there",
        "SLURM_JOB_ID": f"the port follows from it: {FIRST_PORT} + id % {PORTS}",
    }
    return Place(
        kind="slurm",
        rank=variables.number("SLURM_PROCID", 0, world - 1),
        world=world,
        local_rank=variables.number("SLURM_LOCALID", 0, local_world - 1),
        local_world=local_world,
        node=node,
        nodes=nodes,
        # no variable says where the ranks meet: every task derives it from the same list and id
        address=node_names(variables.text(node_list))[0],
        port=FIRST_PORT + variables.number("SLURM_JOB_ID", 0, LARGEST_ID) % PORTS,
        says=variables.meanings(meanings),
    )


def _tasks_of_node(variables: Variables, node: int) -> int:
    name = variables.first_set("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    value = variables.text(name)
    tasks = counts(value)
    if node >= len(tasks) or tasks[node] < 1:
        raise variables.error(f"{name}={value} says no tasks of node {node} (SLURM_NODEID)")
    return tasks[node]


def is_array(environ: Environ) -> bool:
    """Whether this is a job of an array. In a job of several tasks, a task of srun is a rank even so."""
    return bool(environ.get("SLURM_ARRAY_TASK_ID")) and environ.get("SLURM_NTASKS", "1") == "1"


def array(environ: Environ) -> Place:
    """Each job of an array is a node, which starts its ranks itself. They meet in a shared file. Raises PlaceError."""
    variables = Variables(environ, OF_ARRAY)
    nodes = variables.number("SLURM_ARRAY_TASK_COUNT", 1)
    first = variables.number("SLURM_ARRAY_TASK_MIN", 0, LARGEST_ID)
    last = first + nodes - 1
    if "SLURM_ARRAY_TASK_MAX" in environ:
        last = variables.number("SLURM_ARRAY_TASK_MAX", 0, LARGEST_ID)
    if last - first != nodes - 1:
        raise PlaceError(f"an array of {nodes} from {first} to {last} has gaps, so that no id says a node: --array=0-N")
    node = variables.number("SLURM_ARRAY_TASK_ID", first, last) - first
    return Place(
        kind="slurm_array",
        rank=node,
        world=nodes,
        local_rank=0,
        local_world=1,
        node=node,
        nodes=nodes,
        is_node=True,
        says=variables.meanings(ARRAY),
    )


def node_names(text: str) -> list[str]:
    """The nodes of a list: `n[08-10],x` is n08, n09, n10, x. Raises PlaceError."""
    items = ITEM.findall(text)
    if not items or ",".join(items) != text:  # a pattern alone would skip what it does not match
        raise _no_list(text)
    names = [name for item in items for name in _names(item, text)]
    if len(names) > MOST_NAMES:
        raise _no_list(text)
    return names


def _names(item: str, text: str) -> list[str]:
    parts = [
        [name for piece in inside.split(",") for name in _choices(piece, text)] if inside else [plain]
        for inside, plain in PART.findall(item)
    ]
    if prod(map(len, parts)) > MOST_NAMES:  # before they are multiplied: a few brackets make more names than memory
        raise _no_list(text)
    return ["".join(name) for name in product(*parts)]


def _choices(piece: str, text: str) -> list[str]:
    if match := RANGE.fullmatch(piece):
        first, last = map(int, match.groups())
        if not first <= last < first + MOST_NAMES:
            raise _no_list(text)
        # as wide as the first number: n[08-10] is n08, n09, n10
        return [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    if not piece or "-" in piece:
        raise _no_list(text)
    return [piece]


def _no_list(text: str) -> PlaceError:
    return PlaceError(f"'{quoted(text)}' is no list of nodes as Slurm writes it, a[1-3,07-09],b")


def counts(text: str) -> list[int]:
    """Tasks of each node: `2(x3),1` is 2, 2, 2, 1. Raises PlaceError."""
    matches = [COUNT.fullmatch(piece) for piece in text.split(",")]
    runs = [(int(match[1]), int(match[2] or 1)) for match in matches if match]
    if len(runs) < len(matches) or sum(times for _, times in runs) > MOST_NAMES:
        raise PlaceError(f"'{quoted(text)}' are no counts of nodes as Slurm writes them, 2(x3),1")
    return [tasks for tasks, times in runs for _ in range(times)]
