"""kill -9 of a rank, of the launcher, of its keeper and of the console, and the other ways a console can end, in the
launch modes: who is named, and who or what is left."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.support.runner import family, survivors
from tests.support.running import MODES, WARM, Console, Running, UnderWay, listeners
from tests.support.waiting import until

NAMED_WITHIN_S = 3.0
GONE_WITHIN_S = 5.0
rare = pytest.mark.rare  # modes that are alike: all that are forked but two, and most that start cold, which takes long


def assert_nothing_is_left(console: Console) -> None:
    assert not survivors(console.family, GONE_WITHIN_S)
    assert not console.listeners & listeners()

    def left() -> list[str]:
        return console.before.left_by(console.process.pid, console.family)

    until(lambda: not left(), GONE_WITHIN_S, left)  # the keeper ends after the ranks, and takes their folder along


# One process of a launch is killed: the console says which one, and goes on with the next trial.

KILLED_IN = {
    "rank": ("warm-process", "warm-launch", "warm-spawn", "launch", "process-forkserver", "spawn-fork"),
    "launcher": (*WARM, "launch", "dp", "process-forkserver"),
    "keeper": ("launch", "process-forkserver"),
}


class Death(NamedTuple):
    """A launch of which one process was killed, and what came of it. Times are in seconds."""

    launch: UnderWay
    killed_at: float
    ended_at: float  # for the console
    noticed_at: float  # in its journal, by this test
    survivors: list[psutil.Process]
    error: str


def cases_of(victim: str) -> list[object]:
    often = ("launch",) if victim == "keeper" else WARM
    return [pytest.param(victim, mode, marks=[] if mode in often else rare) for mode in KILLED_IN[victim]]


@pytest.fixture(scope="module")
def death(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Death]:
    """The death of a victim in a mode. One console sees all those in modes that are forked from its warm parent, one
    after another."""

    @cache
    def deaths(*cases: tuple[str, str]) -> dict[tuple[str, str], Death]:
        console = Console(tmp_path_factory.mktemp("deaths"), {f"{victim}-{mode}": mode for victim, mode in cases})
        try:
            found = {(victim, mode): kill(console, f"{victim}-{mode}", victim) for victim, mode in cases}
            trials, code = console.trials()
        finally:
            console.end()
        assert code == 1
        assert [trial["status"] for trial in trials] == ["failed"] * len(cases)
        assert_nothing_is_left(console)
        return {case: found[case]._replace(error=trial["error"]) for case, trial in zip(cases, trials, strict=True)}

    forked = [(victim, mode) for victim in KILLED_IN for mode in KILLED_IN[victim] if mode in WARM]
    return lambda victim, mode: deaths(*(forked if mode in WARM else [(victim, mode)]))[victim, mode]


def kill(console: Console, trial: str, victim: str) -> Death:
    launch = console.launch(trial)
    process = psutil.Process(launch.pids[1]) if victim == "rank" else getattr(launch, victim)
    process.kill()
    killed_at = time.monotonic()
    *_, ended = console.await_message(trial, has_come=lambda told: told[-1]["type"] == "Ended")
    noticed_at = time.monotonic()
    left = survivors(launch.processes, GONE_WITHIN_S)
    return Death(launch, killed_at, ended["at_ns"] / 1e9, noticed_at, left, ended["error"])


@pytest.mark.parametrize(("victim", "mode"), cases_of("rank"))
def test_a_killed_rank_is_named(death: Callable[[str, str], Death], victim: str, mode: str) -> None:
    seen = death(victim, mode)
    assert seen.noticed_at - seen.killed_at < NAMED_WITHIN_S + GONE_WITHIN_S
    assert seen.error.splitlines()[0] == "rank 1 was killed by SIGKILL"
    assert "step" in seen.error  # the end of its log
    assert seen.ended_at - seen.killed_at < NAMED_WITHIN_S
    assert not seen.survivors


@pytest.mark.parametrize(("victim", "mode"), [*cases_of("launcher"), *cases_of("keeper")])
def test_a_killed_launcher_or_keeper_takes_everybody_along(
    death: Callable[[str, str], Death], victim: str, mode: str
) -> None:
    seen = death(victim, mode)
    assert seen.error.splitlines()[0] == f"{who(seen.launch)} was killed by SIGKILL"
    assert not seen.survivors


def who(launch: UnderWay) -> str:
    """A launcher, in the console's words: it may be the only rank."""
    return "rank 0" if launch.launcher.pid in launch.pids.values() else "the launcher"


# The console ends, or what it forks from: the launch goes along. Each has a console of its own.


@pytest.fixture
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    running = Running(tmp_path, request.param)
    yield running
    running.end()


@pytest.mark.parametrize(
    ("running", "victim"),
    [
        ("warm-spawn", "warm_keeper"),
        pytest.param("warm-launch", "keeper", marks=rare),
        pytest.param("warm-single", "keeper", marks=rare),
    ],
    indirect=["running"],
)
def test_a_killed_warm_parent_takes_its_launch_along(running: Running, victim: str) -> None:
    getattr(running.under_way, victim).kill()  # the keeper of a warm launch is the warm parent
    error, code = running.error()
    assert error.splitlines()[0] == "the process that forks the ranks was killed by SIGKILL"
    assert code == 1
    assert_nothing_is_left(running)


# A console has no say in SIGKILL and SIGSEGV. At the others it ends the launch itself, always in the same way.
ENDS = [("launch", signal.SIGKILL), ("warm-spawn", signal.SIGINT)]
RARE_ENDS = [
    *((mode, number) for mode in MODES if mode != "spawn-fork" for number in (signal.SIGKILL, signal.SIGINT)),
    ("launch", signal.SIGSEGV),
    ("warm-process", signal.SIGTERM),
    ("warm-launch", signal.SIGHUP),
]


@pytest.mark.parametrize(
    ("running", "number"),
    [*ENDS, *(pytest.param(*end, marks=rare) for end in RARE_ENDS if end not in ENDS)],
    indirect=["running"],
)
def test_nothing_survives_the_console_however_it_ends(running: Running, number: signal.Signals) -> None:
    running.process.send_signal(number)
    output, _ = running.process.communicate(timeout=GONE_WITHIN_S)
    assert_nothing_is_left(running)
    if number in (signal.SIGKILL, signal.SIGSEGV):  # the console had no say in it
        assert running.process.returncode == -number
    else:
        assert running.process.returncode == 130
        assert json.loads(output)["status"] == "interrupted"


@pytest.mark.parametrize(
    "running",
    ["warm-launch", *(pytest.param(mode, marks=rare) for mode in ("warm-spawn", "launch", "process-forkserver"))],
    indirect=True,
)
def test_ranks_that_are_stopped_go_with_the_console_too(running: Running) -> None:
    for pid in running.under_way.pids.values():
        psutil.Process(pid).suspend()
    running.process.kill()
    running.process.communicate(timeout=GONE_WITHIN_S)
    assert_nothing_is_left(running)


@pytest.mark.parametrize("mode", ["launch", pytest.param("process-forkserver", marks=rare)])
def test_nobody_is_left_of_a_launch_that_had_hardly_begun(tmp_path: Path, mode: str) -> None:
    console = Console(tmp_path, {"long": mode}).process
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
