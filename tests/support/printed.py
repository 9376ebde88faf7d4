"""Parts of a result that was printed."""

import re


def table_of(shown: str) -> list[str]:
    """The lines of its table."""
    [table] = [block for block in shown.split("\n\n") if "\n───" in block]
    return table.splitlines()


def header_of(shown: str) -> list[str]:
    """The headers of its table."""
    return re.split(r"\s{2,}", table_of(shown)[0].strip())
