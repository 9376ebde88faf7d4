"""Arguments of a command, and paths, as text that every file can hold. They are bytes, which need not be UTF-8.

Python reads such a byte as a lone surrogate, which neither TOML nor JSON can hold. Kept as text it is a character of a
plane for private use. A genuine one of these is kept byte by byte, so that no two become the same text.
"""

import re
import shlex
from collections.abc import Iterable

KEPT = 0x10FE00  # plus the byte
BYTES = re.compile(f"[{chr(KEPT + 0x80)}-{chr(KEPT + 0xFF)}]")
SURROGATES_AND_KEPT = re.compile(f"[\udc80-\udcff]|{BYTES.pattern}")


def as_text(argument: str) -> str:
    """An argument, as sys.argv has it, as text."""
    return SURROGATES_AND_KEPT.sub(_kept, argument)


def as_argument(text: str) -> str:
    """The argument that was kept as this text; with it, a process gets the same bytes."""
    return BYTES.sub(lambda found: chr(0xDC00 + (ord(found[0]) & 0xFF)), text)


def shell_line(text: Iterable[str]) -> str:
    r"""A command that was kept as text, for a shell: a byte that is no UTF-8 is spelled out, as in $'\xff'."""
    return " ".join(map(_quoted, text))


def _kept(found: re.Match[str]) -> str:
    return "".join(chr(KEPT + byte) for byte in found[0].encode("utf-8", "surrogateescape"))


def _quoted(argument: str) -> str:
    if not BYTES.search(argument):
        return shlex.quote(argument)
    escaped = argument.replace("\\", r"\\").replace("'", r"\'")
    spelled = BYTES.sub(lambda found: rf"\x{ord(found[0]) & 0xFF:02x}", escaped)
    return f"$'{spelled}'"
