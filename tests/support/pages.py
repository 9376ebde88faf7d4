"""Pages in Markdown: what they link to and name, and whether it is there."""

import re
from collections.abc import Iterator
from pathlib import Path

WIDTH = 120
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)")
NAMED = re.compile(r"`((?:ddptui|workers|presets|tests|docs|benchmarks)/[\w./-]+)`")
PLACEHOLDERS = ("NAME", "ROOM")  # for a name that the reader chooses
UNBROKEN = re.compile(r"\|")  # the rows of tables


def without_blocks(text: str) -> str:
    """The text, the lines of its fenced blocks empty."""
    return re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)


def problems(root: Path, page: str) -> list[str]:
    """A line for each link that leads nowhere, and each file that is named but is not there."""
    text = without_blocks((root / page).read_text(encoding="utf-8"))
    return [*_links(root, page, text), *_names(root, text)]


def _links(root: Path, page: str, text: str) -> Iterator[str]:
    for path, anchor in LINK.findall(text):
        target = (root / page).parent / path if path else root / page
        if not target.exists():
            yield f"no {path}"
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"no #{anchor} in {path or page}"


def _names(root: Path, text: str) -> Iterator[str]:
    for name in NAMED.findall(text):
        if not (root / name).exists() and not any(word in name for word in PLACEHOLDERS):
            yield f"no {name}"


def wide_lines(text: str) -> list[int]:
    """The numbers of the lines that are too wide, those apart that Markdown cannot break."""
    lines = enumerate(without_blocks(text).splitlines(), start=1)
    return [number for number, line in lines if len(line) > WIDTH and not UNBROKEN.match(line)]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
