"""What the rules of a window measure time by: each rank's own work, the time that it covers, and who waited. Pure."""

from collections.abc import Mapping
from statistics import fmean

from ddptui.analysis.clock_error import exceeds_waits, wait_uncertainty
from ddptui.findings.late import WaitAttribution
from ddptui.findings.window import Window
from ddptui.wire.phases import PARTS

PHASE_NUMBERS = range(len(PARTS))
ByRank = Mapping[int, list[list[int]]]  # by rank and step, own work by part, ns


def own_work(window: Window) -> ByRank:
    """The work of each rank in each step."""
    return {rank: [aligned.ranks[rank].work_ns for aligned in window.steps] for rank in window.ranks}


def covered_ns(window: Window) -> float:
    """The time that the window covers, a mean over ranks; at least 1."""
    return fmean(sum(window.covered_ns(rank)) for rank in window.ranks) or 1.0


def waits_are_known(window: Window) -> bool:
    """Whether it can be said who waited for whom: there are several ranks, their times are those of their devices, and
    their clocks agree well enough."""
    if len(window.ranks) < 2 or window.steps[0].host_time:
        return False
    uncertainty = wait_uncertainty(window.steps)
    return uncertainty is None or not exceeds_waits(window.steps, uncertainty)


def waited_for(window: Window) -> list[dict[int, float]]:
    """For each step and rank, how long the others waited for its own work, ns, a mean over them."""
    others = len(window.ranks) - 1
    return [{rank: ns / others for rank, ns in WaitAttribution([step]).caused_ns().items()} for step in window.steps]
