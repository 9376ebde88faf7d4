"""What runs by itself runs what a person runs; and mutants.toml stays true of what is here (`make mutants` runs it)."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.mutants.mutant import ROOT, Mutant, read_mutants

REPO = Path(__file__).parents[1]
MAKEFILE = REPO / "Makefile"
PRE_COMMIT = REPO / ".pre-commit-config.yaml"


def lint_of(makefile: str) -> list[str]:
    """The commands of `make lint`."""
    found = re.search(r"^lint:.*\n((?:\t.+\n)+)", makefile, re.MULTILINE)
    assert found
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in found[1].splitlines()]


def hooks_of(config: str) -> list[dict[str, Any]]:
    return [hook for repo in yaml.safe_load(config)["repos"] for hook in repo["hooks"]]


def disagreements(makefile: str, config: str) -> list[str]:
    """Commands that one has and the other lacks, and hooks that are handed single files in place of the checkout."""
    hooks = hooks_of(config)
    different = {*lint_of(makefile)} ^ {hook["entry"] for hook in hooks}
    return sorted(different) + [hook["id"] for hook in hooks if hook.get("pass_filenames", True)]


def test_pre_commit_does_what_make_lint_does() -> None:
    assert disagreements(MAKEFILE.read_text(), PRE_COMMIT.read_text()) == []


def test_the_workflow_runs_what_ci_runs() -> None:
    workflow = yaml.safe_load((REPO / ".github/workflows/ci.yml").read_text())
    [job] = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    assert (REPO / ".ci/run").exists()


# Mutants


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
