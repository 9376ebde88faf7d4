"""Rewrite the outputs that README and docs show, from real runs of their commands.

    python -m docs.outputs [PAGE …]

Without a PAGE, all of them (a quiet machine, ten minutes). A command without an output gets its whole stdout. Where a
page shows only parts, with … between them, the new parts begin and end at the same lines as the old ones. If these
lines are gone, or other programs have disturbed the run, the old output stays, and a line on stderr says which.
"""

import re
import sys
import tempfile
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from ddptui.report.rows import DISTURBED
from tests.support.masks import ANY, masked
from tests.support.shown import PAGES, REPO, Printed, Reader, lacking, shown_on

ROW = 4  # cells: a line with so many is one of a table


def main() -> None:
    pages = sys.argv[1:] or PAGES
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(Path(folder))
        for page in pages:
            rewrite(page, reader)


def rewrite(page: str, reader: Reader) -> None:
    """Run the commands of a page, those of this machine alone, and put what they print below them."""
    wanted = [shown for shown in shown_on(page) if shown.place == "here" and not lacking(shown)]
    lines = (REPO / page).read_text(encoding="utf-8").splitlines()
    for shown, printed in reversed(reader.read(page, wanted)):  # from the end, so that lines keep their numbers
        output = renewed(shown.output, printed.beside(shown.output))
        if output is None or is_disturbed(printed):
            why = "other lines than before" if output is None else "other programs disturbed it"
            print(f"{page}:{shown.line}: left as it is, {why}: {shown.command}", file=sys.stderr)
        else:
            lines[shown.line : shown.line + len(shown.output)] = output
    (REPO / page).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{page}: {len(wanted)} commands")


def is_disturbed(printed: Printed) -> bool:
    """Whether the output is of a busy machine: such figures are not for readers."""
    return any(re.search(rf"\d {DISTURBED}", line) for line in printed.stdout)


def renewed(shown: Sequence[str], printed: Sequence[str]) -> list[str] | None:
    """The parts of what was printed that the page shows; None: a part's first or last line is not there."""
    if ANY not in shown:
        return list(printed)
    output: list[str] = []
    where = 0
    for is_omitted, group in groupby(shown, key=lambda line: line == ANY):
        if is_omitted:
            output.append(ANY)
            continue
        part = list(group)
        if not any(part):  # empty lines between two ellipses
            output += part
            continue
        blank = next(number for number, line in enumerate(part) if line)
        begin = _find(part[blank], printed, where)
        end = None if begin is None else _end(part[blank:], printed, begin)
        if begin is None or end is None:
            return None
        output += [*part[:blank], *printed[begin:end]]
        where = end
    return output


def _end(part: list[str], printed: Sequence[str], begin: int) -> int | None:
    """Where a part ends that begins there: after as many lines, if the last is like the part's; else after the first
    that is. Empty lines below it belong to it."""
    blank = len(part) - next(number for number, line in enumerate(reversed(part)) if line)
    same = begin + blank - 1
    last = _find(part[blank - 1], printed[: same + 1], same)
    last = _find(part[blank - 1], printed, begin) if last is None else last
    return None if last is None else min(last + 1 + len(part) - blank, len(printed))


def _find(line: str, printed: Sequence[str], start: int) -> int | None:
    """The number of the first line from `start` on that is this one, but for its figures."""
    return next((at for at in range(start, len(printed)) if _is_same(printed[at], line)), None)


def _is_same(line: str, other: str) -> bool:
    """Whether lines differ by figures alone. Of a table's rows, the first cells count: columns may come and go."""
    rows = [re.split(r"\s{2,}", each.strip()) for each in (line, other)]
    if all(len(row) >= ROW for row in rows):
        line, other = rows[0][0], rows[1][0]
    return masked([line]) == masked([other])


if __name__ == "__main__":
    main()
