"""Makes text safe to write to a terminal or pipe, and bytes that are not UTF-8 writable as text.

Python decodes a byte that is not UTF-8 as a lone surrogate, which neither TOML nor JSON can hold. Here it becomes a
character from a private-use plane of Unicode. If an argument genuinely contains such a character, each of its bytes
is converted, so that two different arguments never become the same text.
"""

import json
import re
import shlex
from collections.abc import Iterable

# ddptui requests an escape sequence by a mark: a lone high surrogate. No file, file name or argument can hold one
# (UTF-8, TOML and JSON reject it, and Python decodes stray bytes as low surrogates), so text from outside cannot
# request a sequence.
CLEAR_LINE = "\ud800"  # moves to the first column and erases the line
FIRST_STYLE, LAST_STYLE = 0xD900, 0xD96B


def style(number: int) -> str:
    """The mark that requests an ANSI style: 1 is bold, 31 is red, 0 resets all."""
    return chr(FIRST_STYLE + number)


def at_the_door(text: str, *, is_terminal: bool) -> str:
    """The sanitized text: ddptui's own style marks become escape sequences of the terminal, and are removed where it is
    a pipe. All other unprintable characters except line feeds are escaped."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(_shown(char, is_terminal) for char in text)


def _shown(char: str, is_terminal: bool) -> str:
    if char == "\n" or char.isprintable():
        return char
    if char == CLEAR_LINE:
        return "\r\x1b[2K" if is_terminal else ""
    if FIRST_STYLE <= ord(char) <= LAST_STYLE:
        return f"\x1b[{ord(char) - FIRST_STYLE}m" if is_terminal else ""
    return spelled(char)


LONGEST_QUOTE = 200  # characters of a value in a message
LONGEST_MESSAGE = 2000
LONG = re.compile(
    rf"""'[^'\n]{{{LONGEST_QUOTE + 1},}}'|"[^"\n]{{{LONGEST_QUOTE + 1},}}"|(?<!\S)\S{{{LONGEST_QUOTE + 1},}}"""
)


def brief(message: str) -> str:
    """The message with long words and quoted values cut; if it is still too long, without its middle."""
    cut = LONG.sub(lambda found: _cut(found[0]), message)
    half = LONGEST_MESSAGE // 2
    return cut if len(cut) <= LONGEST_MESSAGE else f"{cut[:half]} … {cut[-half:]}"


def _cut(value: str) -> str:
    last = value[-1] if value[-1] in "'\":;" else ""
    return f"{value[:LONGEST_QUOTE]}…{last}"


def spelled(char: str) -> str:
    r"""The Python escape sequence of a character: \x1b, \u202e."""
    return char.encode("unicode_escape").decode()


def ascii_json(text: str) -> str:
    """The same JSON in printable ASCII, which neither `at_the_door` nor any encoding changes."""
    return re.sub(r"[^\n -~]+", lambda found: json.dumps(found[0])[1:-1], text)


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
