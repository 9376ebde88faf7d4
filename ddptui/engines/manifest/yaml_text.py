"""Writes the subset of YAML that manifests need, quoted so that no reader takes a string for another type."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Value: TypeAlias = "str | int | bool | Sequence[Value] | Mapping[str, Value]"

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")  # no number or date begins with a letter
WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}  # in some YAML no strings


def yaml_text(value: Mapping[str, Value]) -> str:
    """One YAML document, without its `---`."""
    return "\n".join(_mapping(value)) + "\n"


def _mapping(value: Mapping[str, Value]) -> Iterator[str]:
    for key, inner in value.items():
        if isinstance(inner, str | int) or not inner:
            yield f"{_scalar(key)}: {_scalar(inner)}"
        else:
            yield f"{_scalar(key)}:"
            yield from (f"  {line}" for line in _block(inner))


def _sequence(value: Sequence[Value]) -> Iterator[str]:
    for inner in value:
        first, *rest = [_scalar(inner)] if isinstance(inner, str | int) or not inner else _block(inner)
        yield f"- {first}"
        yield from (f"  {line}" for line in rest)


def _block(value: Sequence[Value] | Mapping[str, Value]) -> Iterator[str]:
    return _mapping(value) if isinstance(value, Mapping) else _sequence(value)


def _scalar(value: Value) -> str:
    if isinstance(value, str):
        return value if PLAIN.fullmatch(value) and value.lower() not in WORDS else _quoted(value)
    if isinstance(value, int):
        return str(value).lower()
    return "{}" if isinstance(value, Mapping) else "[]"


def _quoted(value: str) -> str:
    return '"' + "".join(_escaped(letter) for letter in value) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if " " <= letter <= "~" else f"\\U{ord(letter):08x}"
