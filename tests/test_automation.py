"""What runs by itself runs what a person runs: pre-commit what `make lint` does, the workflow what .ci/run does."""

import re
from pathlib import Path
from typing import Any

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


def test_the_workflow_runs_what_ci_runs() -> None:
    workflow = yaml.safe_load((REPO / ".github/workflows/ci.yml").read_text())
    [job] = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    assert (REPO / ".ci/run").exists()
