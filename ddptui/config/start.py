"""How the ranks of a trial start: warm, forked from a process that has imported torch, or cold, as new processes."""

from ddptui.config.engine import links_of
from ddptui.config.preset import Preset
from ddptui.config.trial import StartKind, Trial


def start_of(trial: Trial, nodes: int = 1) -> tuple[StartKind, str]:
    """How ranks of this trial start; and why cold, if the trial does not ask for it."""
    if trial.start == "cold":
        return "cold", ""
    why = _cannot_be_forked(trial, nodes)
    return ("cold", why) if why else ("warm", "")


def _cannot_be_forked(trial: Trial, nodes: int) -> str | None:
    if trial.start_method != "spawn":
        return f"start_method = {trial.start_method!r} asks how a new process starts its ranks"
    if trial.compile:
        return "torch.compile starts compilers that need a new process"
    if links_of(trial) is not None:
        return "on slow links each rank has a network of its own"
    if trial.launch == "launch" and nodes > 1:
        return "torch.distributed.launch meets other nodes before it starts ranks"
    return None


def needs_warm_parent(preset: Preset) -> bool:
    """Whether this host forks ranks of any of its trials."""
    return preset.engine.name == "local" and any(start_of(trial)[0] == "warm" for trial in preset.trials)
