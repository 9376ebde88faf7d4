"""Holds what a command prints against what a page shows of it. What differs from run to run and from machine to machine
is masked: figures, spaces, the lengths of lines, and what depends on how busy the machine was."""

import re
from collections.abc import Sequence
from difflib import unified_diff
from itertools import pairwise

ANY = "…"  # alone in a line: any lines, or none
FIGURE = "#"
RULE = re.compile(r"─{3,}")
TABLE = re.compile(r"─{3,}$|\| :?-")  # below its header, also in Markdown

# A number with its sign, its decimals and its unit; or the mark in place of one, where a trial was disturbed.
NUMBERS = re.compile(r"⚠|[+−-]?\d[\d.,:]*(?<=\d)(?:e-?\d+)?(?:\s?(?:%|[nµm]?s|[KMGT]?B)(?![A-Za-z]))?")
# How far repeats lie apart, disturbed repeats, two kinds of times, a figure that is wrong, a
# wait that is just long enough for the lightest shade.
MARKS = re.compile(r"\s*±\s?[\d.]+%?|(?<=\d)…\d+\.\d+(?= ⚠)|(?<=[\d%])\s⚠|¹\s|!(?=\d)|░ (?=\d)")
LEFT = re.compile(r"\s+about [\d:]+ left$")
# Of a trial's findings, the one that the lab made itself is there in every run; what follows it comes and goes.
MADE = re.compile(r"(?:- )?\S+: (?:We injected|Rank # holds everyone up: )")
# Lines that come and go with how busy the machine is, and how far repeats differ; in Markdown, they are list items.
MOODS = (
    r"caution[,:]",
    r"Cannot tell: ",
    r"ratio, speed-up: ",
    r"±: the largest",
    r"⚠ ",
    r".*\bdisturbed\b",
    r".*\bno ratio: ",
    r"\S+: repeat \d+ is left out of medians",
    # Where the time went, or who was late: pauses of the scheduler, and that there is nothing else.
    r"[^:]+: (?:Nothing to worry about: |In steps? |Late by turns: |Rank \d+ (?:is|grows) late |\d+ steps? took |"
    r"Data limits |Most of the |Work between steps |Mostly |Ranks stood idle |Rank \d+ caused |\d+ of \d+ steps? |"
    r"Rank \d+ holds everyone up, since )",
    r"all right$|wrong: the cells |root: no delay was injected",  # of the selftest
)
OF_A_MOOD = re.compile(rf"(?:- )?(?:{'|'.join(MOODS)})")
# The doctor: what a machine has is as different as figures are. Its lines go on below their second column.
CHECK = re.compile(r"[✓✗!–] (\S+(?: \S+)*?)\s{2,}.*")
GOES_ON = re.compile(r"\s{15}\S.*")


def masked(lines: Sequence[str]) -> list[str]:
    """The lines with a mark in place of every figure, and without those that come and go."""
    return [_line(line) for line in lines if not OF_A_MOOD.match(line) and not GOES_ON.fullmatch(line)]


def _line(line: str) -> str:
    if check := CHECK.fullmatch(line):
        return f"check {check[1]}"
    line = " ".join(NUMBERS.sub(FIGURE, RULE.sub("─", LEFT.sub("", MARKS.sub("", line)))).split())
    return line.split(". ")[0] if MADE.match(line) else line


def difference(shown: Sequence[str], printed: Sequence[str]) -> str:
    """How the lines that a page shows differ from those that were printed; empty: they agree."""
    shown, printed = _without_answer(shown), _without_answer(printed)
    wanted, found = _headers(shown), _headers(printed)
    if 2 * len(wanted & found) < len(wanted):
        return f"shown: {', '.join(sorted(wanted))}\nprinted: {', '.join(sorted(found))}"
    common = wanted & found or found
    sides = [masked(_only(common, lines)) for lines in (shown, printed)]
    return "" if _fits(_parts(sides[0]), sides[1]) else "\n".join(unified_diff(*sides, "shown", "printed", lineterm=""))


def _fits(parts: list[list[str]], lines: list[str]) -> bool:
    """Whether the parts stand in the lines in this order, the first at their begin and the last at their end."""
    first, *others = parts
    if not others:
        return lines == first
    last = others.pop()
    where = len(first) if lines[: len(first)] == first else None
    for part in others:
        starts = range(where if where is not None else len(lines) + 1, len(lines) + 1)
        where = next((at + len(part) for at in starts if lines[at : at + len(part)] == part), None)
    end = len(lines) - len(last)
    return where is not None and end >= where and lines[end:] == last


def _without_answer(lines: Sequence[str]) -> Sequence[str]:
    """The lines, a word in place of what a result answers: the paragraph between its title and its first table. It says
    what was seen this time; that there was a difference, or that none can be told."""
    paragraphs = [at + 1 for at, line in enumerate(lines) if at and not line and lines[at - 1]]
    for begin, end in pairwise(paragraphs):
        if begin + 1 < end and any(map(TABLE.match, lines[end + 1 : end + 2])):
            return [*lines[:begin], "ANSWER", *lines[end - 1 :]]
    return lines


def _parts(lines: Sequence[str]) -> list[list[str]]:
    """The lines between ellipses."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if line == ANY:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _headers(lines: Sequence[str]) -> set[str]:
    """The columns of all tables. Wider figures leave room for fewer, so only those of both sides are compared."""
    headers = [_cells(line) for line, rule in pairwise(lines) if _is_rule(rule)]
    return {cell for cells in headers if len(cells) > 1 for cell in cells}


def _is_rule(line: str) -> bool:
    return TABLE.match(line) is not None


def _cells(line: str) -> list[str]:
    line = MARKS.sub("", line).strip()
    return re.split(r"\s*\|\s*", line.strip("| ")) if line.startswith("|") else re.split(r"\s{2,}", line)


def _only(columns: set[str], lines: Sequence[str]) -> list[str]:
    """The lines, their tables with these columns alone. A row whose cells cannot be told apart stays as it is."""
    kept, table = [], None
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if _is_rule(following) and len(_cells(line)) > 1:
            table = [cell in columns for cell in _cells(line)]
        elif not line.strip():
            table = None
        cells = _cells(line)
        if table and len(cells) == len(table):
            line = "  ".join(cell for cell, is_kept in zip(cells, table, strict=True) if is_kept)
        kept.append(line)
    return kept
