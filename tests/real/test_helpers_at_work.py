"""A rank that waits for a process of its own: while that works, as a compiler does, the launch has not stalled."""

from typing import Any

import pytest

from tests.support.runner import QUICK, run_json, write_preset

pytestmark = pytest.mark.rare  # test_stall.py shows what is judged by
STALL_S = 4
STEP = 4
WORKS_S = STALL_S + 2  # on the clock: it needs no core of its own to be seen
MODEL = f"""
import subprocess, sys
from torch import nn

WORKS = "import time; end = time.monotonic() + {WORKS_S}\\nwhile time.monotonic() < end: pass"
IDLES = "import time; time.sleep(1000)"


class Net(nn.Module):
    helper = WORKS

    def __init__(self, num_classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
        self.steps = 0

    def forward(self, images):
        self.steps += self.training
        if self.steps == {STEP}:
            subprocess.run(["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", self.helper])
            self.steps += 1
        return self.layers(images)


class Hanging(Net):
    helper = IDLES
"""


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("helpers")
    (folder / "waiting.py").write_text(MODEL)
    quick = QUICK.replace('"mlp"', '"waiting:Net"').replace("width = 16\n", "").replace("depth = 1\n", "")
    text = f'[defaults]\nlaunch = "single"\nstall_s = {STALL_S}\n{quick}[[trial]]\nname = "works"\n'
    text += '[[trial]]\nname = "idles"\nmodel = "waiting:Hanging"\n'
    results, _ = run_json(folder / "runs", write_preset(folder, text), PYTHONPATH=str(folder))
    return {trial["name"]: trial for trial in results["trials"]}


def test_a_rank_that_waits_for_a_helper_that_works_is_not_stopped(trials: dict[str, dict[str, Any]]) -> None:
    assert (trials["works"]["status"], trials["works"]["error"]) == ("ok", None)


def test_one_whose_helpers_sleep_has_stalled(trials: dict[str, dict[str, Any]]) -> None:
    error = trials["idles"]["error"].splitlines()[0]
    assert error.startswith("rank 0 is in step ")
    assert error.endswith(f"in forward; no progress for {STALL_S} s")
