"""The page of two runs side by side: the answer, the trials that both have, and what else differs."""

from collections.abc import Sequence

from ddptui.analysis.results import Results
from ddptui.page.render import rendered
from ddptui.page.tables import table_view
from ddptui.report import run_diff
from ddptui.text.tables import Filled, fill

SAME = "Nothing: same trials, same fields, same machine, same load."


def comparison_page(a: Results, b: Results) -> str:
    """The page of runs A and B."""
    columns = fill(run_diff.COLUMNS, run_diff.pairs(a, b))
    return compared(a.run, b.run, [], columns, run_diff.differences(a, b))


def compared(a: str, b: str, answer: Sequence[str], columns: Sequence[Filled], differences: Sequence[str]) -> str:
    """The page of two runs, by their names, from what was found."""
    has_trials = bool(columns and columns[0].cells)
    return rendered(
        "comparison.html",
        title=f"{a} and {b}",
        kicker="Two runs, trial by trial: A is the first, B the second",
        answer=answer,
        table=table_view("The trials that both have", columns) if has_trials else None,
        differences=list(differences) or [SAME],
    )
