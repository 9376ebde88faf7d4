"""A training that says itself what it does, by `from ddptui import phase, step`: wherever ddptui watches it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ddptui import __version__, phase, step
from ddptui.engines.local.hidden import injected_folder
from ddptui.wire.connection import HUB, WATCHED
from tests.support.shown import REPO
from tests.support.watching import environment_without_ddptui, only_trial, script, watched

ANOTHER = "__version__ = '0.0.1'\nphase = step = None\n"  # version of ddptui
# What the page leaves to its reader. torch is imported after ddptui.
AROUND = """
from types import SimpleNamespace

def batches():
    import torch
    for _ in range(9):
        yield [torch.ones(1)]

my_stream, model, my_backward = batches(), lambda batch: SimpleNamespace(loss=batch[0]), lambda outputs: None
update = lambda model, gradients: None
"""


def test_a_training_may_say_itself_what_it_does(tmp_path: Path) -> None:
    with phase("data"):  # without a console nothing comes of it
        step(loss=1.0, samples=1)
    assert watched(tmp_path, "--", sys.executable, *script("without_loader", "marks")).returncode == 0
    [repeat] = only_trial(tmp_path)["repeats"]
    assert repeat["steps"] == 17
    at_least = {"data": 5, "forward": 3, "backward": 2, "optimizer": 1}
    assert all(repeat["phases_ms"][phase] >= ms for phase, ms in at_least.items())
    assert repeat["samples_per_s"] > 0
    assert repeat["loss"]["first"] > repeat["loss"]["last"]


@pytest.mark.parametrize(
    "has_another",
    [pytest.param(False, id="no ddptui"), pytest.param(True, id="another version", marks=pytest.mark.rare)],
)
def test_what_the_page_shows_works_where_the_trainings_environment_lacks_this_ddptui(
    tmp_path: Path, has_another: bool
) -> None:
    site_packages = environment_without_ddptui(tmp_path / "venv")
    [shown] = re.findall(r"```python\n(try:.*?)```", (REPO / "docs/watch.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "train.py").write_text(AROUND + shown)
    command = [str(tmp_path / "venv" / "bin" / "python"), str(tmp_path / "train.py")]
    if has_another:
        (site_packages / "ddptui").mkdir()
        (site_packages / "ddptui" / "__init__.py").write_text(ANOTHER)
    done = watched(tmp_path / "runs", "--", *command)
    assert done.returncode == 0, done.stderr
    assert only_trial(tmp_path / "runs")["repeats"][0]["steps"] == 6


@pytest.mark.parametrize(
    ("words", "variables", "version"),
    [
        pytest.param(["train.py"], {}, __version__, id="a training"),
        pytest.param(["-c", "import ddptui; print(ddptui.__version__)", "ddptui"], {}, __version__, id="its code"),
        pytest.param(
            ["-S", "-c", "import sys; del sys.argv; import sitecustomize, train"], {}, __version__, id="embedded"
        ),
        pytest.param(["ddptui"], {}, "0.0.1", id="a console"),
        pytest.param(["-P", "-m", "ddptui", "--version"], {}, "0.0.1", id="a console, as a module"),
        pytest.param(["train.py"], {HUB: "ipc://hub"}, "0.0.1", id="a rank of a lab"),
        pytest.param(
            ["-S", "-c", "import sys; sys.version_info = (3, 9); import sitecustomize, train"],
            {},
            "0.0.1",
            id="an older Python",
        ),
    ],
)
def test_a_console_within_a_command_that_is_watched_has_its_own_package(
    tmp_path: Path, words: list[str], variables: dict[str, str], version: str
) -> None:
    package = tmp_path / "packages" / "ddptui"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(ANOTHER)
    for path in (package / "__main__.py", tmp_path / "train.py", tmp_path / "ddptui"):
        path.write_text("import ddptui\nprint(ddptui.__version__)\n")
    path = os.pathsep.join([injected_folder(), str(tmp_path), str(package.parent)])
    own = {**os.environ, "PYTHONPATH": path, WATCHED: str(tmp_path / "console"), **variables}
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=own, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{version}\n", "")
