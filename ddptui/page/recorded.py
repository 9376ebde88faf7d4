"""What a page shows of a trial's recorded steps: of the repeat with the median train time, as its breakdown is."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from ddptui.analysis.breakdown import middle
from ddptui.analysis.counted import counted
from ddptui.analysis.launch_log import launch_logs
from ddptui.analysis.results import TrialResult
from ddptui.analysis.waits import AlignedStep
from ddptui.live.curves import LaunchCurves
from ddptui.live.state import Point
from ddptui.store.runs import Run

MOST_POINTS = 300  # of a loss curve


class Recorded(NamedTuple):
    """A repeat's steps of all ranks, and the loss after each step, mean over ranks."""

    joined: Sequence[AlignedStep] = ()
    loss: Sequence[Point] = ()


def recorded(run: Run, trial: TrialResult) -> Recorded:
    """The steps of a trial; none if it has no figures, or ran without instruments. Raises RunError."""
    repeats = middle(counted(trial.repeats))
    if not repeats:
        return Recorded()
    # No repeat is launched after one that ended badly, so that their numbers have no gaps.
    log = next(launch_logs(run.messages(trial.name, trial.repeats.index(repeats[0]) + 1)), None)
    if log is None or not log.steps:
        return Recorded()
    curves = LaunchCurves(most=MOST_POINTS)
    for step in chain.from_iterable(log.steps.values()):
        curves.add(step)
    can_be_joined = log.clocks_known and all(log.measured_steps.values())
    return Recorded(log.align_measured().steps if can_be_joined else (), curves.loss)
