"""The steps that rules look at, and what they measure them by: the time that they cover, each rank's own work, and who
waited for whom. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from ddptui.analysis.clock_error import WaitUncertainty, exceeds_waits, wait_uncertainty
from ddptui.analysis.late import WaitAttribution
from ddptui.analysis.waits import AlignedStep


@dataclass(frozen=True)
class Window:
    """Some steps of all ranks, in order; steps may be missing in between. What rules ask for is worked out once."""

    steps: Sequence[AlignedStep]
    disturbed: bool = False  # other programs kept cores busy meanwhile
    restarts: frozenset[int] = frozenset()  # the last steps before the ranks were started anew
    watched: bool = False  # a training of the user's own: advice names what it can do, not trials of the lab

    @cached_property
    def ranks(self) -> list[int]:
        """Of the first step, in order."""
        return sorted(self.steps[0].ranks) if self.steps else []

    @cached_property
    def work(self) -> Mapping[int, list[list[int]]]:
        """By rank and step, its own work by part, ns."""
        return {rank: [aligned.ranks[rank].work_ns for aligned in self.steps] for rank in self.ranks}

    @cached_property
    def covered_by_step(self) -> Mapping[int, list[int]]:
        """By rank, how long each step took it, with the time since the step before where that one is here, too, ns."""
        return {rank: self._covered(rank) for rank in self.ranks}

    @cached_property
    def covered_ns(self) -> float:
        """The time that the window covers, of which parts of a rank's time are shares; mean over ranks, at least 1."""
        return fmean(map(sum, self.covered_by_step.values())) or 1.0

    @cached_property
    def caused(self) -> list[dict[int, int]]:
        """For each step, by rank, how long all others together waited for its own work, ns."""
        return WaitAttribution(self.steps).by_step()

    @cached_property
    def uncertainty(self) -> WaitUncertainty | None:
        """Of the waits; None: all ranks have one clock."""
        return wait_uncertainty(self.steps)

    @cached_property
    def withheld(self) -> bool:
        """Whether it is not known who waited: times are not those of the ranks' devices, or clocks may be too far
        apart."""
        uncertainty = self.uncertainty
        return self.steps[0].host_time or (uncertainty is not None and exceeds_waits(self.steps, uncertainty))

    @property
    def waits_are_known(self) -> bool:
        """Whether it can be said who waited for whom: there are several ranks, too."""
        return len(self.ranks) > 1 and not self.withheld

    def _covered(self, rank: int) -> list[int]:
        covered, before = [], None
        for aligned in self.steps:
            step = aligned.ranks[rank].step
            follows = before is not None and before.step == step.step - 1
            covered.append(step.end_ns - (before.end_ns if follows and before else step.begin_ns))
            before = step
        return covered
