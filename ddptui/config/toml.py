"""Reads untrusted TOML in time that grows only linearly with its length, and quotes TOML values in errors."""

import re
import tomllib
from typing import Any

import msgspec

MOST_PARTS = 16  # of a dotted key; presets need three. tomllib's time grows with the square of their number
PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.){0,99}+"|'[^'\n]{0,99}+')"""
TOO_DEEP = re.compile(rf"""(?<![\w.-])(?:{PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}""")


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError, or RecursionError if it is nested too deeply."""
    if deep := TOO_DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise ValueError(f"a dotted key of more than {MOST_PARTS} parts (at line {line})")
    return tomllib.loads(text)


LONGEST_QUOTE = 40  # characters of a value in an error


def quoted(value: Any) -> str:
    """A value as one line of TOML, cut to LONGEST_QUOTE characters, for an error message."""
    if isinstance(value, str):  # an argument may contain bytes that are not UTF-8, which cannot be encoded
        value = value.encode("utf-8", "replace").decode()
    text = str(value) if isinstance(value, float) else msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
