"""The notes of a run, sorted by how much they concern the chosen trial."""

from collections.abc import Sequence
from typing import NamedTuple

from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.notes import Note, notes
from ddptui.report.sentences import BETWEEN_STEPS
from ddptui.report.status import what_became


class TrialNotes(NamedTuple):
    """Lines of text; what was published is in none of them, since it stands beside the measured figures."""

    chosen: list[str]  # the verdict first
    others: list[str]  # of the other trials
    reading: list[str]  # how to read the table


def in_words(results: Results, preset: Preset, chosen: str | None) -> TrialNotes:
    """The notes of a run for a reader who looks at the trial named `chosen`."""
    trial = next((trial for trial in results.trials if trial.name == chosen), None)
    of_run = notes(results, preset)
    of_trials = [note for note in of_run if note.kind in ("finding", "caution")]
    own = [note for note in of_trials if chosen in note.trials]
    findings, cautions = _of_kind(own, "finding"), _of_kind(own, "caution")
    return TrialNotes(
        chosen=[*(findings or _no_findings(trial, results.baseline)), *cautions],
        others=[note.text for note in of_trials if note not in own],
        reading=_of_kind(of_run, "reading"),
    )


def in_short(trial: TrialResult | None) -> str:
    """The verdict in a title's few words; empty if no rank is late."""
    culprit = trial.summary.culprit if trial and trial.summary else None
    if culprit is None:
        return ""
    where = culprit.phase if culprit.phase == BETWEEN_STEPS else f"in {culprit.phase}"
    return f"rank {culprit.rank} is late, {where}"


def worst(trials: Sequence[TrialResult]) -> str | None:
    """The name of the trial in which one rank cost the others most; None if no rank was late."""
    caused = {
        trial.name: trial.summary.culprit.wait_caused_s for trial in trials if trial.summary and trial.summary.culprit
    }
    return max(caused, key=lambda name: caused[name], default=None)


def _of_kind(chosen: Sequence[Note], kind: str) -> list[str]:
    return [note.text for note in chosen if note.kind == kind]


def _no_findings(trial: TrialResult | None, baseline: str) -> list[str]:
    if trial is None:
        return []
    if trial.summary is None:
        return [f"{trial.name} {what_became(trial)}"]
    parts = ["the baseline"] if trial.name == baseline else []
    alone = all(len(repeat.ranks) == 1 for repeat in trial.repeats)
    parts += ["one process, so there is nobody to wait for"] if alone else []
    return [f"{trial.name}: {'; '.join(parts) or 'nothing stands out'}"]
