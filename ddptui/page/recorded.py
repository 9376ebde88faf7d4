"""Loads a trial's recorded steps for a page, from the repeat with the median train time."""

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

MOST_POINTS = 300  # points of a loss curve


class Recorded(NamedTuple):
    """The aligned steps of a repeat, and the loss after each step as a mean over ranks."""

    joined: Sequence[AlignedStep] = ()
    loss: Sequence[Point] = ()


def recorded(run: Run, trial: TrialResult) -> Recorded:
    """Loads the steps of a trial; empty if it has no figures, or ran without instruments. Raises RunError."""
    repeats = middle(counted(trial.repeats))
    if not repeats:
        return Recorded()
    # After a failed repeat no further one is launched, so the position in the list gives the repeat's number.
    log = next(launch_logs(run.messages(trial.name, trial.repeats.index(repeats[0]) + 1)), None)
    if log is None or not log.steps:
        return Recorded()
    curves = LaunchCurves(most=MOST_POINTS)
    for step in chain.from_iterable(log.steps.values()):
        curves.add(step)
    can_be_joined = log.clocks_known and all(log.measured_steps.values())
    return Recorded(log.align_measured().steps if can_be_joined else (), curves.loss)
