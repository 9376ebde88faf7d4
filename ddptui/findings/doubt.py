"""The rank that caused most of the waiting, where no rule is sure of it: named with its doubt. Pure."""

from collections.abc import Mapping

from ddptui.analysis.cautions import FEWEST_STEPS
from ddptui.analysis.finding import Finding, Kind
from ddptui.text.words import count

MOST = 2 / 3  # of the waiting: twice as much as all others together


def uncertain(caused: Mapping[int, float], steps: int, *, disturbed: bool) -> Finding | None:
    """The finding; None if no rank caused most of the waiting. caused: by rank, how long the others waited for it in so
    many steps. disturbed: by other programs."""
    whole = sum(caused.values())
    rank = max(caused, key=lambda rank: caused[rank], default=None)
    if rank is None or not whole or caused[rank] < MOST * whole:
        return None
    if steps < FEWEST_STEPS:
        doubt = f"{count(steps, 'step is', 'steps are')} few"
    elif disturbed:
        doubt = "other programs keep cores busy"
    else:
        doubt = "that may be chance"
    return Finding(kind=Kind.UNCERTAIN, rank=rank, numbers={"share": caused[rank] / whole}, doubt=doubt)
