"""The registry of cautions: why a figure may mislead, and what to do about it. Pure.

To add a caution, add a member to Caution: its key in results.json, the advice for the user, and its rule. If the rule
needs a new fact, add a field to Evidence.
"""

import enum
from collections.abc import Callable
from typing import NamedTuple

from ddptui.analysis.policy import FEWEST_STEPS
from ddptui.analysis.time_source import HOST_TIME

WIDE = 0.10  # spread of repeats, as a part of the median train time; as large as MATTERS in policy.py
MOST_OTHER_LOAD = 0.25  # cores
MOST_HELD_BACK = 0.10  # part of the time
SPARE = 1.0  # idle cores: with this many, other programs take no core from the ranks

CLOSE_THEM = "close those programs and run again"


class Evidence(NamedTuple):
    """The facts about a repeat or a trial that rules look at. A fact that does not apply keeps its default."""

    steps: int = FEWEST_STEPS  # measured steps of a repeat
    other_load: float = 0.0  # mean number of cores that other programs kept busy during training
    idle: float = 0.0  # mean number of idle cores during training
    clocks_known: bool = True  # the clocks of all hosts could be compared with the console's
    waits_hidden: bool = False  # the clock error exceeds the measured waits
    spread: float = 0.0  # range of the repeats' train times, as a part of their median
    threads_a_core: float = 0.0  # threads of all ranks on this host, per core
    host_time: bool = False  # phases are host times, and a device may lag behind
    held_back: float = 0.0  # part of the time in which heat or power limits slowed a GPU; the largest of all ranks


class Caution(enum.Enum):
    """Why a figure may mislead. The value is the key in results.json."""

    advice: str
    applies: Callable[[Evidence], bool]

    def __new__(cls, key: str, advice: str, applies: Callable[[Evidence], bool]) -> "Caution":
        """Creates a member whose value is its key."""
        caution = object.__new__(cls)
        caution._value_, caution.advice, caution.applies = key, advice, applies
        return caution

    TOO_FEW_STEPS = (
        "too_few_steps",
        f"fewer than {FEWEST_STEPS} measured steps are too few for a verdict: raise `epochs` or `steps`",
        lambda evidence: evidence.steps < FEWEST_STEPS,
    )
    WIDE_SPREAD = (
        "wide_spread",
        f"repeats differ by more than {WIDE:.0%}: too noisy for small differences; increase `--repeats`",
        lambda evidence: evidence.spread > WIDE,
    )
    OVERSUBSCRIBED = (
        "oversubscribed",
        "more threads than cores: ranks compete for cores, so a rank may be late only because it had no core; use "
        "fewer ranks",
        lambda evidence: evidence.threads_a_core > 1,
    )
    OTHER_LOAD = (
        "other_load",
        f"other programs kept more than {MOST_OTHER_LOAD:g} of a core busy during training: {CLOSE_THEM}",
        lambda evidence: evidence.other_load > MOST_OTHER_LOAD and evidence.idle < SPARE,
    )
    HELD_BACK = (
        "held_back",
        f"heat or the power limit held back a GPU's clock for more than {MOST_HELD_BACK:.0%} of the time, so its "
        "steps may take longer than they could: check its cooling (`nvidia-smi -q -d PERFORMANCE`)",
        lambda evidence: evidence.held_back > MOST_HELD_BACK,
    )
    HOST_TIME = (
        "host_time",
        f"phases and steps ({HOST_TIME}) are host times, taken when Python got there; the device may lag behind, so "
        "waits are hidden. train s and samples/s are right. For device times, use torch.profiler",
        lambda evidence: evidence.host_time,
    )
    CLOCKS_APART = (
        "clocks_apart",
        "the clock error exceeds the measured waits, so waits and transfers are hidden: try a larger batch or model; "
        "if the ranks are on other hosts, start the console on one of these",
        lambda evidence: evidence.clocks_known and evidence.waits_hidden and not evidence.host_time,
    )
    CLOCKS_UNKNOWN = (
        "clocks_unknown",
        "the clock of a host could not be compared with the console's, so waits and transfers are hidden: no rank "
        "there answered a probe; run for at least a few seconds, and see the ranks' logs",
        lambda evidence: not evidence.clocks_known,
    )


def cautions_for(evidence: Evidence) -> list[Caution]:
    """The cautions whose rule applies, in the order of the registry."""
    return [caution for caution in Caution if caution.applies(evidence)]
