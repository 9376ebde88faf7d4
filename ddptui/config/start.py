"""How the ranks of a trial start: warm, forked from a process that has imported torch, or cold, as new processes."""

from ddptui.config.engine import links_of
from ddptui.config.preset import Preset
from ddptui.config.trial import StartKind, Trial


def start_of(trial: Trial, nodes: int = 1) -> tuple[StartKind, str]:
    """How ranks of this trial start; and why cold, if the trial does not ask for it."""
    reasons = {
        "": trial.start == "cold",
        f"start_method = {trial.start_method!r} asks how a new process starts its ranks": trial.start_method != "spawn",
        "torch.compile starts compilers that need a new process": trial.compile,
        "on slow links each rank has a network of its own": links_of(trial) is not None,
        "torch.distributed.launch meets other nodes before it starts ranks": trial.launch == "launch" and nodes > 1,
    }
    return next((("cold", why) for why, is_so in reasons.items() if is_so), ("warm", ""))


def needs_warm_parent(preset: Preset) -> bool:
    """Whether this host forks ranks of any of its trials."""
    return preset.engine.name == "local" and any(start_of(trial)[0] == "warm" for trial in preset.trials)
