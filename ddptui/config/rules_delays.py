"""Delays, slow links and faults that could never happen in their trial are refused."""

import math

from ddptui.config.trial import BOTTLENECK_FIELDS, Bottleneck, Fault, Trial, TrialError

MOST_RANKS_ON_LINKS = 250


def check_bottleneck(trial: Trial, bottleneck: Bottleneck, path: str) -> None:
    """Refuse a delay that could never happen in this trial, or a link that it cannot have. Raises TrialError."""
    if not bottleneck.ranks or len(set(bottleneck.ranks)) < len(bottleneck.ranks):
        raise TrialError(f"{path}.ranks", "names a rank twice" if bottleneck.ranks else "names no rank")
    for rank in bottleneck.ranks:
        if rank >= trial.world_size:
            raise TrialError(f"{path}.ranks", f"rank {rank} of {trial.world_size}: ranks count from 0")
    if bottleneck.at == "link":
        _check_link(trial, bottleneck, path)
    else:
        _check_delay(trial, bottleneck, path)


def _check_link(trial: Trial, link: Bottleneck, path: str) -> None:
    """A slow link is there from the first to the last byte."""
    if link.mbit is None or not math.isfinite(link.mbit):
        raise TrialError(f"{path}.mbit", "a link needs it: what it lets through, in 1e6 bits a second")
    for key in ("sleep_ms", "per", "every", "from_step", "to_step", "jitter"):
        if getattr(link, key) != BOTTLENECK_FIELDS[key].default:
            raise TrialError(f"{path}.{key}", "means nothing with at = 'link', which delays nobody and is always there")
    if trial.launch in ("single", "dp"):
        raise TrialError(f"{path}.at", f"launch = {trial.launch!r} is one process, which has no links")
    if trial.world_size > MOST_RANKS_ON_LINKS:
        raise TrialError(
            f"{path}.at", f"{trial.world_size} ranks: at most {MOST_RANKS_ON_LINKS} get links of their own"
        )
    if trial.download:
        raise TrialError(f"{path}.at", "with download = true: ranks on links of their own have no way to the internet")
    if any(other.at == "link" and other is not link and {*other.ranks} & {*link.ranks} for other in trial.bottleneck):
        raise TrialError(f"{path}.ranks", "names a rank whose link another bottleneck limits already")


def _check_delay(trial: Trial, delay: Bottleneck, path: str) -> None:
    if trial.primitives is not None:
        raise TrialError(f"{path}.at", f"with primitives = {trial.primitives!r} nobody trains; a link can be slow")
    if not math.isfinite(delay.sleep_ms) or delay.sleep_ms == 0:
        raise TrialError(f"{path}.sleep_ms", "a delay needs it: how long, in ms, more than 0")
    if delay.mbit is not None:
        raise TrialError(f"{path}.mbit", f"goes with at = 'link'; a delay at {delay.at!r} has sleep_ms")
    if delay.at == "start" and (delay.every, delay.from_step, delay.to_step) != (1, 0, None):
        raise TrialError(
            f"{path}.at", "a rank starts once, before its steps: every, from_step and to_step mean nothing"
        )
    if trial.steps is not None and delay.from_step >= trial.steps:
        raise TrialError(f"{path}.from_step", f"step {delay.from_step} of {trial.steps}: it would never happen")
    if delay.to_step is not None and delay.to_step < delay.from_step:
        raise TrialError(f"{path}.to_step", f"ends at {delay.to_step}, before from_step = {delay.from_step}")
    if delay.per == "call" and (delay.at != "aggregate" or trial.launch == "dp"):
        raise TrialError(f"{path}.per", "'call' goes with at = 'aggregate' and a process group")
    if delay.at == "aggregate" and trial.launch != "dp" and trial.strategy in (None, "none"):
        raise TrialError(f"{path}.at", "this trial aggregates nothing, so the delay would never happen")
    if delay.at == "backward" and trial.launch == "dp":
        raise TrialError(f"{path}.at", "dp has one backward for all replicas: use 'forward' or 'aggregate'")


def check_fault(trial: Trial, fault: Fault, path: str) -> None:
    """Refuse a fault that could never happen in this trial. Raises TrialError."""
    processes = trial.world_size if trial.launch != "dp" else 1
    if fault.rank >= processes:
        one = ": dp is one process, rank 0" if trial.launch == "dp" else ": ranks count from 0"
        raise TrialError(f"{path}.rank", f"rank {fault.rank} of {processes}{one}")
    if trial.steps is not None and fault.step >= trial.steps:
        raise TrialError(f"{path}.step", f"step {fault.step} of {trial.steps}: it would never happen")
    if fault.kind in ("skip", "mismatch") and trial.strategy in (None, "none"):
        raise TrialError(f"{path}.kind", f"this trial aggregates nothing: there is nothing to {fault.kind}")
