"""The net below changes of the structure: mutants.toml stays true of what is here. `make mutants` runs it."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.__main__ import is_killed
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


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"old": "no such line"}, "the old text stands there 0 times"),
        ({"old": "\n"}, r"the old text stands there \d\d+ times"),
        ({"file": "ddptui/no_such_file.py"}, "the old text stands there 0 times"),
        ({"new": MUTANTS[0].old}, "new is old"),
        ({"killed_by": []}, "no test"),
        ({"killed_by": ["tests/test_mutants.py::test_nothing"]}, "no such test"),
        ({"killed_by": ["tests/no_such_file.py::test_nothing[a]"]}, "no such test"),
        ({"killed_by": ["tests/test_mutants.py::problems", "tests/test_mutants.py"]}, "tests/test_mutants.py: no such"),
    ],
)
def test_a_mutant_that_fits_no_more_is_told(change: dict[str, object], problem: str) -> None:
    assert re.search(problem, "; ".join(problems(MUTANTS[0]._replace(**change))))


@pytest.mark.parametrize(
    ("new", "says"),
    [
        ("a - b", "killed"),
        ("b + a", "SURVIVED ("),
        ("a +", "SURVIVED, pytest ended with "),  # a test that cannot run notices nothing
    ],
)
def test_a_mutant_is_killed_only_if_a_test_fails(
    new: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = "def add(a, b):\n    return a + b\n"
    (tmp_path / "sums.py").write_text(whole)
    (tmp_path / "test_sums.py").write_text("from sums import add\n\ndef test_add():\n    assert add(3, 2) == 5\n")
    mutant = Mutant("a sum", "sums.py", "a + b", new, ["test_sums.py::test_add"])
    assert is_killed(tmp_path, mutant) == (says == "killed")
    assert capsys.readouterr().out.startswith(says)
    assert (tmp_path / "sums.py").read_text() == whole
