"""The user's own code that a trial names: `mine.py:average` in a file, or `module:name`. Nothing here reads or runs it:
only the ranks of a run load it (workers/own_code.py). Nothing else in a preset is code. Pure.
"""

from typing import NamedTuple

from ddptui.config.trial import Trial, TrialError

SUFFIX = ".py"
FIELDS = ("strategy", "model", "dataset")  # that may name it, like `at` of a bottleneck


class OwnCode(NamedTuple):
    """A name in the user's own code."""

    source: str  # a file that ends in .py, or a module
    name: str  # of a function or class in it

    @property
    def is_file(self) -> bool:
        """Whether the source is a file."""
        return self.source.endswith(SUFFIX)


def is_own(value: str | None) -> bool:
    """Whether the value of a field names the user's own code."""
    return ":" in (value or "")


def parsed(value: str) -> OwnCode:
    """The value of a field that names the user's own code, in its parts."""
    source, _, name = value.rpartition(":")
    return OwnCode(source, name)


def values_of(trial: Trial) -> dict[str, str | None]:
    """The values of the fields that may name the user's own code, by the paths of the fields."""
    values = {key: getattr(trial, key) for key in FIELDS}
    return values | {f"bottleneck[{index}].at": each.at for index, each in enumerate(trial.bottleneck)}


def own_codes(trial: Trial) -> dict[str, OwnCode]:
    """The user's own code that a trial names, by the paths of the fields."""
    return {path: parsed(value) for path, value in values_of(trial).items() if value and is_own(value)}


def in_short(value: str) -> str:
    """The value of a field for a table: a file without its folder."""
    return value.rpartition("/")[2] if is_own(value) else value


def check_spelling(key: str, value: str) -> None:
    """Check the value of a field that may name own code. Raises TrialError."""
    own = parsed(value)
    parts = [own.name] if own.is_file else [*own.source.split("."), own.name]
    if not all(map(str.isidentifier, parts)):
        raise TrialError(key, f"{value!r} does not name your code: write it as mine.py:average or module:name")
