"""What was published about a preset's trials, beside what was measured here. Pure."""

from ddptui.preset import Preset, Reference
from ddptui.results import Results, TrialResult


def published(results: Results, preset: Preset) -> list[str]:
    """A line a published figure, ours first, and then where they are from."""
    trials = {trial.name: trial for trial in results.trials}
    base = next((other.train_time_s for other in preset.references if other.trial == preset.baseline), None)
    lines = [_line(reference, trials[reference.trial], base) for reference in preset.references]
    sources = dict.fromkeys(reference.source for reference in preset.references if reference.source)
    return [*lines, *(f"source: {source}" for source in sources)]


def _line(reference: Reference, trial: TrialResult, base: float | None) -> str:
    """Two machines differ; the ratio to the baseline is what can be set beside each other."""
    if trial.summary is None:
        return f"{trial.name}: {trial.status} here, {reference.train_time_s:.2f} s published"
    ours = trial.summary.train_time_s.median
    words = f"{trial.name}: {ours:.2f} s here, {reference.train_time_s:.2f} s published"
    words += f" (ours / published {ours / reference.train_time_s:.3g})"
    if base is None or trial.summary.ratio is None:
        return words
    return f"{words}; to the baseline {trial.summary.ratio.median:.2f} here, {reference.train_time_s / base:.2f} there"
