"""GPUs whose clock heat or power held back. Pure."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from ddptui.analysis.results import RepeatResult

Kind = Literal["heat", "power", "hardware"]
# How the reasons begin for which a GPU is slower than others of its kind. That its user set a clock is none of them.
KINDS: dict[str, Kind] = {"heat": "heat", "power cap": "power", "power brake": "hardware", "hardware": "hardware"}


class HeldBack(NamedTuple):
    """A rank whose GPU's clock was held back: for what part of the time, and the median clock."""

    rank: int
    why: str
    kind: Kind
    part: float
    sm_mhz: float | None


def worst_held_back(repeats: Iterable[RepeatResult]) -> HeldBack | None:
    """The rank that heat or power held back for the largest part of the time; None: no rank."""
    found = (
        HeldBack(rank.rank, why, kind, part, rank.sm_mhz)
        for repeat in repeats
        for rank in repeat.ranks
        for why, part in rank.held_back.items()
        if (kind := kind_of(why))
    )
    return max(found, key=lambda held: held.part, default=None)


def kind_of(why: str) -> Kind | None:
    """What kind of reason this is; None: neither heat nor power."""
    return next((kind for begin, kind in KINDS.items() if why.startswith(begin)), None)
