"""Trainings of others under `ddptui watch --no-ui`, and what came of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from tests.support.runner import ddptui

TRAININGS = Path(__file__).parent / "trainings"


def torchrun(python: str, ranks: int = 2) -> list[str]:
    return [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]


TORCHRUN = torchrun(sys.executable)


def script(name: str, *words: str) -> list[str]:
    return [str(TRAININGS / f"{name}.py"), *words]


def environment_without_ddptui(folder: Path) -> Path:
    """Make a Python environment with the packages of this one, but for ddptui. Returns its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    [site_packages] = folder.glob("lib/python*/site-packages")
    # The packages beside ddptui: what a .pth there adds to the path, as an editable install does, is not looked for.
    (site_packages / "others.pth").write_text(str(Path(torch.__file__).parents[1]))
    done = subprocess.run([folder / "bin" / "python", "-c", "import ddptui.wire"], cwd=folder, capture_output=True)
    assert b"No module named 'ddptui" in done.stderr
    return site_packages


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
