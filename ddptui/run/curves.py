"""The curves of a trial, read back from the journals of its repeats."""

from collections.abc import Callable
from itertools import takewhile

from ddptui.analysis.counted import why_left_out
from ddptui.analysis.results import TrialResult
from ddptui.live.curves import LaunchCurves, TrialCurves, of_repeats
from ddptui.store.runs import Run
from ddptui.wire.messages import Step


def repeats_shown(trial: TrialResult) -> list[int]:
    """The numbers of the repeats that count; of a trial without figures the first, which may have come some way."""
    # No repeat is launched after one that ended badly, so that their numbers have no gaps.
    numbered = enumerate(trial.repeats, start=1)
    return [number for number, repeat in numbered if why_left_out(repeat, trial.repeats) is None] or [1]


def curves_of(run: Run, trial: TrialResult, is_wanted: Callable[[], bool] = lambda: True) -> TrialCurves:
    """The curves of a trial; reading ends once they are no longer wanted. Raises RunError."""
    launches = []
    for number in repeats_shown(trial):
        launch = LaunchCurves()
        for message in takewhile(lambda _: is_wanted(), run.messages(trial.name, number)):
            if isinstance(message, Step):
                launch.add(message)
        launches.append(launch)
    return of_repeats(launches)
