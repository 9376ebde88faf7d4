"""Chooses the engine of a run by its options."""

from ddptui.config.preset import Preset
from ddptui.engines.base import Engine, LaunchRefused
from ddptui.engines.local.command import WatchMode
from ddptui.engines.local.engine import LocalEngine
from ddptui.engines.local.warm import WarmParent
from ddptui.host.network import NetworkError
from ddptui.store.runs import Run


def engine_for(preset: Preset, run: Run, warm: WarmParent, terms: WatchMode | None = None) -> Engine:
    """The engine that the preset names. terms: how commands are watched. Raises OSError, and LaunchRefused."""
    options = preset.engine
    try:
        match options.name:
            case "local":
                return LocalEngine(run.folder, warm, terms)
            case "join" if terms is not None and terms.elsewhere:
                from ddptui.engines.local.command import ListeningEngine

                return ListeningEngine(options, run, terms)
            case "join":
                from ddptui.engines.join.engine import JoinEngine  # imported late, as below: most runs are local

                return JoinEngine(options, run)
            case "slurm":
                from ddptui.engines.slurm.engine import SlurmEngine

                return SlurmEngine(preset, run)
    except NetworkError as error:
        raise LaunchRefused(str(error)) from None
