"""The table of launchers and platforms: finds out from their variables which rank or node this process is.

The same variable means different things: RANK numbers processes under torchrun, and nodes under PAI-DLC.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from ddptui.host.network import FIRST_PORT, PORTS
from ddptui.host.rank_place import LARGEST_ID, Environ, PlaceError, RankPlace, Variables
from ddptui.text.words import did_you_mean

MOST_NAMES = 65_536  # a longer list of counts is an error: no cluster has so many nodes
CHOICE = r"(?:\d{1,9}-\d{1,9}|[^\[\],\s-]++)"
BRACKETS = re.compile(rf"\[({CHOICE})(?:,{CHOICE})*+\]", re.ASCII)
NODE = rf"(?:[^\[\],\s]|{BRACKETS.pattern})++"
NODE_LIST = re.compile(rf"({NODE})(?:,{NODE})*+", re.ASCII)
COUNT = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?", re.ASCII)


def first_node(text: str) -> str:
    """The first node of a list: n08 for `n[08-10],x`. Raises PlaceError."""
    nodes = NODE_LIST.fullmatch(text)
    if nodes is None:
        raise PlaceError(f"{text!r} is not a list of nodes in Slurm's format, such as a[1-3,07-09],b")
    return BRACKETS.sub(lambda found: found[1].split("-")[0], nodes[1])


def counts(text: str) -> list[int]:
    """The number of tasks of each node: 2, 2, 2, 1 for `2(x3),1`. Raises PlaceError."""
    matches = [COUNT.fullmatch(piece) for piece in text.split(",")]
    runs = [(int(match[1]), int(match[2] or 1)) for match in matches if match]
    if len(runs) < len(matches) or sum(times for _, times in runs) > MOST_NAMES:
        raise PlaceError(f"{text!r} is not a list of task counts in Slurm's format, such as 2(x3),1")
    return [tasks for tasks, times in runs for _ in range(times)]


SCHEME = "file://"
COUNTED_BY_TORCHRUN = ("auto", "gpu", "cpu")  # values of nproc_per_node for which torchrun counts the node's devices
NO_GPUS = "NPROC_PER_NODE names no GPUs: one process per node"
NO_NODE = "each rank counts as a node of its own: set LOCAL_RANK and LOCAL_WORLD_SIZE if several ranks share a node"
PROCESS = {"RANK": "index of the process", "WORLD_SIZE": "number of processes"}
LOCAL = {"LOCAL_RANK": "index of this process on its node", "LOCAL_WORLD_SIZE": "number of processes on this node"}
NODES = {"NODE_RANK": "index of the node", "NNODES": "number of nodes"}
JOB = {
    "SLURM_ARRAY_TASK_ID": "index of the node",
    "SLURM_ARRAY_TASK_MIN": "index of the first node",
    "SLURM_ARRAY_TASK_COUNT": "number of nodes",
}
PER_NODE = {"PET_NPROC_PER_NODE": "processes per node"}


class Launcher(NamedTuple):
    """A launcher or platform, and how to read its variables."""

    setter: str  # a clause that says who sets the variables
    is_here: Callable[[Environ], bool]  # whether the variables are set
    place: Callable[[Variables], RankPlace]  # the place that they define; raises PlaceError
    meanings: Mapping[str, str]  # the meaning of each variable


# Launchers whose variables define a process: torchrun, srun, or a user's own script.


def _torchrun(variables: Variables) -> RankPlace:
    world = variables.number("WORLD_SIZE", 1)
    local_world = variables.number("LOCAL_WORLD_SIZE", 1, world)
    nodes = variables.number("GROUP_WORLD_SIZE", 1, world)  # torchrun calls the processes of one node a group
    rank, local_rank = variables.index("RANK", world), variables.index("LOCAL_RANK", local_world)
    node = variables.index("GROUP_RANK", nodes)
    return RankPlace(rank, world, local_rank, local_world, node, nodes, *variables.meeting())


def _env(variables: Variables) -> RankPlace:
    return RankPlace(*_by_hand(variables), *variables.meeting(), says=_without_nodes(variables))


def _file(variables: Variables) -> RankPlace:
    url = variables.text("INIT_METHOD")
    path = url.removeprefix(SCHEME)
    if path == url or not path.startswith("/"):
        raise PlaceError(f"INIT_METHOD={url} names no shared file: set file:///SHARED/FOLDER/NAME")
    return RankPlace(*_by_hand(variables), file=path, says=_without_nodes(variables))


def _by_hand(variables: Variables) -> tuple[int, int, int, int, int, int]:
    """The numbers of a Place. Unless variables say otherwise, consecutive ranks share a node."""
    world = variables.number("WORLD_SIZE", 1)
    rank = variables.index("RANK", world)
    local_world = _local_world(variables, world)
    local_rank = variables.index("LOCAL_RANK", local_world, unset=rank % local_world)
    nodes = variables.number("NNODES", 1, world, unset=-(-world // local_world))  # rounded up
    node = variables.index("NODE_RANK", nodes, unset=rank // local_world)
    if node >= nodes:
        raise variables.error(f"rank {rank}, with {local_world} per node, is beyond the last of NNODES={nodes} nodes")
    return rank, world, local_rank, local_world, node, nodes


def _local_world(variables: Variables, world: int) -> int:
    if given := variables.number("LOCAL_WORLD_SIZE", 1, world, unset=0):
        return given
    nodes = variables.number("NNODES", 1, world, unset=world)
    if world % nodes:  # it is not known which nodes have one rank more
        raise variables.error(f"LOCAL_WORLD_SIZE is not set, and {world} ranks do not divide evenly by NNODES={nodes}")
    if variables.has("LOCAL_RANK") and not variables.has("NNODES"):
        raise variables.error("LOCAL_WORLD_SIZE is not set, but LOCAL_RANK is")
    return world // nodes


def _without_nodes(variables: Variables) -> tuple[str, ...]:
    return () if any(map(variables.has, LOCAL | NODES)) else (NO_NODE,)


def _slurm(variables: Variables) -> RankPlace:
    """The place in the Slurm step; in the job if no variables describe the step. A job may have more nodes than a
    step."""
    world = variables.number(variables.first_set("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), 1)
    if world > 1 and not (variables.has("SLURM_STEP_ID") or variables.has("SLURM_STEPID")):
        # the batch script also has task id 0, but it is not a rank
        raise PlaceError("SLURM_STEP_ID is not set: this is the batch script; start the ranks in it with srun")
    nodes = variables.number(variables.first_set("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"), 1)
    node = variables.index("SLURM_NODEID", nodes)
    name = variables.first_set("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    local_world = dict(enumerate(counts(variables.text(name)))).get(node, 0)
    if local_world < 1:
        raise variables.error(f"{name}={variables.text(name)} lists no tasks for node {node} (SLURM_NODEID)")
    rank, local_rank = variables.index("SLURM_PROCID", world), variables.index("SLURM_LOCALID", local_world)
    # no variable holds the rendezvous address: every task derives it from the same node list and job id
    address = first_node(variables.text(variables.first_set("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")))
    port = FIRST_PORT + variables.number("SLURM_JOB_ID", 0, LARGEST_ID) % PORTS
    return RankPlace(rank, world, local_rank, local_world, node, nodes, address, port)


# Platforms whose variables define a node, which starts its ranks itself. All nodes have the same number of ranks.


def _node(node: int, nodes: int, ranks: int, address: str | None = None, port: int | None = None) -> RankPlace:
    return RankPlace(node * ranks, nodes * ranks, 0, ranks, node, nodes, address, port, is_node=True)


def _dlc(variables: Variables) -> RankPlace:
    # source: https://www.alibabacloud.com/help/en/pai/general-environment-variables
    nodes = variables.number("WORLD_SIZE", 1)
    gpus = variables.number("NPROC_PER_NODE", unset=0)
    place = _node(variables.index("RANK", nodes), nodes, gpus or 1, *variables.meeting())
    return place if gpus else replace(place, says=(NO_GPUS,))


def _pytorchjob(variables: Variables) -> RankPlace:
    """In all releases, RANK is the index of the pod. WORLD_SIZE is the number of pods in old releases, and pods ×
    nprocPerNode in newer ones, which set PET_… as well."""
    world = variables.number("WORLD_SIZE", 1)
    nodes = variables.number("PET_NNODES", 1, unset=world)
    each = variables.text("PET_NPROC_PER_NODE") if variables.has("PET_NPROC_PER_NODE") else "auto"
    if each in COUNTED_BY_TORCHRUN:  # then WORLD_SIZE counts one rank per pod
        ranks, rest = divmod(world, nodes)
        if rest or not ranks:
            raise variables.error(f"WORLD_SIZE={world} is not a multiple of PET_NNODES={nodes}")
    else:
        ranks = variables.number("PET_NPROC_PER_NODE", 1)
        if world not in (nodes, nodes * ranks):
            raise variables.error(f"WORLD_SIZE={world} is neither {nodes} pods nor {nodes} × {ranks} processes")
    means = "number of nodes (pods), not of processes" if world == nodes else "number of processes on all nodes"
    place = _node(variables.index("RANK", nodes), nodes, ranks, *variables.meeting())
    return replace(place, says=(f"WORLD_SIZE={world}: {means}",))


def _trainjob(variables: Variables) -> RankPlace:
    nodes = variables.number("PET_NNODES", 1)
    node = variables.index("PET_NODE_RANK", nodes)
    value = variables.text("PET_NPROC_PER_NODE")
    if value in COUNTED_BY_TORCHRUN:  # torchrun would count this pod's GPUs; those of other pods are not known here
        raise PlaceError(f"PET_NPROC_PER_NODE={value} is not a number: set trainer.numProcPerNode in the TrainJob")
    return _node(node, nodes, variables.number("PET_NPROC_PER_NODE", 1), *variables.meeting("PET_"))


def _slurm_array(variables: Variables) -> RankPlace:
    """Each job of the array is a node. The ranks meet in a shared file."""
    nodes = variables.number("SLURM_ARRAY_TASK_COUNT", 1)
    first = variables.number("SLURM_ARRAY_TASK_MIN", 0, LARGEST_ID)
    last = variables.number("SLURM_ARRAY_TASK_MAX", 0, LARGEST_ID, unset=first + nodes - 1)
    if last - first != nodes - 1:
        raise PlaceError(f"the job array has gaps: {nodes} jobs with ids from {first} to {last}; use --array=0-N")
    return _node(variables.number("SLURM_ARRAY_TASK_ID", first, last) - first, nodes, 1)


# In the order of the search: innermost first, because the variables of an outer launcher are still set inside it. Slurm
# comes last: it sets none of the other variables, so a launcher inside its task must have set them.
LAUNCHERS = {
    "torchrun": Launcher(
        "torchrun sets it for the processes that it starts",
        lambda environ: bool(environ.get("TORCHELASTIC_RUN_ID")),  # torch.distributed.launch sets it, too
        _torchrun,
        PROCESS | LOCAL | {"GROUP_RANK": "index of the node", "GROUP_WORLD_SIZE": "number of nodes"},
    ),
    "dlc": Launcher(  # Alibaba's PAI-DLC
        "PAI-DLC sets it on the nodes of a PyTorch job",
        # PAI-DLC sets no LOCAL_RANK: if it is set, a launcher inside the node has set RANK for its own processes. The
        # job id is undocumented, so it is only a hint.
        lambda environ: (
            bool(environ.get("RANK") and (environ.get("NPROC_PER_NODE") or environ.get("DLC_JOB_ID")))
            and not {"LOCAL_RANK", "PET_NNODES"} & environ.keys()
        ),
        _dlc,
        {
            "RANK": "index of the node, not of the process",
            "WORLD_SIZE": "number of nodes, not of processes",
            "NPROC_PER_NODE": "processes per node (one per GPU)",
        },
    ),
    "pytorchjob": Launcher(  # Kubeflow's training operator, v1
        "a PyTorchJob with a Master sets it in its pods",
        # an old release sets no PET_… variables: it is read as env, which is the same for one process per pod
        lambda environ: bool(environ.get("PET_NNODES") and environ.get("RANK")) and not environ.get("LOCAL_RANK"),
        _pytorchjob,
        {"RANK": "index of the node (pod), not of the process", "PET_NNODES": "number of nodes"} | PER_NODE,
    ),
    "trainjob": Launcher(  # Kubeflow's Trainer, v2: PET_… are torchrun's own options, and RANK is not set
        "a TrainJob of a torch runtime sets it in its pods",
        lambda environ: bool(environ.get("PET_NODE_RANK")) and not environ.get("RANK"),
        _trainjob,
        {"PET_NODE_RANK": "index of the node", "PET_NNODES": "number of nodes"} | PER_NODE,
    ),
    "file": Launcher(
        "the script that starts the processes sets it for each of them, as init_method='file://…' needs",
        lambda environ: environ.get("INIT_METHOD", "").startswith(SCHEME) and all(map(environ.get, PROCESS)),
        _file,
        PROCESS | LOCAL | NODES,
    ),
    "env": Launcher(
        "the script that starts the processes sets it for each of them, as init_method='env://' needs",
        lambda environ: all(map(environ.get, (*PROCESS, "MASTER_ADDR"))),
        _env,
        PROCESS | LOCAL | NODES,
    ),
    "slurm_array": Launcher(
        "Slurm sets it for a job of sbatch --array=0-N",
        # if a job of the array has several tasks, the tasks of srun are ranks
        lambda environ: bool(environ.get("SLURM_ARRAY_TASK_ID")) and environ.get("SLURM_NTASKS", "1") == "1",
        _slurm_array,
        JOB,
    ),
    "slurm": Launcher(
        "srun sets it for the tasks that it starts",
        lambda environ: bool(environ.get("SLURM_PROCID")),
        _slurm,
        {
            "SLURM_PROCID": "index of the process",
            **dict.fromkeys(("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), "number of processes"),
            "SLURM_LOCALID": "index of this process on its node",
            "SLURM_NODEID": "index of the node",
            **dict.fromkeys(("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"), "number of nodes"),
            **dict.fromkeys(
                ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"), "the ranks meet at the first of these nodes (rank 0)"
            ),
            "SLURM_JOB_ID": f"determines the port: {FIRST_PORT} + id % {PORTS}",
        },
    ),
}


def place_here(environ: Environ, name: str | None = None) -> RankPlace | None:
    """The place of this process, from the variables of the named launcher, or else of the innermost one. None: no
    launcher has set variables. Raises PlaceError."""
    if name is None and (name := next(iter(kinds_here(environ)), None)) is None:
        return None
    if name not in LAUNCHERS:
        hint = did_you_mean(name, LAUNCHERS, f"there are {', '.join(LAUNCHERS)}")
        raise PlaceError(f"{name!r} is not a known environment: {hint}")
    launcher = LAUNCHERS[name]
    variables = Variables(environ, launcher.setter)
    place = launcher.place(variables)
    return replace(place, kind=name, says=variables.meanings(launcher.meanings) + place.says)


def kinds_here(environ: Environ) -> list[str]:
    """The names of the launchers whose variables are set, innermost first."""
    return [name for name, launcher in LAUNCHERS.items() if launcher.is_here(environ)]


def explanation(environ: Environ, name: str | None = None) -> str:
    """The output of `ddptui place`: the place, each variable's meaning, the outer launchers. Raises PlaceError."""
    place = place_here(environ, name)
    if place is None:
        raise PlaceError(f"no launcher has set variables here; --as NAME lists what is missing: {', '.join(LAUNCHERS)}")
    # env is left out: its variables belong to other launchers as well
    others = [kind for kind in kinds_here(environ) if kind not in (place.kind, "env")]
    return "\n".join([place.describe(), *(f"  variables of {kind} are set, too: --as {kind}" for kind in others)])
