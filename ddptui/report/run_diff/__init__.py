"""Two runs side by side: whether B was faster or slower than A, the figures of both, and what else differs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ddptui.analysis.results import Results
from ddptui.report.exports import values_of
from ddptui.report.run_diff import cells, trials
from ddptui.report.run_diff.differences import differences
from ddptui.report.run_diff.matching import BY_NAME, ComparisonError, Matches, pairs
from ddptui.report.run_diff.pairs import Pair
from ddptui.text.tables import Table, fill

AT_LEAST = 4  # columns that are shown however narrow it gets


class Comparison(NamedTuple):
    """Two runs, A and B."""

    a: str  # their names
    b: str
    answer: str  # one to three sentences
    table: Table  # a row for each trial, or each cell, that is in both
    notes: Sequence[str]  # how to read the table
    differences: Sequence[str]  # what else differs, a line each
    keys: Sequence[str]  # of a row for scripts
    rows: Sequence[Mapping[str, object]]  # the table in full, for scripts


def comparison(a: Results, b: Results, matches: Matches = BY_NAME) -> Comparison:
    """Compare trainings trial by trial, or the times of primitives cell by cell. Raises ComparisonError."""
    both = pairs(a, b, matches)
    others = differences(a, b, both)
    primitives = [each.run for each in (a, b) if any(trial.config.get("primitives") for trial in each.trials)]
    if len(primitives) == 1:
        raise ComparisonError(f"{primitives[0]} ran primitives, the other run trained: name two runs of one kind")
    if not primitives:
        answer = trials.answer(both) if both else _nothing(a, b, "trial", both)
        table = Table(fill(trials.COLUMNS, both), at_least=AT_LEAST)
        rows = [values_of(pair, trials.FIGURES) for pair in both]
        return Comparison(a.run, b.run, answer, table, trials.notes(both), others, [*trials.FIGURES], rows)
    timed = [*cells.cell_pairs(both)]
    answer = cells.answer(timed) if timed else _nothing(a, b, "timed operation with the same size", both)
    table = Table(fill(cells.COLUMNS, timed), at_least=AT_LEAST)
    rows = [values_of(cell, cells.FIGURES) for cell in timed]
    return Comparison(a.run, b.run, answer, table, cells.notes(timed), others, [*cells.FIGURES], rows)


def _nothing(a: Results, b: Results, what: str, both: Sequence[Pair]) -> str:
    presets = a.preset if a.preset == b.preset else f"A is of {a.preset}, B of {b.preset}"
    by_hand = "" if both else ", or match trials by hand: `m` in the console, `--match A=B` in a shell"
    return f"Nothing to compare: no {what} is in both runs ({presets}); name two runs of the same preset{by_hand}."
