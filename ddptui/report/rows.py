"""Rows of the table that compares trials, and cells that several tables and sentences share."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ddptui.analysis.breakdown import Breakdown, difference
from ddptui.analysis.effect import ratio_pairs
from ddptui.analysis.policy import HOST_TIME, Caution
from ddptui.analysis.repeats import Pair, is_rough, valid_repeats, why_rough
from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.findings.trial import median_over
from ddptui.text.words import NOTHING, digits

Figure = Callable[[RepeatResult], float | None]
OFF_BY = "±"
DISTURBED = "⚠"
ROUGH = f"{DISTURBED} disturbed, so inexact"


class Row(NamedTuple):
    """A trial's results and configuration. published: its published train time divided by the baseline's."""

    result: TrialResult
    trial: Trial
    published: float | None
    pairs: Sequence[Pair] = ()  # of its repeats and the baseline's that its ratio is of
    difference: Breakdown | None = None  # by how much longer it took than the baseline; None: nothing to compare

    @property
    def last(self) -> RepeatResult | None:
        """The last repeat."""
        return self.result.repeats[-1] if self.result.repeats else None

    @property
    def is_rough(self) -> bool:
        """Whether the trial's ratio is inexact: repeats that it uses were disturbed or changed by hand."""
        return bool(why_rough(self.pairs))

    @property
    def ranks(self) -> int:
        """The number of ranks; 0 if it is not known yet, for a command."""
        return self.trial.ranks or (len(self.last.ranks) if self.last else 0)


def is_marked(trial: TrialResult) -> bool:
    """Whether repeats of the trial were disturbed or changed by hand, or a GPU's clock was held back."""
    return is_rough(trial.repeats) or (trial.summary is not None and Caution.HELD_BACK in trial.summary.warnings)


def mark_of(trial: TrialResult, results: Results | None = None) -> str:
    """What stands behind a figure of a trial: a mark if it was disturbed. With results, behind its difference from the
    baseline."""
    pairs = ratio_pairs(trial, results) if results else []
    return f" {DISTURBED}" * (is_marked(trial) or bool(why_rough(pairs)))


def rows_of(results: Results, preset: Preset) -> list[Row]:
    """One row for each trial, in the order of the results."""
    published = {reference.trial: reference.train_time_s for reference in preset.references}
    base = published.get(preset.baseline)
    trials = {trial.name: trial for trial in preset.trials}
    return [
        Row(
            result,
            trials[result.name],
            published[result.name] / base if base and result.name in published else None,
            ratio_pairs(result, results),
            from_baseline(result, results),
        )
        for result in results.trials
    ]


def from_baseline(trial: TrialResult, results: Results) -> Breakdown | None:
    """By how much it took longer than its baseline, in parts; None: it is the baseline, or they cannot be compared."""
    base = results.base_of(trial)
    return difference(trial, base) if base and base is not trial else None


def who(names: Sequence[str], trials: int) -> str:
    """The names of trials as text, or "all trials". trials: the total number of trials."""
    return "all trials" if len(names) == trials > 1 else ", ".join(names)


def median_of(result: TrialResult, figure: Figure, form: str = "") -> str:
    """The median of a figure over the valid repeats as text; a dash if no repeat has it. Without a form, it has three
    digits."""
    value = median_figure(result, figure)
    return digits(value) if value is None or not form else format(value, form)


def median_figure(result: TrialResult, figure: Figure) -> float | None:
    """The median of a figure over the valid repeats; None if no repeat has it."""
    return median_over(valid_repeats(result.repeats), figure)


def step_ms(repeat: RepeatResult) -> float | None:
    """The length of a repeat's median step, in ms; None if it is not known."""
    return repeat.step_ms.median if repeat.step_ms else None


def loss_of(result: TrialResult) -> float | None:
    """The median of the final loss over the valid repeats; None if no loss is finite."""
    return median_figure(result, lambda repeat: repeat.loss.last)


def culprit_of(result: TrialResult) -> str:
    """The rank that the others wait for and the phase in which it is late, e.g. "rank 1: backward"; else a dash."""
    culprit = result.summary.culprit if result.summary else None
    return f"rank {culprit.rank}: {culprit.phase}" if culprit else NOTHING


def is_stand_in(row: Row) -> bool:
    """Whether the trial's replicas were threads on the CPU, as a stand-in for nn.DataParallel on GPUs."""
    return row.trial.launch == "dp" and any("stand-in" in repeat.ranks[0].device for repeat in row.result.repeats)


def by_host(row: Row, cell: str) -> str:
    """The cell of a time within a step, with a mark if the time is from the host's clock."""
    warnings = row.result.summary.warnings if row.result.summary else ()
    return f"{cell} {HOST_TIME}" if Caution.HOST_TIME in warnings and cell != NOTHING else cell


def off_by(middle: float, lowest: float, highest: float) -> str:
    """A median and the largest deviation of any repeat from it, e.g. "1.31 ±0.04"; one repeat has no deviation."""
    return f"{middle:.2f}" + (f" {OFF_BY}{max(middle - lowest, highest - middle):.2f}" if lowest < highest else "")


def status_of(result: TrialResult) -> str:
    """The status of a trial: ok, failed or stopped; empty if the run did not reach it."""
    return result.status if result.status != "skipped" else "stopped" if result.command else ""


def what_became(result: TrialResult) -> str:
    """What happened to a trial, to follow its name, e.g. "was stopped before its end: no figures"."""
    if result.status != "skipped":
        return result.status
    if not result.command:
        return "was not reached"
    return "was stopped before its end" + ("" if result.primitives else ": no figures")
