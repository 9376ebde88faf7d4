"""The net below changes of the structure: mutants.toml stays true of what is here. `make mutants` runs it."""

import ast
from collections import Counter

import pytest

from tests.mutants.mutant import ROOT, Mutant, read_mutants

FEWEST = 60
MUTANTS = read_mutants()


def problems(mutant: Mutant) -> list[str]:
    """Why a mutant is of no use."""
    path = ROOT / mutant.file
    found = path.read_text(encoding="utf-8").count(mutant.old) if path.is_file() else 0
    wrong = [] if found == 1 else [f"{mutant.file}: the old text stands there {found} times"]
    wrong += ["new is old"] if mutant.new == mutant.old else []
    wrong += [] if mutant.killed_by else ["no test"]
    return wrong + [f"{test}: no such test" for test in mutant.killed_by if not is_a_test(test)]


def is_a_test(test: str) -> bool:
    """Whether the file of a test's id has a function of its name."""
    file, _, function = test.partition("[")[0].partition("::")
    path = ROOT / file
    nodes = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function for node in nodes)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_what_is_here(mutant: Mutant) -> None:
    assert problems(mutant) == []


def test_there_are_enough_and_each_is_told_apart() -> None:
    assert len(MUTANTS) >= FEWEST
    assert [name for name, times in Counter(mutant.name for mutant in MUTANTS).items() if times > 1] == []
