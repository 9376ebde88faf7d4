"""Reads the curves of a trial from the journals of its repeats."""

from collections.abc import Callable
from itertools import takewhile

from ddptui.analysis.repeats import why_left_out
from ddptui.analysis.results import TrialResult
from ddptui.live.curves import LaunchCurves, TrialCurves, of_repeats
from ddptui.store.runs import Run
from ddptui.wire.messages import Step


def repeats_shown(trial: TrialResult) -> list[int]:
    """The numbers of the repeats that count. If none does, the first one, which may have made some steps."""
    # No repeat is launched after one that ended badly, so the numbers have no gaps.
    numbered = enumerate(trial.repeats, start=1)
    return [number for number, repeat in numbered if why_left_out(repeat, trial.repeats) is None] or [1]


def curves_of(run: Run, trial: TrialResult, is_wanted: Callable[[], bool] = lambda: True) -> TrialCurves:
    """The curves of a trial. is_wanted: reading stops once it returns False. Raises RunError."""
    launches = []
    for number in repeats_shown(trial):
        launch = LaunchCurves()
        for message in takewhile(lambda _: is_wanted(), run.messages(trial.name, number)):
            if isinstance(message, Step):
                launch.add(message)
        launches.append(launch)
    return of_repeats(launches)
