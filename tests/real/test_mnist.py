"""The real MNIST, where its files are (.ci/run brings them)."""

import os
from pathlib import Path

import pytest

from ddptui.engines.checks import FILES
from tests.support.runner import results_of, write_preset

DATA = Path(os.environ.get("DDPTUI_DATA", "nowhere"))
PRESET = """
[[trial]]
name = "mnist"
launch = "single"
dataset = "mnist"
steps = 250
threads = 1
lr = 0.05
momentum = 0.9
"""


@pytest.mark.skipif(
    not all((DATA / name).is_file() for name in FILES["mnist"]),
    reason="the four idx files of MNIST are not in DDPTUI_DATA/MNIST/raw",
)
def test_net_learns_mnist(tmp_path: Path) -> None:
    results = results_of(tmp_path / "runs", write_preset(tmp_path, PRESET))
    [repeat] = results["trials"][0]["repeats"]
    assert repeat["accuracy"] > 0.9
    assert repeat["loss"]["last"] < repeat["loss"]["first"]
