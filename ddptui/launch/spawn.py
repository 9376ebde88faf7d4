"""One process, which starts the ranks with mp.spawn."""

from ddptui.launch.arguments import arguments
from ddptui.preset import Trial


def command(python: str, trial: Trial) -> list[str]:
    return [python, "-m", "workers.spawn", *arguments(trial)]
