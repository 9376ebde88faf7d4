"""The engines: where ranks are started."""

from ddptui.engine import Engine
from ddptui.launch.local import Local
from ddptui.launch.started import Starter
from ddptui.record import Run


def starter_of(engine: Engine, run: Run) -> Starter:
    """What starts the launches of a run. Raises OSError, NotStarted."""
    match engine.name:
        case "local":
            return Local(run.folder)
        case "join":
            from ddptui.launch.joined import Joined

            return Joined(engine, run)
        case "slurm":
            from ddptui.launch.slurm import Slurm

            return Slurm(engine, run.name)
