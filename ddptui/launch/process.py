"""One process, which starts each rank with mp.Process."""

from ddptui.launch.arguments import arguments
from ddptui.preset import Trial


def command(python: str, trial: Trial) -> list[str]:
    return [python, "-m", "workers.process", *arguments(trial)]
