"""Whether it matters for training how ranks were started, and what starting cost."""

from collections.abc import Iterator, Sequence
from statistics import median

from ddptui.analysis.counted import counted
from ddptui.analysis.effect import Effects, beside_baseline, effects
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.preset import Preset
from ddptui.report.answers.words import times, too_noisy, with_reason
from ddptui.text.units import seconds, time_range
from ddptui.text.words import count, listed


def launching(results: Results, preset: Preset) -> Iterator[str]:
    """Whether ranks train alike however they were started; then what starting cost; then the modes in one process."""
    modes = {trial.name: trial.launch for trial in preset.trials}
    measured = [trial for trial in results.trials if trial.summary]
    devices = {trial.name: trial.gpus_per_rank for trial in preset.trials}  # ranks with several work otherwise
    processes = [trial for trial in measured if modes[trial.name] not in ONE_PROCESS and devices[trial.name] == 1]
    yield _training(processes, effects(results))
    starts = {trial.name: median(repeat.startup_s for repeat in counted(trial.repeats)) for trial in measured}
    first, last = (choose(starts, key=lambda name: starts[name]) for choose in (min, max))
    yield f"the first step was reached after {seconds(starts[first])} ({first}) to {seconds(starts[last])} ({last})"
    baseline = results.base
    others = [effect for effect in beside_baseline(results) if modes[effect.name] in ONE_PROCESS]
    told = [effect for effect in others if effect.outcome in ("slower", "faster")]
    yield from (with_reason(f"{effect.name} was {times(effect)} than {baseline.name}", effect) for effect in told[:1])


def _training(processes: Sequence[TrialResult], found: Effects) -> str:
    """Whether trials whose ranks are processes of their own trained for the same time."""
    medians = {trial.name: trial.summary.train_time_s.median for trial in processes if trial.summary}
    fast, *_, slow = sorted(medians, key=lambda name: medians[name])
    seen = f"{listed([*medians])} trained for {time_range(medians[fast], medians[slow])}"
    effect = found.get((slow, fast))
    if effect is None or effect.outcome == "unclear":
        why = f"{too_noisy(effect)}; " if effect else ""
        return f"cannot tell whether it matters what started the ranks: {why}{seen}"
    if effect.outcome == "alike":
        shown = count(effect.repeats, "repeat")
        return f"once ranks run, what started them made no difference that {shown} can show: {seen}"
    return f"{seen}: {slow} was {times(effect)} than {fast}, though their ranks work alike"
