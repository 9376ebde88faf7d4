"""One process, started directly; its replicas are the ranks."""

from ddptui.launch.arguments import arguments
from ddptui.preset import Trial


def command(python: str, trial: Trial) -> list[str]:
    return [python, "-m", "workers.dp", *arguments(trial)]
