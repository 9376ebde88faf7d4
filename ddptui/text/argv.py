"""Converts command arguments and paths, which may hold bytes that are not UTF-8, to text that TOML and JSON can hold.

Python decodes such a byte as a lone surrogate, which neither TOML nor JSON can hold. Here it becomes a character from a
private-use plane of Unicode. If an argument genuinely contains such a character, each of its bytes is converted, so
that two different arguments never become the same text.
"""

import re
import shlex
from collections.abc import Iterable

KEPT = 0x10FE00  # code point of the character that stands for byte 0; the byte is added
BYTES = re.compile(f"[{chr(KEPT + 0x80)}-{chr(KEPT + 0xFF)}]")
SURROGATES_AND_KEPT = re.compile(f"[\udc80-\udcff]|{BYTES.pattern}")


def as_text(argument: str) -> str:
    """The text for an argument from sys.argv."""
    return SURROGATES_AND_KEPT.sub(_kept, argument)


def as_argument(text: str) -> str:
    """The argument for a text from `as_text`: a process started with it receives the original bytes."""
    return BYTES.sub(lambda found: chr(0xDC00 + (ord(found[0]) & 0xFF)), text)


def shell_line(text: Iterable[str]) -> str:
    r"""A shell command line for arguments from `as_text`. Bytes that are not UTF-8 are escaped, as in $'\xff'."""
    return " ".join(map(_quoted, text))


def _kept(found: re.Match[str]) -> str:
    return "".join(chr(KEPT + byte) for byte in found[0].encode("utf-8", "surrogateescape"))


def _quoted(argument: str) -> str:
    if not BYTES.search(argument):
        return shlex.quote(argument)
    escaped = argument.replace("\\", r"\\").replace("'", r"\'")
    spelled = BYTES.sub(lambda found: rf"\x{ord(found[0]) & 0xFF:02x}", escaped)
    return f"$'{spelled}'"
