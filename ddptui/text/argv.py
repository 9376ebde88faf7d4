"""A command's arguments as text that every file can hold. An argument is bytes, which need not be UTF-8.

Python reads such a byte as a lone surrogate, which neither TOML nor JSON can hold. Kept as text it is a character of a
plane for private use. A genuine one of these is kept byte by byte, so that no two arguments become the same text.
"""

import re
import shlex
from collections.abc import Iterable

KEPT = 0x10FE00  # plus the byte
BYTES = re.compile(f"[{chr(KEPT + 0x80)}-{chr(KEPT + 0xFF)}]")
SURROGATES_AND_KEPT = re.compile(f"[\udc80-\udcff]|{BYTES.pattern}")


def as_text(arguments: Iterable[str]) -> tuple[str, ...]:
    """Arguments, as sys.argv has them, as text."""
    return tuple(SURROGATES_AND_KEPT.sub(_kept, argument) for argument in arguments)


def as_arguments(text: Iterable[str]) -> list[str]:
    """The arguments that were kept as this text; with them, a process gets the same bytes."""
    return [BYTES.sub(lambda found: chr(0xDC00 + (ord(found[0]) & 0xFF)), argument) for argument in text]


def shell_line(text: Iterable[str]) -> str:
    r"""The command that was kept as this text, for a shell: a byte that is no UTF-8 is spelled out, as in $'\xff'."""
    return " ".join(map(_quoted, text))


def _kept(found: re.Match[str]) -> str:
    return "".join(chr(KEPT + byte) for byte in found[0].encode("utf-8", "surrogateescape"))


def _quoted(argument: str) -> str:
    if not BYTES.search(argument):
        return shlex.quote(argument)
    escaped = argument.replace("\\", r"\\").replace("'", r"\'")
    spelled = BYTES.sub(lambda found: rf"\x{ord(found[0]) & 0xFF:02x}", escaped)
    return f"$'{spelled}'"
