"""A repeat beside a program that keeps all cores busy: it is launched again, and both launches are kept."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddptui.analysis.cautions import MOST_OTHER_LOAD
from ddptui.engines.local.warm import WarmParent
from ddptui.store.outcomes import results_of
from ddptui.store.runs import Run, all_runs
from ddptui.wire.records import Ended, Launched, Message
from tests.support.here import run_here
from tests.support.load import busy_processes
from tests.support.runner import ddptui, write_preset

NAME = psutil.Process().name()
PRESET = """
title = "Beside another program"
repeats = 2
[defaults]
steps = 200
threads = 1
model = "mlp"
[[trial]]
name = "a"
"""


class Neighbor:
    """Keeps all cores busy until it is sent away."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.processes: list[psutil.Process] = self._stack.enter_context(busy_processes(os.cpu_count() or 1))
        self.launched: list[Launched] = []

    def leave(self) -> None:
        self._stack.close()

    def note(self, message: Message) -> None:
        if isinstance(message, Launched):
            self.launched.append(message)

    def leave_after_the_first(self, message: Message) -> None:
        self.note(message)
        if isinstance(message, Ended):
            self.leave()


@pytest.fixture
def neighbor() -> Iterator[Neighbor]:
    neighbor = Neighbor()
    yield neighbor
    neighbor.leave()


@pytest.fixture
def preset(tmp_path: Path) -> Path:
    return write_preset(tmp_path, PRESET)


def the_run(runs: Path) -> Run:
    [run] = all_runs(runs)
    return run


def test_a_disturbed_repeat_is_launched_again_and_kept(
    warm: WarmParent, neighbor: Neighbor, preset: Path, tmp_path: Path
) -> None:
    results = run_here(warm, tmp_path / "runs", preset, act=neighbor.leave_after_the_first, retries=2)
    [trial] = results["trials"]
    first = trial["disturbed"][0]
    assert first["other_load"]["cores"] > 0.5
    assert first["other_load"]["by"] in {f"{NAME} (process {process.pid})" for process in neighbor.processes}
    assert len(trial["repeats"]) == 2
    assert [launched.repeat for launched in neighbor.launched[:2]] == [1, 1]
    again = neighbor.launched[1].again
    assert again.startswith("other programs kept ")
    assert first["other_load"]["by"] in again
    run = the_run(tmp_path / "runs")
    folders = {path.name for path in (run.folder / "trial-a").iterdir()}
    assert {"repeat-1", "repeat-1.disturbed-1", "repeat-2"} <= folders
    replayed = [message.again for message in run.replay(run.preset()) if isinstance(message, Launched)]
    assert replayed == [launched.again for launched in neighbor.launched]
    read_again = results_of(run, run.preset()).trials[0]
    assert [repeat.train_time_s for repeat in read_again.disturbed] == [
        repeat["train_time_s"] for repeat in trial["disturbed"]
    ]


def test_beside_a_program_that_stays_the_run_does_not_take_thrice_the_time(
    warm: WarmParent, neighbor: Neighbor, preset: Path, tmp_path: Path
) -> None:
    results = run_here(warm, tmp_path / "runs", preset, act=neighbor.note, retries=2)
    [trial] = results["trials"]
    assert [launched.repeat for launched in neighbor.launched] == [1, 1, 1, 2]
    assert len(trial["disturbed"]) == 2
    assert "other_load" in trial["summary"]["warnings"]


def test_a_busy_machine_is_named_before_the_ranks_train(neighbor: Neighbor, preset: Path, tmp_path: Path) -> None:
    done = ddptui(tmp_path / "runs", "--preset", str(preset), "--no-ui", "--no-retry", "--repeats", "1")
    busy = next(at for at, line in enumerate(done.stderr.splitlines()) if line.startswith("this machine is busy: "))
    assert f"most of all {NAME} (process " in done.stderr.splitlines()[busy]
    assert busy < next(at for at, line in enumerate(done.stderr.splitlines()) if "200 steps" in line)
    assert "launched again" not in done.stderr
    assert " ⚠ " in done.stdout


def test_only_what_was_disturbed_is_launched_again(warm: WarmParent, preset: Path, tmp_path: Path) -> None:
    """Nothing disturbs it here, unless this machine has other guests."""
    results: dict[str, Any] = run_here(warm, tmp_path / "runs", preset, retries=2)
    [trial] = results["trials"]
    assert all(repeat["other_load"]["cores"] > MOST_OTHER_LOAD for repeat in trial["disturbed"])
    assert len(trial["repeats"]) == 2
