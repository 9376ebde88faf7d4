"""kill -9 of a rank, of the launcher and of the console, in every launch mode: who is named, and who is left."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.runner import QUICK, family, start, survivors, write_preset

NAMED_WITHIN_S = 3.0
GONE_WITHIN_S = 5.0
RUNNING_WITHIN_S = 120

# Each trial trains far longer than any test takes.
MODES = {
    "single": 'launch = "single"',
    "dp": 'launch = "dp"',
    "process": 'launch = "process"\nstrategy = "all_reduce"',
    "process-forkserver": 'launch = "process"\nstart_method = "forkserver"\nstrategy = "all_reduce"',
    "launch": 'launch = "launch"\nstrategy = "all_reduce"',
    "spawn": 'launch = "spawn"\nstrategy = "all_reduce"',
    "spawn-fork": 'launch = "spawn"\nstart_method = "fork"\nstrategy = "all_reduce"',
}
ONE_PROCESS = ("single", "dp")


class Running:
    """A console with a trial under way, and what it has heard from the ranks."""

    def __init__(self, folder: Path, mode: str) -> None:
        quick = QUICK.replace("steps = 8", "steps = 1000000")
        preset = write_preset(folder, f'[[trial]]\nname = "long"\n{MODES[mode]}\n{quick}')
        self.runs = folder / "runs"
        self.console = start(self.runs, "--preset", str(preset), "--json")
        self._wait_until_it_runs()
        self.pids = {message["rank"]: message["pid"] for message in self.journal() if message["type"] == "Hello"}
        self.family = family(self.console.pid)
        self.launcher = psutil.Process(self.console.pid).children()[0]

    def journal(self) -> list[dict[str, Any]]:
        paths = list(self.runs.glob("*/trial-long/repeat-1/messages.jsonl"))
        lines = paths[0].read_text().splitlines(keepends=True) if paths else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _wait_until_it_runs(self) -> None:
        deadline = time.monotonic() + RUNNING_WITHIN_S
        while not any(message["type"] == "Heartbeat" for message in self.journal()):
            assert self.console.poll() is None, self.console.communicate()
            assert time.monotonic() < deadline, "the trial never ran"
            time.sleep(0.1)  # the journal is a file: there is nothing to wait on

    def end(self) -> None:
        if self.console.poll() is None:
            self.console.kill()
        self.console.communicate()
        for process in survivors(self.family, 0):
            process.kill()


@pytest.fixture
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    running = Running(tmp_path, request.param)
    yield running
    running.end()


def error_of(console: "subprocess.Popen[str]") -> tuple[str, int]:
    output, _ = console.communicate(timeout=30)
    [trial] = json.loads(output)["trials"]
    assert trial["status"] == "failed"
    return trial["error"], console.returncode


@pytest.mark.parametrize("running", [mode for mode in MODES if mode not in ONE_PROCESS], indirect=True)
def test_a_killed_rank_is_named(running: Running) -> None:
    psutil.Process(running.pids[1]).kill()
    killed = time.monotonic()
    error, code = error_of(running.console)
    assert time.monotonic() - killed < NAMED_WITHIN_S + GONE_WITHIN_S
    assert error.splitlines()[0] == "rank 1 killed by SIGKILL"
    assert "step" in error  # the end of its log
    assert code == 1
    [ended] = [message for message in running.journal() if message["type"] == "Ended"]
    assert ended["at_ns"] / 1e9 - killed < NAMED_WITHIN_S
    assert not survivors(running.family, 0)


@pytest.mark.parametrize("running", MODES, indirect=True)
def test_a_killed_launcher_takes_its_ranks_along(running: Running) -> None:
    running.launcher.kill()
    error, code = error_of(running.console)
    assert error.splitlines()[0] == "the launcher was killed by SIGKILL"
    assert code == 1
    assert not survivors(running.family, GONE_WITHIN_S)


@pytest.mark.parametrize("running", MODES, indirect=True)
def test_nothing_survives_a_killed_console(running: Running) -> None:
    running.console.send_signal(signal.SIGKILL)
    assert not survivors(running.family, GONE_WITHIN_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("running", ["spawn"], indirect=True)
def test_an_interrupt_stops_the_ranks_and_exits_with_130(running: Running, number: signal.Signals) -> None:
    running.console.send_signal(number)
    output, _ = running.console.communicate(timeout=GONE_WITHIN_S)
    assert running.console.returncode == 130
    assert json.loads(output)["status"] == "interrupted"
    assert not survivors(running.family, 0)
