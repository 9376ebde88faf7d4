"""A finding of `ddptui doctor`, and its printed form. Pure."""

import textwrap
from typing import NamedTuple

from ddptui.text.words import remedy_of

WIDTH = 11  # width of the longest name; fixed, because each finding is printed before the next is known
COLUMNS = 80


class Finding(NamedTuple):
    """The result of one check."""

    name: str  # what was checked
    text: str  # what was found
    remedy: str = ""  # how to fix the problem; empty: there is none
    fatal: bool = False  # no run can start until the problem is fixed
    tried: bool = True  # False: not checked, because something else is missing


def with_known_cause(finding: Finding) -> Finding:
    """The finding, with a more specific remedy if its text names a resource that is exhausted."""
    return finding._replace(remedy=remedy_of(finding.text) or finding.remedy) if finding.remedy else finding


def lines(finding: Finding) -> list[str]:
    """A finding as printed lines, with the remedy below."""
    mark = "✗" if finding.fatal else "!" if finding.remedy else "✓" if finding.tried else "–"
    wrapped = _wrapped(f"{mark} {finding.name:{WIDTH}}  ", finding.text)
    return wrapped + (_wrapped(" " * (WIDTH + 4) + "→ ", finding.remedy) if finding.remedy else [])


def _wrapped(begin: str, text: str) -> list[str]:
    """Lines of at most 80 columns, unless a single word is longer."""
    # do not break commands and paths, so that they can be copied
    wrapper = textwrap.TextWrapper(COLUMNS, begin, " " * len(begin), break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(" ".join(text.split())) or [begin.rstrip()]
