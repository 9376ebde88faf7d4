"""Reads an environment's variables. An error names the variable, what is wrong with it, and who sets it."""

from collections.abc import Mapping

from ddptui.host.place.place import PlaceError, escaped

Environ = Mapping[str, str]
MOST = 2**20  # ranks or nodes: far more than any cluster has
LARGEST_ID = 2**32  # of a job
LAST_PORT = 65535
LONGEST_QUOTE = 60


def text(environ: Environ, name: str, setter: str) -> str:
    """The value of a variable. Raises PlaceError if it is unset, or empty: platforms leave unknown values empty."""
    value = environ.get(name, "").strip()
    if not value:
        raise PlaceError(f"{name} is not set: {setter}")
    return value


def number(environ: Environ, name: str, setter: str, low: int = 0, high: int = MOST) -> int:
    """A whole number from low to high, both included. Raises PlaceError."""
    value = text(environ, name, setter)
    if not (value.isascii() and value.removeprefix("-").isdecimal() and len(value) < 20):
        raise PlaceError(f"{name}={quoted(value)} is no whole number: {setter}")
    if not low <= int(value) <= high:
        raise PlaceError(f"{name}={value} is out of range ({low} to {high}): {setter}")
    return int(value)


def port(environ: Environ, name: str, setter: str) -> int:
    """A port's number. Raises PlaceError."""
    return number(environ, name, setter, 1, LAST_PORT)


def first_set(environ: Environ, *names: str) -> str:
    """The name of the first of these variables that is set; the last name if none is, for the error to name."""
    return next((name for name in names if environ.get(name, "").strip()), names[-1])


def meanings_of(environ: Environ, meanings: Mapping[str, str]) -> tuple[str, ...]:
    """A line for each of these variables that is set: its value and its meaning."""
    return tuple(f"{name}={quoted(environ[name])}: {means}" for name, means in meanings.items() if environ.get(name))


def quoted(value: str) -> str:
    """The beginning of a value, in printable ASCII."""
    return escaped(value)[:LONGEST_QUOTE]
