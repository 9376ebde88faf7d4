"""Reads variables of an environment, and says in one line what is wrong with one and who sets it."""

from collections.abc import Mapping

from ddptui.place.place import PlaceError

Environ = Mapping[str, str]

MOST = 2**20  # ranks, or nodes: far more than there are
LARGEST_ID = 2**32  # of a job
LAST_PORT = 65535
LONGEST_QUOTE = 60


def text(environ: Environ, name: str, setter: str) -> str:
    """An empty variable counts as none: so do the platforms, which leave what they do not know empty."""
    value = environ.get(name, "").strip()
    if not value:
        raise PlaceError(f"{name} is not set: {setter}")
    return value


def number(environ: Environ, name: str, setter: str, low: int = 0, high: int = MOST) -> int:
    """A whole number from low to high, both included."""
    value = text(environ, name, setter)
    if not (value.isascii() and value.removeprefix("-").isdecimal() and len(value) < 20):
        raise PlaceError(f"{name}={quoted(value)} is no whole number: {setter}")
    if not low <= int(value) <= high:
        raise PlaceError(f"{name}={value} is out of range ({low} to {high}): {setter}")
    return int(value)


def port(environ: Environ, name: str, setter: str) -> int:
    return number(environ, name, setter, 1, LAST_PORT)


def first_set(environ: Environ, *names: str) -> str:
    """The first of these variables that is set; where none is, the last, to be missed under that name."""
    return next((name for name in names if environ.get(name, "").strip()), names[-1])


def said(environ: Environ, meanings: Mapping[str, str]) -> tuple[str, ...]:
    """Each variable that is set, and what it was read as."""
    return tuple(f"{name}={quoted(environ[name])}: {means}" for name, means in meanings.items() if environ.get(name))


def quoted(value: str) -> str:
    return printable(value)[:LONGEST_QUOTE]


def printable(value: str) -> str:
    """Nothing of it moves the cursor."""
    return value.encode("unicode_escape").decode()
