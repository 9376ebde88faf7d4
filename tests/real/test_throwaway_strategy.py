"""A new strategy is one file and one entry: nothing else of ddptui knows a strategy by its name."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddptui.host.folders import lab_root
from tests.support.runner import ENOUGH_S, write_preset

TABLE = "STRATEGIES = {\n"
ENTRY = """    "halves": StrategyFacts(
        "an all_reduce of each half of a tensor",
        sends=Sends("each"),
        reduces=True,
    ),
"""
FILE = '''"""Halves: an all_reduce of each half of a tensor."""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class Halves(Strategy):
    """Averages each tensor in two parts."""

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            for half in tensor.view(-1).tensor_split(2):
                dist.all_reduce(half, op=self.op)
            self.divide(tensor)
'''
PRESET = """title = "?"
[defaults]
model = "mlp"
width = 16
depth = 1
steps = 30
warmup_steps = 5
threads = 1
strategy = "halves"
[[trial]]
name = "two"
"""


class Copy:
    """A copy of the lab with a strategy added, and its folder of runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        for part in ("ddptui", "workers", "presets"):
            shutil.copytree(lab_root() / part, folder / part)  # with its bytecode
        entries = folder / "ddptui" / "config" / "catalog.py"
        text = entries.read_text()
        assert text.count(TABLE) == 1
        entries.write_text(text.replace(TABLE, TABLE + ENTRY))
        (folder / "workers" / "aggregate" / "halves.py").write_text(FILE)
        self.preset = write_preset(folder, PRESET)

    def ddptui(self, *words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "DDPTUI_RUNS": str(self.runs)}
        command = [sys.executable, "-m", "ddptui", *words]
        done = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=ENOUGH_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("lab"))


def test_presets_name_a_new_strategy(lab: Copy) -> None:
    assert "strategy=halves" in lab.ddptui("presets", str(lab.preset))
    assert "(halves | none | all_reduce" in lab.ddptui("presets", "--fields")


def test_a_new_strategy_runs_and_is_shown_traced_and_projected(lab: Copy) -> None:
    results = json.loads(lab.ddptui("--preset", str(lab.preset), "--json"))
    assert results["status"] == "ok"
    [repeat] = results["trials"][0]["repeats"]
    assert repeat["in_sync"]["parameters"] is True
    assert repeat["averaging"]["right"] is True
    assert ",halves," in lab.ddptui("show", "last", "--format", "csv")
    trace = json.loads(lab.ddptui("show", "last", "--format", "trace"))
    calls = [event["name"] for event in trace["traceEvents"] if event["name"].startswith("all_reduce")]
    assert len(calls) >= 2 * 2 * 30  # each half of a tensor, on two ranks, in thirty steps
    projected = lab.ddptui("project", "last", "--ranks", "2,4", "--alpha", "50", "--gbps", "10")
    assert "halves" in projected
