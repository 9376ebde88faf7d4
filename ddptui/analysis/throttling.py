"""GPUs whose clock heat or the power supply held back. Pure."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from ddptui.analysis.results import RepeatResult

Kind = Literal["heat", "supply"]
# The reasons that make a GPU slower than others of its kind, in the words of ddptui/host/nvml.py. The others are no
# surprise: a power cap, at which large GPUs train as they left the factory, a clock that its user has set, a group of
# GPUs at one pace; or they tell nothing ("hardware slowdown").
KINDS: dict[str, Kind] = {
    "heat": "heat",
    "heat (hardware)": "heat",
    "power brake": "supply",
}


class HeldBack(NamedTuple):
    """A rank whose GPU's clock was held back: for what part of the time, and the median clock."""

    rank: int
    kind: Kind
    part: float
    sm_mhz: float | None


def worst_held_back(repeats: Iterable[RepeatResult]) -> HeldBack | None:
    """The rank that heat or its power supply held back for the largest part of the time; None: no rank."""
    found = (
        HeldBack(rank.rank, kind, part, rank.sm_mhz)
        for repeat in repeats
        for rank in repeat.ranks
        for why, part in rank.held_back.items()
        if (kind := KINDS.get(why))
    )
    return max(found, key=lambda held: held.part, default=None)
