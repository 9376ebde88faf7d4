"""The steps that rules look at, and the time that they cover. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from ddptui.analysis.waits import AlignedStep


class Window(NamedTuple):
    """Some steps of all ranks, in order; steps may be missing in between."""

    steps: Sequence[AlignedStep]
    disturbed: bool = False  # other programs kept cores busy meanwhile
    restarts: frozenset[int] = frozenset()  # the last steps before the ranks were started anew
    watched: bool = False  # a training of the user's own: advice names what it can do, not trials of the lab

    @property
    def ranks(self) -> list[int]:
        """Of the first step, in order."""
        return sorted(self.steps[0].ranks) if self.steps else []

    def covered_ns(self, rank: int) -> list[int]:
        """How long each step took a rank, with the time since the step before where that one is here, too. Their sum is
        what parts of a rank's time are shares of."""
        covered, before = [], None
        for aligned in self.steps:
            step = aligned.ranks[rank].step
            follows = before is not None and before.step == step.step - 1
            covered.append(step.end_ns - (before.end_ns if follows and before else step.begin_ns))
            before = step
        return covered
