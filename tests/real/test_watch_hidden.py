"""What keeps the instruments out of a training is named, while the training goes on as without `ddptui watch`."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.watching import watched

RARE = pytest.mark.rare
ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")),
    reason="another user, or a pid namespace, wants root and util-linux",
)
TRAINS = """if True:
    import sys, time, torch
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        weight.square().backward()
        optimizer.step()
        time.sleep(0.02)
    print("trained")
    sys.exit(3)
"""
FURTHER_IN = "put `ddptui watch --` directly before the command that starts the training"
SET_ANEW = "its PYTHONPATH was replaced, without ddptui's folder: use PYTHONPATH={here}/mine:$PYTHONPATH there"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param(
            "export PYTHONPATH=mine; {python} -c '{code}'", SET_ANEW.replace("{here}/", ""), id="relative", marks=RARE
        ),
        pytest.param("PYTHONPATH=$(pwd)/mine {python} {file}", SET_ANEW, id="absolute", marks=RARE),
        pytest.param(
            "{python} -uI {file}",
            "was started with python -I, which ignores PYTHONPATH, by which ddptui is loaded: leave it out",
            id="isolated",
        ),
        pytest.param(
            "{python} -W ignore -sE {file} -I",
            "was started with python -E, which ignores PYTHONPATH, by which ddptui is loaded: leave it out",
            id="no environment",
            marks=RARE,
        ),
        pytest.param(
            "env -i {python} {file}",
            f"its environment was cleared, DDPTUI_WATCHED with it: {FURTHER_IN}",
            id="cleared",
            marks=RARE,
        ),
        pytest.param(
            "unset PYTHONPATH; {python} {file}; exit $?",
            "its PYTHONPATH, which names the folder of ddptui's instruments, was unset: leave it set",
            id="unset",
            marks=RARE,
        ),
        pytest.param(
            "touch mine/sitecustomize.py; PYTHONPATH=mine:$PYTHONPATH exec {python} {file}",
            "{here}/mine/sitecustomize.py hides ddptui's own: put its folder after $PYTHONPATH, not before it",
            id="another sitecustomize",
            marks=RARE,
        ),
        pytest.param(
            # torch 2.11 asks for the user's name as it is imported
            "LOGNAME=another setpriv --reuid=54321 --clear-groups {python} -c '{code}'",
            f"runs as the user 54321, who may not read the run's folder: {FURTHER_IN}",
            id="another user",
            marks=[RARE, ROOT],
        ),
    ],
)
def test_what_hides_a_training_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "train.py").write_text(TRAINS)
    words = {"python": sys.executable, "file": "train.py", "code": TRAINS, "here": str(tmp_path)}
    script = script.format(**words)
    done = watched(tmp_path / "runs", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (3, "trained\n")
    [line] = [line for line in done.stderr.splitlines() if line.startswith("ddptui: not watched: process ")]
    assert line.endswith(f" uses torch, but {why.format(**words)}")
    assert "no rank was seen" not in done.stderr


@RARE
@ROOT
def test_a_training_in_a_pid_namespace_is_seen_or_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINS)
    command = ("unshare", "--pid", "--fork", sys.executable, str(tmp_path / "train.py"))
    done = watched(tmp_path / "runs", "--", *command)
    assert done.returncode == 3
    said = "runs in a pid namespace of its own, where it does not find the console"
    assert said in done.stderr or '"Step"' in "".join(path.read_text() for path in tmp_path.rglob("messages.jsonl"))


def test_of_a_command_that_uses_no_torch_nothing_is_claimed(tmp_path: Path) -> None:
    done = watched(tmp_path, "--", "sh", "-c", "exit 1")
    assert done.returncode == 1
    assert "torch" not in done.stderr
