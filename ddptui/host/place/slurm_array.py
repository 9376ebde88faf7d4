"""A task of an array of Slurm's is a job: a node that starts its ranks itself. They meet in a shared file."""

from ddptui.host.place.place import Place, PlaceError, place_of_node
from ddptui.host.place.reading import LARGEST_ID, Environ, number, said

SETTER = "Slurm sets it for a job of sbatch --array=0-N"
MEANINGS = {
    "SLURM_ARRAY_TASK_ID": "the node",
    "SLURM_ARRAY_TASK_MIN": "the first node's",
    "SLURM_ARRAY_TASK_COUNT": "nodes",
}


def detected(environ: Environ) -> bool:
    """A task of srun in a job of several tasks is a rank, in an array, too."""
    return bool(environ.get("SLURM_ARRAY_TASK_ID")) and environ.get("SLURM_NTASKS", "1") == "1"


def place(environ: Environ) -> Place:
    nodes = number(environ, "SLURM_ARRAY_TASK_COUNT", SETTER, 1)
    first = number(environ, "SLURM_ARRAY_TASK_MIN", SETTER, 0, LARGEST_ID)
    last = number(environ, "SLURM_ARRAY_TASK_MAX", SETTER, 0, LARGEST_ID) if "SLURM_ARRAY_TASK_MAX" in environ else None
    if last is not None and last - first != nodes - 1:
        raise PlaceError(f"an array of {nodes} from {first} to {last} has gaps, so that no id says a node: --array=0-N")
    node = number(environ, "SLURM_ARRAY_TASK_ID", SETTER, first, first + nodes - 1) - first
    return place_of_node("slurm_array", node, nodes, 1, said(environ, MEANINGS))
