"""The page of two runs side by side: the answer, what both have, and what else differs."""

from ddptui.page.render import rendered
from ddptui.page.tables import table_view
from ddptui.report.run_diff import Comparison
from ddptui.report.run_diff.render import in_words


def comparison_page(compared: Comparison) -> str:
    """The page of runs A and B."""
    columns = compared.table.columns
    has_rows = bool(columns and columns[0].cells)
    return rendered(
        "comparison.html",
        title=f"{compared.a} and {compared.b}",
        kicker="Two runs, row by row: A is the first, B the second",
        answer=[compared.answer],
        table=table_view("What both runs have", columns) if has_rows else None,
        reading=compared.notes if has_rows else (),
        differences=in_words(compared),
    )
