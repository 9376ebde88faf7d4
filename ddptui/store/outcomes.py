"""A run's results again, from its journals alone."""

import msgspec

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings.compare import compare
from ddptui.findings.repeat import Outcomes, RepeatOutcome, in_place_of, outcome_of_messages
from ddptui.store.journal import read_messages
from ddptui.store.runs import Run, raising_run_error


def results_of(run: Run, preset: Preset) -> Results:
    """A run's results, computed from its journals as those in results.json were, with notes on damaged journals."""
    unread: list[str] = []
    results = compare(preset, run.name, run.environment(), outcomes_of(run, preset, unread))
    return msgspec.structs.replace(results, unread=unread) if unread else results


def outcomes_of(run: Run, preset: Preset, unread: list[str] | None = None) -> Outcomes:
    """The outcome of every repeat. Notes on damaged journals are added to `unread`."""
    return {
        (trial.name, number): outcome
        for trial in preset.trials
        for number in range(1, preset.repeats + 1)
        if (outcome := _outcome(run, trial.name, number, unread))
    }


def _outcome(run: Run, trial: str, number: int, unread: list[str] | None) -> RepeatOutcome | None:
    """The outcome of a repeat's last launch, with what those before it have measured."""
    last = outcome_of_messages(run.messages(trial, number, unread))
    before: RepeatOutcome | None = None
    for journal in run.disturbed(trial, number) if last else ():
        with raising_run_error(journal):
            if outcome := outcome_of_messages(read_messages(journal, unread)):
                before = in_place_of(before, outcome)
    return in_place_of(before, last) if last else None


def finished(outcomes: Outcomes) -> Outcomes:
    """The launches that need no repetition: those that were interrupted or skipped are missing, failed ones are not."""
    return {key: outcome for key, outcome in outcomes.items() if outcome.status in ("ok", "failed")}
