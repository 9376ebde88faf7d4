"""A trial in a few words: its delays, its faults, how often its ranks average."""

from collections.abc import Sequence

from ddptui.config.trial import Bottleneck, Fault, Trial
from ddptui.text.units import NOTHING


def describe_average(trial: Trial) -> str:
    """What is averaged, and every how many steps; empty where it is the gradients of each."""
    if trial.every > 1:
        return f"{trial.average} every {trial.every}"
    return trial.average if trial.average == "parameters" else ""


def describe_bottleneck(bottlenecks: Sequence[Bottleneck]) -> str:
    return ", ".join(_describe(bottleneck) for bottleneck in bottlenecks) or NOTHING


def describe_fault(faults: Sequence[Fault]) -> str:
    return ", ".join(f"{fault.kind} on {fault.rank}, step {fault.step}" for fault in faults) or NOTHING


def _describe(bottleneck: Bottleneck) -> str:
    ranks = ",".join(map(str, bottleneck.ranks))
    if bottleneck.at == "link":
        return f"link {bottleneck.mbit:g} Mbit/s on {ranks}"
    each = "/call" if bottleneck.per == "call" else f"/{bottleneck.every} steps" if bottleneck.every > 1 else ""
    mean = "~" if bottleneck.jitter != "none" else ""
    return f"{bottleneck.at} {mean}{bottleneck.sleep_ms:g} ms{each} on {ranks}"
