"""Reads TOML that anyone may have written, in a time that grows with its length and no faster; quotes its values."""

import re
import tomllib
from typing import Any

import msgspec

MOST_PARTS = 16  # of a dotted key. A preset's have three; tomllib's time grows with the square of their number
PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.){0,99}+"|'[^'\n]{0,99}+')"""
TOO_DEEP = re.compile(rf"""(?<![\w.-])(?:{PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}""")


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError, or RecursionError if it is nested without end."""
    if deep := TOO_DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise ValueError(f"a dotted key of more than {MOST_PARTS} parts (at line {line})")
    return tomllib.loads(text)


LONGEST_QUOTE = 40  # characters of a value in an error


def quoted(value: Any) -> str:
    """A value as TOML spells it, on one line, as much as an error should quote."""
    if isinstance(value, str):  # an argument may hold bytes that are no UTF-8, which cannot be encoded
        value = value.encode("utf-8", "replace").decode()
    text = str(value) if isinstance(value, float) else msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
