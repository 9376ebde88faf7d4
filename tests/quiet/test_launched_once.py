"""A user's own command beside a program that keeps all cores busy: whatever watches it, it is started once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ddptui.engines.local.warm import WarmParent
from ddptui.store.runs import Run, all_runs
from ddptui.wire.records import Launched
from tests.support.builders import replayed
from tests.support.here import run_here
from tests.support.load import busy_processes
from tests.support.runner import arguments, ddptui, environment, write_preset
from tests.support.waiting import until
from tests.support.watched import Watched, watched

TRAINING = """
import os, sys, time, torch
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
weight = torch.ones(64, 64, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(int(sys.argv[2])):
    weight.square().sum().backward()
    optimizer.step()
    time.sleep(0.01)
"""
RARE = pytest.mark.rare
SHORT, LONG = "80", "1000000"  # steps


@pytest.fixture(autouse=True)
def neighbor() -> Iterator[None]:
    with busy_processes(os.cpu_count() or 1):
        yield


@pytest.fixture
def command(tmp_path: Path) -> Callable[[str], list[str]]:
    """The words of a training of so many steps."""
    (tmp_path / "train.py").write_text(TRAINING)
    return lambda steps: [sys.executable, str(tmp_path / "train.py"), str(tmp_path / "started"), steps]


def started(tmp_path: Path) -> list[int]:
    """The processes of all trainings that were started."""
    path = tmp_path / "started"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def launches(run: Run) -> list[Launched]:
    """The launches in the record, those that were set aside included."""
    return [message for message in replayed(run, run.preset()) if isinstance(message, Launched)]


def last_run_is_over(runs: Path, number: int) -> bool:
    """Whether so many runs were begun, the last one has results, and no console holds it."""
    known = all_runs(runs)
    return len(known) == number and (known[0].folder / "results.json").exists() and not known[0].is_held()


def is_disturbed(run: Run) -> bool:
    results = json.loads((run.folder / "results.json").read_text())
    return "other_load" in results["trials"][0]["repeats"][0]["warnings"]


def follow_to_the_end(console: Watched, runs: Path, number: int = 1) -> None:
    """Wait for the run's end in a console on a terminal, and quit."""
    assert console.until(rb"\x1b\[\?1049h")
    read_until(console, lambda: last_run_is_over(runs, number))
    console.press(b"q")
    console.over()


def read_until(console: Watched, happened: Callable[[], bool]) -> None:
    """Read what the console paints, which would block it else."""
    while not happened():
        assert console._read_some()


@pytest.mark.parametrize("steps", [(), pytest.param(("--steps", "40"), marks=RARE)])
def test_watched_in_the_console(tmp_path: Path, command: Callable[[str], list[str]], steps: tuple[str, ...]) -> None:
    runs = tmp_path / "runs"
    words = ("watch", *steps, "--", *command(LONG if steps else SHORT))
    with watched(words, tmp_path, environment(runs), on_a_terminal=True) as console:
        follow_to_the_end(console, runs)
    try:
        [run] = all_runs(runs)
        assert is_disturbed(run)
        assert len(launches(run)) == len(started(tmp_path)) == 1
    finally:
        end(started(tmp_path))


@RARE
def test_watched_in_a_terminal(tmp_path: Path, command: Callable[[str], list[str]]) -> None:
    done = ddptui(tmp_path / "runs", "watch", "--no-ui", "--", *command(SHORT))
    assert done.returncode == 0, done.stderr
    [run] = all_runs(tmp_path / "runs")
    assert is_disturbed(run)
    assert len(launches(run)) == len(started(tmp_path)) == 1


@RARE
def test_watched_again(tmp_path: Path, command: Callable[[str], list[str]]) -> None:
    runs = tmp_path / "runs"
    words = arguments("watch", "--no-ui", "--", *command(LONG))
    with subprocess.Popen(words, env=environment(runs), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        until(lambda: len(started(tmp_path)) == 1)
        first.kill()
    try:
        words = ("attach", "--steps", "40", "last")
        with watched(words, tmp_path, environment(runs), on_a_terminal=True) as console:
            follow_to_the_end(console, runs, 2)
        assert is_disturbed(all_runs(runs)[0])
        assert len(launches(all_runs(runs)[0])) == len(started(tmp_path)) == 1
    finally:
        end(started(tmp_path))


@RARE
def test_watched_from_elsewhere(tmp_path: Path, command: Callable[[str], list[str]]) -> None:
    runs = tmp_path / "runs"
    with watched(("watch", "--listen"), tmp_path, environment(runs), on_a_terminal=True) as console:
        read_until(console, lambda: bool(list(runs.glob("*/ticket"))))
        [ticket] = runs.glob("*/ticket")
        joined = ddptui(runs, "watch", "--join", str(ticket), "--", *command(SHORT))
        assert joined.returncode == 0, joined.stderr
        follow_to_the_end(console, runs)
    [run] = all_runs(runs)
    assert len(launches(run)) == len(started(tmp_path)) == 1


@RARE
def test_a_preset_repeats_it_as_often_as_it_says(tmp_path: Path, command: Callable[[str], list[str]]) -> None:
    preset = f'kind = "command"\nrepeats = 2\n[[trial]]\nname = "own"\ncommand = {json.dumps(command(SHORT))}\n'
    results = run_here(WarmParent(), tmp_path / "runs", write_preset(tmp_path, preset))
    assert "other_load" in results["trials"][0]["repeats"][0]["warnings"]
    assert len(started(tmp_path)) == 2


def end(processes: list[int]) -> None:
    for pid in processes:
        if psutil.pid_exists(pid):
            process = psutil.Process(pid)
            process.kill()
            process.wait()
