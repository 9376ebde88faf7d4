"""One thing looked at, and how it is printed. Pure."""

import textwrap
from typing import NamedTuple

from ddptui.text.os_remedies import remedy_of

WIDTH = 11  # of the longest `what`: findings are printed as they come
COLUMNS = 80


class Finding(NamedTuple):
    """One thing looked at. `remedy`: what to do about it, if it is not as it should be; `fatal`: nothing runs so;
    `tried`: False where something else must be there first."""

    what: str
    found: str
    remedy: str = ""
    fatal: bool = False
    tried: bool = True


def with_known_cause(finding: Finding) -> Finding:
    """The same finding, with a better remedy where its text names a resource that is short."""
    return finding._replace(remedy=remedy_of(finding.found) or finding.remedy) if finding.remedy else finding


def lines(finding: Finding) -> list[str]:
    """As it is printed: what was found, and under it what mends it."""
    mark = "✗" if finding.fatal else "!" if finding.remedy else "✓" if finding.tried else "–"
    found = _wrapped(f"{mark} {finding.what:{WIDTH}}  ", finding.found)
    return found + (_wrapped(" " * (WIDTH + 4) + "→ ", finding.remedy) if finding.remedy else [])


def _wrapped(begin: str, text: str) -> list[str]:
    """Lines of at most 80 columns, where no single word (a path, say) is longer."""
    return textwrap.wrap(
        " ".join(text.split()),
        COLUMNS,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [begin.rstrip()]
