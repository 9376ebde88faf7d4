"""A fault that tests must notice, and how it is put into a file."""

import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Mutant(NamedTuple):
    """A fault, and the tests of which one must fail where it is."""

    name: str  # says the fault
    file: str
    old: str  # stands once in the file
    new: str
    killed_by: list[str]  # ids of pytest

    def applied(self, text: str) -> str:
        """The text of the file with the fault. Raises ValueError if it does not have the old text exactly once."""
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: the old text stands in {self.file} {found} times, not once")
        return text.replace(self.old, self.new)


def read_mutants() -> list[Mutant]:
    """All mutants, in the order of the file."""
    text = Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8")
    return [Mutant(**fields) for fields in tomllib.loads(text)["mutant"]]
