"""Trainings of others under `ddptui watch --no-ui`, and what came of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.runner import ddptui

TRAININGS = Path(__file__).parent / "trainings"


def torchrun(python: str, ranks: int = 2) -> list[str]:
    return [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]


TORCHRUN = torchrun(sys.executable)


def script(name: str, *words: str) -> list[str]:
    return [str(TRAININGS / f"{name}.py"), *words]


def watched(runs: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return ddptui(runs, "watch", "--no-ui", *words, **variables)


def only_trial(runs: Path) -> dict[str, Any]:
    """Return the result of the only trial of the only run, which ended well."""
    [path] = runs.glob("*/results.json")
    [trial] = json.loads(path.read_text())["trials"]
    assert (trial["kind"], trial["status"]) == ("command", "ok"), trial["error"]
    return dict(trial)


def journal(runs: Path) -> list[dict[str, Any]]:
    """Return the messages of the only repeat of the only run."""
    [path] = runs.glob("*/trial-*/repeat-1/messages.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]
