"""A run's results again, from its journals alone."""

import msgspec

from ddptui.analysis.compare import compare
from ddptui.analysis.repeat import Outcomes, outcome_of_messages
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.store.runs import Run


def results_of(run: Run, preset: Preset) -> Results:
    """What results.json says, or would say: the same messages through the same functions."""
    unread: list[str] = []
    results = compare(preset, run.name, run.environment(), outcomes_of(run, preset, unread))
    return msgspec.structs.replace(results, unread=unread) if unread else results


def outcomes_of(run: Run, preset: Preset, unread: list[str] | None = None) -> Outcomes:
    """The outcome of every launch. Notes about damaged journals are added to `unread`."""
    return {
        (trial.name, number): found
        for trial in preset.trials
        for number in range(1, preset.repeats + 1)
        if (found := outcome_of_messages(run.messages(trial.name, number, unread)))
    }


def finished(outcomes: Outcomes) -> Outcomes:
    """Those that need not be launched again. What was interrupted or skipped is missing; what has failed is not."""
    return {key: found for key, found in outcomes.items() if found.status in ("ok", "failed")}
