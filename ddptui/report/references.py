"""Published figures of a preset's trials, beside what was measured here."""

from statistics import median

from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset, Reference


def published(results: Results, preset: Preset) -> list[str]:
    """A line a published figure, beside ours, and then their sources."""
    trials = {trial.name: trial for trial in results.trials}
    base = next((other.train_time_s for other in preset.references if other.trial == preset.baseline), None)
    lines = [_line(reference, trials[reference.trial], base) for reference in preset.references]
    return [*lines, *(f"source: {source}" for source in sources(preset))]


def sources(preset: Preset) -> list[str]:
    """The sources of the figures, each once."""
    return [*dict.fromkeys(reference.source for reference in preset.references if reference.source)]


def steps_beside(results: Results, preset: Preset) -> list[str]:
    """One line with the published and the measured step times, if any trial has both."""
    ours = {trial.name: _step_ms(trial) for trial in results.trials}
    pairs = [
        f"{reference.trial} {here:.2f} here, {reference.step_ms:g} there"
        for reference in preset.references
        if reference.step_ms is not None and (here := ours[reference.trial]) is not None
    ]
    return [f"step ms: {'; '.join(pairs)}"] if pairs else []


def _step_ms(trial: TrialResult) -> float | None:
    """The median over repeats, as in the table."""
    steps = [repeat.step_ms.median for repeat in trial.repeats if repeat.step_ms]
    return median(steps) if steps else None


def _line(reference: Reference, trial: TrialResult, base: float | None) -> str:
    """Machines differ in speed, so the ratios to the baseline are compared, too."""
    if trial.summary is None:
        return f"{trial.name}: {trial.status} here, {reference.train_time_s:.2f} s published"
    ours = trial.summary.train_time_s.median
    words = f"{trial.name}: {ours:.2f} s here, {reference.train_time_s:.2f} s published"
    words += f" (ours / published {ours / reference.train_time_s:.3g})"
    if base is not None and trial.summary.ratio is not None:
        words += f"; to the baseline {trial.summary.ratio.median:.2f} here, {reference.train_time_s / base:.2f} there"
    if reference.step_ms is not None and (here := _step_ms(trial)) is not None:
        words += f"; a step {here:.2f} ms here, {reference.step_ms:g} ms published"
    return words
