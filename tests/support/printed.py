"""Parts of a result that was printed, and a finding with all that is said of it."""

import csv
import io
import re

from ddptui.analysis.finding import Finding
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings.words import evidence, remedy, short
from ddptui.report.table import as_csv
from ddptui.text.words import in_a_row


def long(finding: Finding) -> str:
    """The finding, the evidence and what to try, a sentence each."""
    return in_a_row([short(finding), evidence(finding), remedy(finding)], ".")


def table_of(shown: str) -> list[str]:
    """The lines of its table."""
    [table] = [block for block in shown.split("\n\n") if "\n───" in block]
    return table.splitlines()


def header_of(shown: str) -> list[str]:
    """The headers of its table."""
    return re.split(r"\s{2,}", table_of(shown)[0].strip())


def cells_of(page: str, trial: str) -> dict[str, str]:
    """A trial's line of a table in Markdown, by header."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in page.splitlines() if "|" in line]
    [row] = [row for row in rows if row[0] == trial]
    return dict(zip(rows[0], row, strict=True))


def csv_rows(results: Results, preset: Preset) -> list[dict[str, str]]:
    """The lines of the run's CSV, by column."""
    return [*csv.DictReader(io.StringIO(as_csv(results, preset)))]
