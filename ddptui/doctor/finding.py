"""A finding of the doctor, and how it is printed. Pure."""

import textwrap
from typing import NamedTuple

from ddptui.text.words import remedy_of

WIDTH = 11  # of the longest name; fixed, since findings are printed as they come
COLUMNS = 80


class Finding(NamedTuple):
    """The result of one check.

    name    of what was checked; text: what was found
    remedy  what mends it (empty: nothing is wrong); fatal: no run can start until then
    tried   False: not checked, since something else must be present first
    """

    name: str
    text: str
    remedy: str = ""
    fatal: bool = False
    tried: bool = True


def with_known_cause(finding: Finding) -> Finding:
    """The same finding, with a better remedy where its text names a resource that is short."""
    return finding._replace(remedy=remedy_of(finding.text) or finding.remedy) if finding.remedy else finding


def lines(finding: Finding) -> list[str]:
    """A finding as printed lines, the remedy below it."""
    mark = "✗" if finding.fatal else "!" if finding.remedy else "✓" if finding.tried else "–"
    wrapped = _wrapped(f"{mark} {finding.name:{WIDTH}}  ", finding.text)
    return wrapped + (_wrapped(" " * (WIDTH + 4) + "→ ", finding.remedy) if finding.remedy else [])


def _wrapped(begin: str, text: str) -> list[str]:
    """Lines of at most 80 columns, unless a single word, such as a path, is longer."""
    return textwrap.wrap(
        " ".join(text.split()),
        COLUMNS,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [begin.rstrip()]
