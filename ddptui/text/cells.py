"""Measures, cuts, aligns and wraps text by terminal cells: most characters take one, Chinese ones take two."""

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from textwrap import TextWrapper
from typing import Any
from unicodedata import category, east_asian_width

CLOSING = "，。；：、！？）》」』】”’"  # marks that do not begin a line
FILLER = "\0"  # follows each wide character while a text is wrapped, so that its length is its width


@lru_cache(4096)  # tables measure the same cells at each redraw
def cell_len(text: str) -> int:
    """The width of a text in cells."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(char: str) -> int:
    return 0 if category(char) in ("Mn", "Me") else 2 if east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The longest start of a text that fits into a width."""
    return text[:width] if text.isascii() else text[: bisect_right([*accumulate(map(_width, text))], width)]


def ljust(text: str, width: int) -> str:
    """The text, filled up with blanks on the right."""
    return text + " " * (width - cell_len(text))


def rjust(text: str, width: int) -> str:
    """The text, filled up with blanks on the left."""
    return " " * (width - cell_len(text)) + text


class _Wrapper(TextWrapper):
    """Breaks lines between words, and beside wide characters, since Chinese has no spaces between words."""

    pieces = re.compile(rf"\s+|(?:[^\s{FILLER}]{FILLER}|(?:[^\s{FILLER}](?!{FILLER}))+)(?:[{CLOSING}]{FILLER})*")

    def _split(self, text: str) -> list[str]:
        return self.pieces.findall(text)


def paragraph(text: str, width: int, **options: Any) -> list[str]:
    """The lines of a text, wrapped to `width`. Hyphenated names such as reduce-scatter are not broken. options: those
    of TextWrapper."""
    if text.isascii():
        return TextWrapper(width, break_on_hyphens=False, **options).wrap(text)
    filled = "".join(char + FILLER * (_width(char) - 1) for char in text)
    return [line.replace(FILLER, "") for line in _Wrapper(width, **options).wrap(filled)]
