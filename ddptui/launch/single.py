"""One process, started directly; it is the only rank."""

from ddptui.launch.arguments import arguments
from ddptui.preset import Trial


def command(python: str, trial: Trial) -> list[str]:
    return [python, "-m", "workers.single", *arguments(trial)]
