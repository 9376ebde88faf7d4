"""One rank, in a process that somebody else starts: srun, or whoever sets RANK and WORLD_SIZE."""

from ddptui.launch.arguments import arguments
from ddptui.preset import Trial


def command(python: str, trial: Trial) -> list[str]:
    return [python, "-m", "workers.task", *arguments(trial, without=("world_size",))]
