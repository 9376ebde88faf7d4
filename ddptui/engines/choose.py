"""The engines: where ranks are started."""

from ddptui.config.engine import EngineOptions
from ddptui.engines.base import Engine
from ddptui.engines.local.engine import LocalEngine
from ddptui.store.runs import Run


def engine_for(engine: EngineOptions, run: Run) -> Engine:
    """What starts the launches of a run. Raises OSError, NotStarted."""
    match engine.name:
        case "local":
            return LocalEngine(run.folder)
        case "join":
            from ddptui.engines.join.engine import JoinEngine

            return JoinEngine(engine, run)
        case "slurm":
            from ddptui.engines.slurm.engine import SlurmEngine

            return SlurmEngine(engine, run.name)
