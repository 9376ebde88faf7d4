"""What runs by itself runs what a person runs: pre-commit what `make lint` does, the workflow what .ci/run does."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

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


@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        ("entry: .venv/bin/mypy", "entry: .venv/bin/mypy --strict", [".venv/bin/mypy", ".venv/bin/mypy --strict"]),
        ("--check .", ".", [".venv/bin/ruff format --check .", ".venv/bin/ruff format ."]),
        ("        pass_filenames: false\n      - id: mypy", "      - id: mypy", ["ruff-format"]),
    ],
)
def test_a_disagreement_is_found(right: str, wrong: str, found: list[str]) -> None:
    config = PRE_COMMIT.read_text()
    assert right in config
    assert disagreements(MAKEFILE.read_text(), config.replace(right, wrong)) == sorted(found)


def test_the_workflow_runs_what_ci_runs() -> None:
    workflow = yaml.safe_load((REPO / ".github/workflows/ci.yml").read_text())
    [job] = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    assert (REPO / ".ci/run").exists()
