"""Whether it matters for training how ranks were started, and what starting cost."""

from collections.abc import Iterator, Sequence
from statistics import median

from ddptui.analysis.cautions import WIDE
from ddptui.analysis.counted import counted
from ddptui.analysis.effect import effects, spread
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.preset import Preset
from ddptui.report.answers.words import between, times, with_reason
from ddptui.text.units import seconds
from ddptui.text.words import listed


def launching(results: Results, preset: Preset) -> Iterator[str]:
    """Whether ranks train alike however they were started; then what starting cost; then the modes in one process."""
    modes = {trial.name: trial.launch for trial in preset.trials}
    measured = [trial for trial in results.trials if trial.summary]
    processes = [trial for trial in measured if modes[trial.name] not in ONE_PROCESS]
    yield _training(processes)
    starts = {trial.name: _start_s(trial) for trial in measured}
    first, last = (choose(starts, key=lambda name: starts[name]) for choose in (min, max))
    yield f"the first step was reached after {seconds(starts[first])} ({first}) to {seconds(starts[last])} ({last})"
    baseline = results.base
    others = [effect for effect in effects(measured, baseline) if modes[effect.name] in ONE_PROCESS]
    told = [effect for effect in others if effect.outcome in ("slower", "faster")]
    yield from (with_reason(f"{effect.name} was {times(effect)} than {baseline.name}", effect) for effect in told[:1])


def _training(processes: Sequence[TrialResult]) -> str:
    """Whether trials whose ranks are processes of their own trained for the same time."""
    medians = {trial.name: trial.summary.train_time_s.median for trial in processes if trial.summary}
    slow, fast = (choose(medians, key=lambda name: medians[name]) for choose in (max, min))
    trained = f"trained for {between(f'{medians[fast]:.2f}', f'{medians[slow]:.2f}')} s"
    repeats = min(len(counted(trial.repeats)) for trial in processes)
    if repeats < 2 and medians[slow] > medians[fast] * (1 + WIDE):
        return f"{listed([*medians])} {trained}: one repeat each does not show whether that is a difference"
    if medians[slow] <= medians[fast] * (1 + max(WIDE, *map(spread, processes))):
        return f"once ranks run, it does not matter what started them: {listed([*medians])} {trained}"
    return f"{slow} trained for {medians[slow]:.2f} s, {fast} for {medians[fast]:.2f} s, though their ranks work alike"


def _start_s(trial: TrialResult) -> float:
    return median(repeat.startup_s for repeat in counted(trial.repeats))
