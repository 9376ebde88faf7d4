"""A run's results again, from its journals alone."""

from ddptui.compare import compare
from ddptui.outcome import outcome
from ddptui.preset import Preset
from ddptui.record import Run
from ddptui.results import Results


def results_of(run: Run, preset: Preset) -> Results:
    """What results.json says, or would say: the same messages through the same functions."""
    outcomes = {
        (trial.name, number): found
        for trial in preset.trials
        for number in range(1, preset.repeats + 1)
        if (found := outcome(run.messages(trial.name, number)))
    }
    return compare(preset, run.name, run.environment(), outcomes)
