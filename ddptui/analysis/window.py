"""The steps that rules look at, as arrays: the time that they cover, each rank's own work, and who waited for whom.
Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddptui.analysis.clock_error import WaitUncertainty, exceeds_waits, wait_uncertainty
from ddptui.analysis.waits import AlignedStep, WaitAttribution

Array = NDArray[np.float64]  # axes: steps, ranks, parts of own work; in ns


@dataclass(frozen=True)
class Window:
    """Some steps of all ranks, in order; steps may be missing in between. What rules ask for is worked out once."""

    steps: Sequence[AlignedStep]
    disturbed: bool = False  # other programs kept cores busy meanwhile
    restarts: frozenset[int] = frozenset()  # the last steps before the ranks were started anew
    watched: bool = False  # a training of the user's own: advice names what it can do, not trials of the lab

    @cached_property
    def ranks(self) -> list[int]:
        """Of the first step, in order: the second axis of arrays."""
        return sorted(self.steps[0].ranks) if self.steps else []

    @cached_property
    def work(self) -> Array:
        """Own work, steps × ranks × parts."""
        return np.array([[step.ranks[rank].work_ns for rank in self.ranks] for step in self.steps], dtype=np.float64)

    @cached_property
    def queued(self) -> Array:
        """The time that a rank queued for a core, steps × ranks."""
        return self._of_steps("queued_ns")

    @cached_property
    def cpu(self) -> Array:
        """CPU time of a rank's thread, steps × ranks."""
        return self._of_steps("cpu_ns")

    @cached_property
    def covered(self) -> Array:
        """How long each step took, with the time since the step before where that one is here, too; steps × ranks."""
        begin, end = self._of_steps("begin_ns"), self._of_steps("end_ns")
        follows = np.diff([step.number for step in self.steps]) == 1
        begin[1:] = np.where(follows[:, None], end[:-1], begin[1:])
        return end - begin

    @cached_property
    def covered_ns(self) -> float:
        """The time that the window covers, of which parts of a rank's time are shares; mean over ranks, at least 1."""
        return float(self.covered.sum(axis=0).mean()) or 1.0

    @cached_property
    def caused(self) -> Array:
        """How long all others together waited for a rank's own work, steps × ranks."""
        by_step = WaitAttribution(self.steps).by_step()
        return np.array([[of_step[rank] for rank in self.ranks] for of_step in by_step], dtype=np.float64)

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

    def _of_steps(self, field: str) -> Array:
        steps = [[getattr(step.ranks[rank].step, field) for rank in self.ranks] for step in self.steps]
        return np.array(steps, dtype=np.float64)
