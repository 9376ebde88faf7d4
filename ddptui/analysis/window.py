"""The window of steps that rules look at, as arrays: covered time, own work of each rank, and waits. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddptui.analysis.clock_error import WaitUncertainty, exceeds_waits, wait_uncertainty
from ddptui.analysis.loaders import Loaders
from ddptui.analysis.places import Spot, spots_of
from ddptui.analysis.waits import AlignedStep, WaitAttribution
from ddptui.wire.messages import Line

Array = NDArray[np.float64]  # axes: steps, ranks, parts of own work; in ns


@dataclass(frozen=True)
class Window:
    """Aligned steps of all ranks, in order; some steps may be missing. Arrays are computed once, when asked for."""

    steps: Sequence[AlignedStep]
    disturbed: bool = False  # other programs kept cores busy
    restarts: Mapping[int, str] = field(
        default_factory=dict
    )  # last step before the ranks were restarted -> why they ended
    watched: bool = False  # the user's own training: advice must not refer to trials of the lab
    lines: Mapping[int, Line] = field(default_factory=dict)  # as in AlignedSteps
    loaders: Mapping[int, Loaders] = field(default_factory=dict)  # likewise

    @cached_property
    def ranks(self) -> list[int]:
        """The ranks, in order: the second axis of the arrays."""
        return sorted(self.steps[0].ranks) if self.steps else []

    @cached_property
    def work(self) -> Array:
        """Own work, steps × ranks × parts."""
        return np.array([[step.ranks[rank].work_ns for rank in self.ranks] for step in self.steps], dtype=np.float64)

    @cached_property
    def queued(self) -> Array:
        """Time in the queue for a core, steps × ranks."""
        return self._of_steps("queued_ns")

    @cached_property
    def cpu(self) -> Array:
        """CPU time of the training's thread, steps × ranks."""
        return self._of_steps("cpu_ns")

    @cached_property
    def covered(self) -> Array:
        """The time of each step, plus the time since the previous step if that one is in the window; steps × ranks."""
        begin, end = self._of_steps("begin_ns"), self._of_steps("end_ns")
        follows = np.diff([step.number for step in self.steps]) == 1
        begin[1:] = np.where(follows[:, None], end[:-1], begin[1:])
        return end - begin

    @cached_property
    def covered_ns(self) -> float:
        """The time that the window covers, to which shares refer; mean over ranks, at least 1."""
        return float(self.covered.sum(axis=0).mean()) or 1.0

    @cached_property
    def caused(self) -> Array:
        """How long all others together waited for each rank's own work, steps × ranks."""
        by_step = WaitAttribution(self.steps).by_step()
        return np.array([[of_step[rank] for rank in self.ranks] for of_step in by_step], dtype=np.float64)

    @cached_property
    def spots(self) -> list[Spot]:
        """Where in the user's code the ranks worked."""
        return spots_of(self.steps, self.lines)

    @cached_property
    def uncertainty(self) -> WaitUncertainty | None:
        """The uncertainty of the waits; None: all ranks share one clock."""
        return wait_uncertainty(self.steps)

    @cached_property
    def withheld(self) -> bool:
        """Whether waits are unknown: times are host times, or the clock error exceeds the waits."""
        uncertainty = self.uncertainty
        return self.steps[0].host_time or (uncertainty is not None and exceeds_waits(self.steps, uncertainty))

    @property
    def waits_are_known(self) -> bool:
        """Whether waits are known, and there are several ranks."""
        return len(self.ranks) > 1 and not self.withheld

    def _of_steps(self, field: str) -> Array:
        steps = [[getattr(step.ranks[rank].step, field) for rank in self.ranks] for step in self.steps]
        return np.array(steps, dtype=np.float64)
