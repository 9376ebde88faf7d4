"""Two runs side by side: whether B was faster or slower than A, the figures of both, and what else differs."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ddptui.analysis.results import Results
from ddptui.report.run_diff import cells, trials
from ddptui.report.run_diff.differences import differences
from ddptui.report.run_diff.matching import BY_NAME, ComparisonError, Matches, pairs
from ddptui.report.run_diff.pairs import Pair
from ddptui.text.tables import Column, Table, fill, value_at

Item = TypeVar("Item")
AT_LEAST = 4  # columns that are shown however narrow it gets


class Comparison(NamedTuple):
    """Two runs, A and B."""

    a: str  # their names
    b: str
    answer: str  # one to three sentences
    table: Table  # a row for each trial, or each cell, that is in both
    notes: Sequence[str]  # how to read the table
    differences: Sequence[str]  # what else differs, a line each
    figures: Mapping[str, Sequence[object]]  # the table in full, for scripts: by key, a value for each row


def comparison(a: Results, b: Results, matches: Matches = BY_NAME) -> Comparison:
    """Compare trainings trial by trial, or the times of primitives cell by cell. Raises ComparisonError."""
    both = pairs(a, b, matches)
    others = differences(a, b, both)
    primitives = [results.run for results in (a, b) if _has_primitives(results)]
    if len(primitives) == 1:
        raise ComparisonError(f"{primitives[0]} ran primitives, the other run trained: name two runs of one kind")
    if not primitives:
        answer = trials.answer(both) if both else _nothing(a, b, "trial", both)
        table, figures = _rows(both, trials.COLUMNS, trials.FIGURES)
        return Comparison(a.run, b.run, answer, table, trials.notes(both), others, figures)
    timed = [*cells.cell_pairs(both)]
    answer = cells.answer(timed) if timed else _nothing(a, b, "timed operation with the same size", both)
    table, figures = _rows(timed, cells.COLUMNS, cells.FIGURES)
    return Comparison(a.run, b.run, answer, table, cells.notes(timed), others, figures)


def _has_primitives(results: Results) -> bool:
    return any(trial.config.get("primitives") for trial in results.trials)


def _nothing(a: Results, b: Results, what: str, both: Sequence[Pair]) -> str:
    presets = a.preset if a.preset == b.preset else f"A is of {a.preset}, B of {b.preset}"
    by_hand = "" if both else ", or match trials by hand: `m` in the console, `--match A=B` in a shell"
    return f"Nothing to compare: no {what} is in both runs ({presets}); name two runs of the same preset{by_hand}."


def _rows(
    items: Sequence[Item], columns: Sequence[Column[Item]], figures: Mapping[str, str | Callable[[Item], object]]
) -> tuple[Table, dict[str, list[object]]]:
    values = {
        key: [value_at(item, how) if isinstance(how, str) else how(item) for item in items]
        for key, how in figures.items()
    }
    return Table(fill(columns, items), at_least=AT_LEAST), values
