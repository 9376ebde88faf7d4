"""Reads TOML whose keys are no deeper than tomllib can read in a moment."""

import re
import tomllib
from typing import Any

MOST_PARTS = 16  # of a dotted key: tomllib's time grows with the square of their number
TOO_DEEP = re.compile(rf"(?:[\w\"'-]+[ \t]*\.[ \t]*){{{MOST_PARTS}}}[\w\"'-]+[ \t]*[]=]")


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError, or RecursionError if it is nested without end."""
    if deep := TOO_DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise ValueError(f"a dotted key of more than {MOST_PARTS} parts (at line {line})")
    return tomllib.loads(text)
