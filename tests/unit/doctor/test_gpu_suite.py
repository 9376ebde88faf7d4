"""`make test-gpu`: without a GPU it skips in a blink and says what is missing; with one it prints what was observed."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddptui.doctor.gpu_report.check import Check, Observed, result_of
from ddptui.host import gpus
from tests.gpu import conftest

REPO = Path(__file__).parents[3]


@pytest.mark.skipif(not gpus.surely_none(), reason="there may be a GPU here: all of them would run")
def test_without_a_gpu_all_are_skipped() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, summary = done.stdout.splitlines()
    assert "skipped in" in summary
    assert "passed" not in summary
    assert "needs an NVIDIA GPU, but this machine has none" in done.stdout


def test_the_makefile_runs_them_alone() -> None:
    makefile = (REPO / "Makefile").read_text()
    assert "\ntest-gpu: .venv/installed\nendif\n\t$(BIN)/python3 -m pytest tests/gpu\n" in makefile
    assert "\nQUIET := tests/quiet tests/gpu\n" in makefile


def make_test_gpu(carried: Path) -> subprocess.CompletedProcess[str]:
    """Run them by this Python, where no registry answers."""
    command = ["make", "test-gpu", f"BIN={Path(sys.executable).parent}", f"CARRIED={carried}"]
    own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}  # of make test
    unreachable = {**own, "PIP_NO_INDEX": "1", "PIP_INDEX_URL": "http://127.0.0.1:9"}
    return subprocess.run(command, cwd=REPO, env=unreachable, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(not gpus.surely_none(), reason="there may be a GPU here: all of them would run")
def test_a_python_that_is_there_runs_them_with_packages_carried_along(tmp_path: Path) -> None:
    (tmp_path / "carried.py").touch()
    facts = tmp_path / "carried-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Name: carried\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[pytest11]\ncarried = carried\n")  # a plugin of pytest
    done = make_test_gpu(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    command, *lines = done.stdout.splitlines()
    assert command == f"{Path(sys.executable).parent}/python3 -m pytest tests/gpu"  # nothing was installed before
    assert any(line.startswith("plugins: ") and "carried-1.0" in line for line in lines)
    assert "skipped in" in lines[-1]


def test_without_the_packages_one_line_says_how_to_get_them(tmp_path: Path) -> None:
    done = make_test_gpu(tmp_path / "none")
    version = ".".join(map(str, sys.version_info[:2]))
    assert (done.returncode, done.stdout) == (2, "")
    line, _ = done.stderr.splitlines()  # the other is make's own
    remedy = (
        f"run 'make carried FOR={version}' in a checkout that reaches a registry, and copy the folder into this one"
    )
    assert line == f"test-gpu: no {tmp_path / 'none'} here: {remedy}"


class Terminal:
    """What pytest prints at its end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(title)

    def write_line(self, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize("performed", [True, False])
def test_what_was_observed_is_printed_at_the_end(performed: bool) -> None:
    check = Check(name="clock", question="q", expected="noon", run=lambda bench, within_s: Observed(True, ""))
    result = result_of(check, "NOT AS EXPECTED", "midnight", 2.0, ["the log's end"])
    config: Any = SimpleNamespace(stash=pytest.Stash())
    if performed:
        config.stash[conftest.PERFORMED] = [(check, result)]
    terminal: Any = Terminal()
    conftest.pytest_terminal_summary(terminal, config)
    printed = "\n".join(terminal.lines)
    lines = [
        "[1/1] clock: q",
        "  expected  noon",
        "  observed  midnight",
        "  ✗ NOT AS EXPECTED, 2.00 s",
        "the log's end",
    ]
    assert ("\n".join(lines) in printed) == performed
    assert ("1 check, 2.00 s: 0 as expected, 1 not, 0 not run" in printed) == performed
    assert bool(printed) == performed
