"""A finding of the doctor, and how it is printed. Pure."""

import textwrap
from typing import NamedTuple

from ddptui.text.words import remedy_of

WIDTH = 11  # of the longest name; fixed, since findings are printed as they come
COLUMNS = 80


class Finding(NamedTuple):
    """The result of one check."""

    name: str  # of what was checked
    text: str  # what was found
    remedy: str = ""  # what mends it; empty: nothing is wrong
    fatal: bool = False  # no run can start until it is mended
    tried: bool = True  # False: not checked, since something else must be present first


def with_known_cause(finding: Finding) -> Finding:
    """The same finding, with a better remedy where its text names a resource that is short."""
    return finding._replace(remedy=remedy_of(finding.text) or finding.remedy) if finding.remedy else finding


def lines(finding: Finding) -> list[str]:
    """A finding as printed lines, the remedy below it."""
    mark = "✗" if finding.fatal else "!" if finding.remedy else "✓" if finding.tried else "–"
    wrapped = _wrapped(f"{mark} {finding.name:{WIDTH}}  ", finding.text)
    return wrapped + (_wrapped(" " * (WIDTH + 4) + "→ ", finding.remedy) if finding.remedy else [])


def _wrapped(begin: str, text: str) -> list[str]:
    """Lines of at most 80 columns, unless a single word is longer."""
    # a command or a path that is broken in two cannot be copied
    wrapper = textwrap.TextWrapper(COLUMNS, begin, " " * len(begin), break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(" ".join(text.split())) or [begin.rstrip()]
