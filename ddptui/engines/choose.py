"""The engines: where ranks are started."""

from ddptui.config.engine import Engine
from ddptui.engines.base import Starter
from ddptui.engines.local.engine import Local
from ddptui.store.runs import Run


def starter_of(engine: Engine, run: Run) -> Starter:
    """What starts the launches of a run. Raises OSError, NotStarted."""
    match engine.name:
        case "local":
            return Local(run.folder)
        case "join":
            from ddptui.engines.join.engine import Joined

            return Joined(engine, run)
        case "slurm":
            from ddptui.engines.slurm.engine import Slurm

            return Slurm(engine, run.name)
