"""A training that runs is known by its process alone, whatever a file in the run's folder says."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from ddptui.config.command_presets import preset_of
from ddptui.engines.local.command import AttachedLaunch, WatchMode
from ddptui.engines.local.training import (
    MOST_BYTES,
    NotRunning,
    Relay,
    Tail,
    Training,
    hold,
    remember,
    training_at,
    training_of,
)
from ddptui.run.prepare import begin_resumption
from ddptui.store.runs import Run, RunError
from ddptui.wire.connection import WATCHED
from ddptui.wire.relay_file import Watching

PRESET = preset_of(("train.py",), name="train", skip=3, steps=None, overrides={})


@pytest.fixture
def console(tmp_path: Path) -> Path:
    return tmp_path / "console"


@pytest.fixture
def training(console: Path) -> Iterator[Training]:
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={WATCHED: str(console)}) as it:
        it.stdout.readline()  # the kernel shows a new program's environment only a moment after it has begun
        training = training_at(it.pid, console)
        yield training
        it.kill()


def run_with(training: Training, runs: Path) -> Run:
    run = Run.create(runs, PRESET, {})
    folder = run.repeat_folder("train", 1)
    folder.mkdir(parents=True)
    remember(training, folder)
    return run


def test_it_is_found_while_it_runs(training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_with(training, tmp_path / "runs")
    assert training_of(run) == training
    with run.held(), pytest.raises(NotRunning, match="another console has it open"):
        training_of(run)
    assert training.runs()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: 0.0)
    assert training.runs()  # known after the clock was set
    monkeypatch.undo()
    os.kill(training.pid, signal.SIGKILL)
    os.waitid(os.P_PID, training.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(NotRunning, match="has no training that runs on this host"):
        training_of(run)


@pytest.mark.parametrize(
    "lie", [{"console": "/etc/passwd"}, {"started": 1.0}, {"pid": os.getppid()}, {"pid": 2**22 + 1}]
)
def test_a_file_that_names_another_process_or_console_is_not_believed(
    training: Training, tmp_path: Path, lie: dict[str, object]
) -> None:
    with pytest.raises(NotRunning):
        training_of(run_with(msgspec.structs.replace(training, **lie), tmp_path / "runs"))
    run = run_with(training, tmp_path / "others")
    for text in ("", "{}", "[1]", "\x00"):
        (run.repeat_folder("train", 1) / "training").write_text(text)
        with pytest.raises(NotRunning):
            training_of(run)


def test_a_training_can_be_watched_again_as_soon_as_the_watching_has_ended(training: Training, tmp_path: Path) -> None:
    remember(training, tmp_path)
    held = hold(training)
    with pytest.raises(NotRunning, match="another console is attached to it"):
        hold(training)
    (tmp_path / "hub").mkdir()
    relay = Relay(Path(training.console), tmp_path / "hub", {}, Watching(), ends_training=False)
    AttachedLaunch(held, tmp_path, relay, WatchMode(outlives=True)).stop()
    hold(training).lock.close()


def test_a_run_whose_training_still_runs_is_not_resumed_beside_it(training: Training, tmp_path: Path) -> None:
    run = run_with(training, tmp_path / "runs")
    with pytest.raises(RunError, match=f"`ddptui attach {run.name}` watches it again"):
        begin_resumption(run)
    assert not run.is_held()


def test_each_line_of_a_growing_file_is_taken_once_and_whole(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "events")
    assert tail.take() == []  # no file yet
    with (tmp_path / "events").open("ab", buffering=0) as file:
        taken = [
            tail.take() for part in (b"one\ntw", b"o\n", b"", b"x" * MOST_BYTES, b"\nthree\n") if file.write(part) >= 0
        ]
    assert taken == [[b"one"], [b"two"], [], [], [b"", b"three"]]
