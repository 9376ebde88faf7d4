"""What may make a figure deceive, and what to do about it: a caution is one entry of this registry. Pure.

To add one, add a member to Caution: its key in results.json, the advice that the user reads, and its rule. A rule
that needs a fact of another kind also adds a field to Evidence.
"""

import enum
from collections.abc import Callable
from typing import NamedTuple

from ddptui.analysis.policy import FEWEST_STEPS
from ddptui.analysis.time_source import HOST_TIME

WIDE = 0.10  # of the median train time: as much as MATTERS in policy.py
MOST_OTHER_LOAD = 0.25  # cores
MOST_HELD_BACK = 0.10  # of the time
SPARE = 1.0  # idle cores: where there are so many, other programs take none from the ranks

CLOSE_THEM = "close them, and run again"


class Evidence(NamedTuple):
    """What rules look at, of a repeat or of a trial. A fact that does not apply keeps its default."""

    steps: int = FEWEST_STEPS  # measured steps of a repeat
    other_load: float = 0.0  # mean load of the host during training without ddptui's own, in cores
    idle: float = 0.0  # cores that were idle meanwhile, mean
    clocks_known: bool = True  # the clocks of all hosts could be compared with the console's
    waits_hidden: bool = False  # the clocks may be further apart than the ranks waited
    spread: float = 0.0  # of the repeats' train times, as a part of their median
    threads_a_core: float = 0.0  # of all ranks on this host's CPU
    host_time: bool = False  # phases are the host's times, and a device may be behind
    held_back: float = 0.0  # the largest part of the time in which heat or the power supply held back a rank's GPU


class Caution(enum.Enum):
    """Why a figure may deceive. The value is the key in results.json."""

    advice: str
    applies: Callable[[Evidence], bool]

    def __new__(cls, key: str, advice: str, applies: Callable[[Evidence], bool]) -> "Caution":
        """A member whose value is its key."""
        caution = object.__new__(cls)
        caution._value_, caution.advice, caution.applies = key, advice, applies
        return caution

    TOO_FEW_STEPS = (
        "too_few_steps",
        f"fewer than {FEWEST_STEPS} steps were measured, too few for a verdict: raise `epochs` or `steps`",
        lambda evidence: evidence.steps < FEWEST_STEPS,
    )
    WIDE_SPREAD = (
        "wide_spread",
        f"repeats differ by more than {WIDE:.0%}: too noisy for small differences; take more `--repeats`",
        lambda evidence: evidence.spread > WIDE,
    )
    OVERSUBSCRIBED = (
        "oversubscribed",
        "there are more threads than cores: ranks compete for cores, and a wait may be a wait for a core; take fewer "
        "ranks",
        lambda evidence: evidence.threads_a_core > 1,
    )
    OTHER_LOAD = (
        "other_load",
        f"other programs kept more than {MOST_OTHER_LOAD:g} of a core busy during training: {CLOSE_THEM}",
        lambda evidence: evidence.other_load > MOST_OTHER_LOAD and evidence.idle < SPARE,
    )
    HELD_BACK = (
        "held_back",
        f"heat or the power supply held back a GPU's clock for more than {MOST_HELD_BACK:.0%} of the time, so its "
        "steps may take longer than they could: look at its cooling (`nvidia-smi -q -d PERFORMANCE`)",
        lambda evidence: evidence.held_back > MOST_HELD_BACK,
    )
    HOST_TIME = (
        "host_time",
        f"phases and steps ({HOST_TIME}) are host time: when Python came there, while the device may be behind. So "
        "waits are hidden. train s and samples/s hold; torch.profiler shows the device's own times",
        lambda evidence: evidence.host_time,
    )
    CLOCKS_APART = (
        "clocks_apart",
        "the clock error exceeds the measured waits, so waits and transfers are hidden: try a larger batch or model; "
        "if the ranks are on other hosts, start the console on one of those",
        lambda evidence: evidence.clocks_known and evidence.waits_hidden and not evidence.host_time,
    )
    CLOCKS_UNKNOWN = (
        "clocks_unknown",
        "a host's clock could not be compared with the console's, so waits and transfers are hidden: none of its ranks "
        "answered a probe; run for at least a few seconds, and see the ranks' logs",
        lambda evidence: not evidence.clocks_known,
    )


def cautions_for(evidence: Evidence) -> list[Caution]:
    """The cautions whose rule applies, in the order of the registry."""
    return [caution for caution in Caution if caution.applies(evidence)]
