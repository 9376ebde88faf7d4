"""One thing looked at, and how it is printed. Pure."""

import textwrap
from typing import NamedTuple

WIDTH = 11  # of the longest `what`: findings are printed as they come
COLUMNS = 80
CAUSES = {  # what an error says, and what mends that, whatever was tried
    "Too many open files": "`ulimit -n 4096`, in the shell that starts ddptui",
    "Resource temporarily unavailable": "no more processes may be started: raise `ulimit -u`",
    "can't start new thread": "no more threads may be started: raise `ulimit -u`",
    "Cannot allocate memory": "memory is short: end other programs, or raise `ulimit -v`",
    "failed to map segment": "memory is short, or its folder is mounted noexec: raise `ulimit -v`, or remount",
    "No space left on device": "the disk is full: free some of it",
}


class Finding(NamedTuple):
    """One thing looked at. `remedy`: what to do about it, if it is not as it should be; `fatal`: nothing runs so;
    `tried`: False where something else must be there first."""

    what: str
    found: str
    remedy: str = ""
    fatal: bool = False
    tried: bool = True


def with_known_cause(finding: Finding) -> Finding:
    """The same, with a better remedy where what was found says what is short."""
    known = next((remedy for words, remedy in CAUSES.items() if words in finding.found), finding.remedy)
    return finding._replace(remedy=known) if finding.remedy else finding


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
