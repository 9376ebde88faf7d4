"""kill -9 of a rank, of the launcher, of its keeper and of the console, and the other ways a console can end, in the
launch modes: who is named, and who or what is left."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.runner import family, survivors
from tests.support.running import MODES, WARM, Running, begin, can_be_bound

NOT_ALONE = ("warm-process", "warm-launch", "warm-spawn")  # a rank that is its own launcher is another matter
NAMED_WITHIN_S = 3.0
GONE_WITHIN_S = 5.0


@pytest.fixture
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    running = Running(tmp_path, request.param)
    yield running
    running.end()


def assert_nothing_is_left(running: Running) -> None:
    assert not survivors(running.family, GONE_WITHIN_S)
    assert all(can_be_bound(port) for port in running.ports)
    deadline = time.monotonic() + GONE_WITHIN_S  # the keeper ends after the ranks, and takes their folder along
    while left := running.before.left_by(running.console.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.parametrize(
    "running", ["process", "process-forkserver", "launch", "spawn-fork", *NOT_ALONE], indirect=True
)
def test_a_killed_rank_is_named(running: Running) -> None:
    psutil.Process(running.pids[1]).kill()
    killed = time.monotonic()
    error, code = running.error()
    assert time.monotonic() - killed < NAMED_WITHIN_S + GONE_WITHIN_S
    assert error.splitlines()[0] == "rank 1 killed by SIGKILL"
    assert "step" in error  # the end of its log
    assert code == 1
    [ended] = [message for message in running.journal() if message["type"] == "Ended"]
    assert ended["at_ns"] / 1e9 - killed < NAMED_WITHIN_S
    assert_nothing_is_left(running)


@pytest.mark.parametrize("running", ["dp", "process-forkserver", "launch", "spawn-fork", *WARM], indirect=True)
def test_a_killed_launcher_takes_its_ranks_along(running: Running) -> None:
    running.launcher.kill()
    error, code = running.error()
    who = "rank 0" if running.launcher.pid in running.pids.values() else "the launcher was"
    assert error.splitlines()[0] == f"{who} killed by SIGKILL"
    assert code == 1
    assert_nothing_is_left(running)


@pytest.mark.parametrize("running", ["process-forkserver", "launch", *WARM], indirect=True)
def test_a_killed_keeper_takes_everybody_along(running: Running) -> None:
    who = "rank 0" if running.launcher.pid in running.pids.values() else "the launcher was"
    running.keeper.kill()
    error, code = running.error()
    assert error.splitlines()[0] == f"{who} killed by SIGKILL"
    assert code == 1
    assert_nothing_is_left(running)


@pytest.mark.parametrize("running", WARM, indirect=True)
@pytest.mark.parametrize("victim", ["warm_parent", "warm_keeper"])
def test_a_killed_warm_parent_takes_its_launch_along_and_the_next_starts_cold(running: Running, victim: str) -> None:
    getattr(running, victim).kill()
    error, code = running.error()
    assert error.splitlines()[0] == "the process that forks the ranks was killed by SIGKILL"
    assert code == 1
    assert_nothing_is_left(running)


EVERYWHERE = [signal.SIGKILL, signal.SIGINT]  # the console has no say in it; it ends the launch itself
ALIKE = [signal.SIGSEGV, signal.SIGTERM, signal.SIGHUP]  # a launch sees no difference: one mode is enough


@pytest.mark.parametrize(
    ("running", "number"),
    [
        *((mode, number) for mode in MODES if mode != "spawn-fork" for number in EVERYWHERE),
        *(("launch", number) for number in ALIKE),
    ],
    indirect=["running"],
)
def test_nothing_survives_the_console_however_it_ends(running: Running, number: signal.Signals) -> None:
    running.send(number)
    output, _ = running.console.communicate(timeout=GONE_WITHIN_S)
    assert_nothing_is_left(running)
    if number in (signal.SIGKILL, signal.SIGSEGV):  # the console had no say in it
        assert running.console.returncode == -number
    else:
        assert running.console.returncode == 130
        assert json.loads(output)["status"] == "interrupted"


@pytest.mark.parametrize("running", ["process-forkserver", "launch", "warm-launch", "warm-spawn"], indirect=True)
def test_ranks_that_are_stopped_go_with_the_console_too(running: Running) -> None:
    for pid in running.pids.values():
        psutil.Process(pid).suspend()
    running.send(signal.SIGKILL)
    running.console.communicate(timeout=GONE_WITHIN_S)
    assert_nothing_is_left(running)


@pytest.mark.parametrize("mode", ["launch", "process-forkserver", "spawn"])
def test_nobody_is_left_of_a_launch_that_had_hardly_begun(tmp_path: Path, mode: str) -> None:
    console = begin(tmp_path, mode)
    try:
        [keeper] = wait_for_children(psutil.Process(console.pid))
        wait_for_children(keeper)
        started = family(console.pid)
    finally:
        console.kill()
        console.communicate()
    assert not survivors(started, GONE_WITHIN_S)
    commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if str(tmp_path) in command]


def wait_for_children(process: psutil.Process) -> list[psutil.Process]:
    deadline = time.monotonic() + GONE_WITHIN_S
    while not (children := process.children()):
        assert time.monotonic() < deadline, "it starts nobody"
        time.sleep(0.001)
    return children
