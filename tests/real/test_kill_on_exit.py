"""A watched training that is to end with the console: none of its processes is left, however the console ends. Without
that option all of them go on."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.support.runner import ENOUGH_S, arguments, environment, survivors, write_preset
from tests.support.waiting import until

RANK = """
import os, signal, sys, time
if "alone" in sys.argv:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"{sys.argv[1]}/rank-{os.getpid()}", "w").close()
time.sleep(3600)
"""
FAMILIES = {  # {rank} starts a rank
    "a command": "exec {rank}",
    "a shell around it": "{rank}; true",
    "ranks in sessions of their own": "{rank} alone & {rank}; true",
    "a cleared environment": "env -i {rank}; true",
    "ranks whose parent has ended": "({rank} & {rank} &); sleep 3600",
}
GONE_WITHIN_S = 60.0
OFTEN = "a shell around it"
CASES = [
    pytest.param(shell, id=name, marks=[] if name == OFTEN else pytest.mark.rare) for name, shell in FAMILIES.items()
]


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[str]:
    """The words that start a rank. None is left after the test."""
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "ranks").mkdir()
    yield f"{sys.executable} {tmp_path / 'rank.py'} {tmp_path / 'ranks'}"
    for process in ranks(tmp_path):
        process.kill()


def ranks(folder: Path) -> list[psutil.Process]:
    found = []
    for path in (folder / "ranks").iterdir():
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(int(path.name.removeprefix("rank-"))))
    return found


def await_ranks(folder: Path, count: int) -> list[psutil.Process]:
    until(lambda: len(ranks(folder)) >= count)
    return ranks(folder)


@contextmanager
def watch(folder: Path, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        arguments(*words), env=environment(folder / "runs"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as console:
        try:
            yield console
        finally:
            console.kill()


@pytest.mark.parametrize("shell", CASES)
def test_none_is_left_when_the_console_is_killed(tmp_path: Path, rank: str, shell: str) -> None:
    command = ["sh", "-c", shell.format(rank=rank)]
    with watch(tmp_path, "watch", "--no-ui", "--kill-on-exit", "--", *command) as console:
        started = await_ranks(tmp_path, shell.count("{rank}"))
        family = psutil.Process(console.pid).children(recursive=True)
        folders = [path for path in Path("/tmp").glob("ddptui-hub-*") if f"-{console.pid}-" in path.name]
        console.kill()
    assert not survivors([*started, *family], GONE_WITHIN_S)
    assert [path.exists() for path in folders] == [False]


def test_none_is_left_of_a_presets_command_when_console_and_launcher_are_killed_at_once(
    tmp_path: Path, rank: str
) -> None:
    command = json.dumps(["sh", "-c", f"{rank} & {rank}; true"])
    preset = write_preset(tmp_path, f'kind = "command"\n[[trial]]\nname = "own"\ncommand = {command}\n')
    with watch(tmp_path, "run", str(preset), "--no-ui") as console:
        started = await_ranks(tmp_path, 2)
        console.send_signal(signal.SIGSTOP)  # else it may end the ranks before it is killed
        launcher, family = started[0].parent(), psutil.Process(console.pid).children(recursive=True)
        assert launcher is not None
        launcher.kill()
        console.kill()
    assert not survivors([*started, *family], GONE_WITHIN_S)


@pytest.mark.rare
def test_nothing_but_the_command_is_ended_with_the_console(tmp_path: Path, rank: str) -> None:
    """Beside it runs the same command of another console."""
    words = ("watch", "--no-ui", "--kill-on-exit", "--", "sh", "-c", f"{rank}; true")
    with watch(tmp_path, *words) as one, watch(tmp_path, *words) as other:
        await_ranks(tmp_path, 2)
        families = [psutil.Process(console.pid).children(recursive=True) for console in (one, other)]
        one.kill()
        assert not survivors(families[0], GONE_WITHIN_S)
        assert {*survivors(families[1], 0)} == {*families[1]}
        other.kill()
    assert not survivors(families[1], GONE_WITHIN_S)


def test_all_go_on_without_the_option(tmp_path: Path, rank: str) -> None:
    with watch(tmp_path, "watch", "--no-ui", "--", "sh", "-c", f"{rank}; true") as console:
        started = await_ranks(tmp_path, 1)
        [relay] = [child for child in psutil.Process(console.pid).children() if "workers.relay" in child.cmdline()]
        console.kill()
    assert not survivors([relay], ENOUGH_S)  # it has done what it does then
    assert survivors(started, 0) == started
