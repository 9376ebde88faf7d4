"""How the ranks of a trial start: warm, forked from a process that has imported torch, or cold, as new processes."""

from ddptui.config.engine import links_of
from ddptui.config.preset import Preset
from ddptui.config.trial import StartKind, Trial


def start_of(trial: Trial, nodes: int = 1) -> tuple[StartKind, str]:
    """How ranks of this trial start; and why cold, if the trial does not ask for it."""
    method = f"start_method = {trial.start_method!r} asks how a new process starts its ranks"
    reasons = (  # the first one is named
        (trial.start == "cold", ""),
        (trial.start_method != "spawn", method),
        (trial.compile, "torch.compile starts compilers that need a new process"),
        (links_of(trial) is not None, "on slow links each rank has a network of its own"),
        (trial.launch == "launch" and nodes > 1, "torch.distributed.launch meets other nodes before it starts ranks"),
    )
    return next((("cold", why) for is_so, why in reasons if is_so), ("warm", ""))


def needs_warm_parent(preset: Preset) -> bool:
    """Whether this host forks ranks of any of its trials."""
    return preset.engine.name == "local" and any(start_of(trial)[0] == "warm" for trial in preset.trials)
