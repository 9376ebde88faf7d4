"""What there is to say of a run once a trial is chosen, sorted by how much it concerns that one. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from ddptui.analysis.cautions import ADVICE
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report import sentences
from ddptui.report.devices import OVER
from ddptui.report.status import what_became
from ddptui.report.table import notes

PUBLISHED = "published: "  # the sources, which stand beside the figures here


class InWords(NamedTuple):
    own: list[str]  # the verdict first
    others: list[str]  # of the other trials
    notes: list[str]  # how the table is to be read


def in_words(results: Results, preset: Preset, chosen: str | None) -> InWords:
    """`chosen`: a trial's name."""
    said = [note for note in notes(results, preset) if not note.startswith(PUBLISHED)]
    cautions = sentences.cautions(results.trials)
    by_trial = {trial.name: [note for note in said if _speaks_of(note, trial.name)] for trial in results.trials}
    spoken = {note for lines in by_trial.values() for note in lines}
    of_table = [note for note in said if note not in spoken and note not in cautions]
    own, concerning = by_trial.pop(chosen or "", []), _concerning(cautions, _named(results, chosen))
    others = [note for lines in by_trial.values() for note in lines]
    others += [caution for caution in cautions if caution not in concerning]
    return InWords([*(own or _nothing_said(results, chosen)), *concerning], others, of_table)


def in_short(trial: TrialResult | None) -> str:
    """The verdict in a title's few words; empty where nobody is to blame."""
    culprit = trial.summary.culprit if trial and trial.summary else None
    if culprit is None:
        return ""
    where = culprit.phase if culprit.phase == sentences.BETWEEN_STEPS else f"in {culprit.phase}"
    return f"rank {culprit.rank} is late, {where}"


def worst(trials: Sequence[TrialResult]) -> str | None:
    """The trial in which one rank cost the others most."""
    caused = {
        trial.name: trial.summary.culprit.wait_caused_s for trial in trials if trial.summary and trial.summary.culprit
    }
    return max(caused, key=lambda name: caused[name], default=None)


def _speaks_of(note: str, name: str) -> bool:
    """How a trial was started and its ranks met says how to read the table, and nothing of what became of it."""
    how = (f"{name}: started by ", f"{name}: {OVER} ")
    return note.startswith((f"{name}: ", f"{name} failed: ")) and not note.startswith(how)


def _concerning(cautions: Sequence[str], trial: TrialResult | None) -> list[str]:
    raised = [ADVICE[caution] for caution in trial.summary.warnings] if trial and trial.summary else []
    return [caution for caution in cautions if caution.endswith(tuple(raised))]


def _nothing_said(results: Results, chosen: str | None) -> list[str]:
    trial = _named(results, chosen)
    if trial is None:
        return []
    return [f"{trial.name}: nothing to say of it" if trial.summary else f"{trial.name} {what_became(trial)}"]


def _named(results: Results, name: str | None) -> TrialResult | None:
    return next((trial for trial in results.trials if trial.name == name), None)
