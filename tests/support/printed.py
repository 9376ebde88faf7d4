"""Parts of a result that was printed, and a finding with all that is said of it."""

import re

from ddptui.analysis.finding import Finding
from ddptui.findings.words import evidence, remedy, short
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
