"""The table of engines: from the options of a run to the engine that starts its launches."""

from ddptui.config.engine import EngineOptions
from ddptui.engines.base import Engine
from ddptui.engines.local.engine import LocalEngine
from ddptui.store.runs import Run


def engine_for(options: EngineOptions, run: Run) -> Engine:
    """The engine that these options name. Raises OSError, and LaunchRefused."""
    match options.name:
        case "local":
            return LocalEngine(run.folder)
        # imported where they are needed: most runs are local
        case "join":
            from ddptui.engines.join.engine import JoinEngine

            return JoinEngine(options, run)
        case "slurm":
            from ddptui.engines.slurm.engine import SlurmEngine

            return SlurmEngine(options, run.name)
