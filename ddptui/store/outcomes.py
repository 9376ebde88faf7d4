"""Recomputes a run's results from its journals alone."""

import msgspec

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings.compare import compare
from ddptui.findings.repeat import Outcomes, outcome_of_messages
from ddptui.store.runs import Run


def results_of(run: Run, preset: Preset) -> Results:
    """A run's results, computed from its journals like those in results.json, with notes on damaged journals."""
    unread: list[str] = []
    results = compare(preset, run.name, run.environment(), outcomes_of(run, preset, unread))
    return msgspec.structs.replace(results, unread=unread) if unread else results


def outcomes_of(run: Run, preset: Preset, unread: list[str] | None = None) -> Outcomes:
    """The outcome of every repeat that has one. Notes on damaged journals are added to `unread`."""
    return {
        (trial.name, number): outcome
        for trial in preset.trials
        for number in range(1, preset.repeats + 1)
        if (outcome := outcome_of_messages(run.messages(trial.name, number, unread)))
    }


def finished(outcomes: Outcomes) -> Outcomes:
    """The outcomes of repeats that need not be run again: those that ended well or failed, not interrupted or skipped
    ones."""
    return {key: outcome for key, outcome in outcomes.items() if outcome.status in ("ok", "failed")}
