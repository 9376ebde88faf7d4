"""Whoever stands between console and launcher: ends with it, like it, and leaves nobody of its family behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from ddptui.engines.local.engine import LocalLaunch
from ddptui.engines.local.warm import WarmParent
from ddptui.host import keeper
from tests.support import waiting
from tests.unit.engines.conftest import launched, ready

SOON_S = 30.0
until = partial(waiting.until, within_s=SOON_S)
SLEEP = "import time; time.sleep(600)"
# A child of a child, in a session of its own, whose parents are gone, and which does not listen to SIGTERM.
ESCAPE = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("escaped", "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists("escaped") or not open("escaped").read():
    time.sleep(0.01)
"""
# A program in a session of its own.
EXECUTE = """
import subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("escaped", "w").write(str(other.pid))
"""
Kept = Callable[[str], LocalLaunch]


@pytest.fixture(params=["cold", "warm"])
def kept(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Kept]:
    parent = None if request.param == "cold" else request.getfixturevalue("warm")
    yield from launchers(tmp_path, parent)


@pytest.fixture(params=["cold", "warm"])
def mortal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Kept]:
    """The same, with a keeper that no other test needs."""
    parent = None if request.param == "cold" else ready(request.getfixturevalue("own"))
    yield from launchers(tmp_path, parent)


def launchers(folder: Path, warm: WarmParent | None) -> Iterator[Kept]:
    launches: list[LocalLaunch] = []

    def start(script: str) -> LocalLaunch:
        launches.append(launched(script, folder, warm, TMPDIR=str(folder / "own")))
        return launches[-1]

    yield start
    for launch in launches:
        launch.stop()


def await_end(launcher: LocalLaunch) -> int:
    return launcher._process.wait(SOON_S)


def written(path: Path) -> str:
    until(lambda: path.exists() and bool(path.read_text()))
    return path.read_text()


def escaped(folder: Path) -> psutil.Process:
    return psutil.Process(int(written(folder / "escaped")))


def children_of(launcher: LocalLaunch) -> list[psutil.Process]:
    return psutil.Process(launcher._process.pid).children()


def begun(launcher: LocalLaunch) -> list[psutil.Process]:
    """The children of a launcher, once there are some."""
    until(lambda: bool(children_of(launcher)))
    return children_of(launcher)


def is_gone(process: psutil.Process) -> bool:
    gone, _ = psutil.wait_procs([process], timeout=SOON_S)
    return bool(gone) or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", -9),
    ],
)
def test_it_ends_as_the_launcher_did(kept: Kept, tmp_path: Path, script: str, code: int) -> None:
    assert await_end(kept(script)) == code
    assert (tmp_path / "own").is_dir()  # the console is there, and takes it away itself


def test_a_launcher_that_is_stopped_is_ended_too(kept: Kept) -> None:
    launcher = kept(f"import os; os.kill(os.getpid(), 19); {SLEEP}")
    until(lambda: [child.status() for child in children_of(launcher)] == [psutil.STATUS_STOPPED])
    [stopped] = children_of(launcher)
    launcher.stop()
    assert (stopped.is_running(), launcher.exit_code) == (False, -9)


def test_who_escaped_goes_when_the_launcher_ends_and_when_the_console_lets_go(kept: Kept, tmp_path: Path) -> None:
    launcher = kept(ESCAPE)
    orphan = escaped(tmp_path)
    assert await_end(launcher) == 0
    assert is_gone(orphan)
    (tmp_path / "escaped").unlink()
    launcher = kept(ESCAPE + SLEEP)
    orphan = escaped(tmp_path)
    launcher.stop()
    assert is_gone(orphan)
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_do_not_end_it_nor_are_ignored_by_its_child(kept: Kept, tmp_path: Path, number: signal.Signals) -> None:
    script = f"import signal; open('{number.name}', 'w').write(str(signal.getsignal({int(number)}))); {SLEEP}"
    launcher = kept(script)
    assert "SIG_IGN" not in written(tmp_path / number.name)
    os.kill(launcher._process.pid, number)
    with pytest.raises(subprocess.TimeoutExpired):
        launcher._process.wait(0.3)


def test_without_it_the_launcher_dies_as_well(mortal: Kept) -> None:
    launcher = mortal(SLEEP)
    children = begun(launcher)
    launcher._process.kill()
    assert all(is_gone(child) for child in children)
    assert await_end(launcher) == -9


def test_who_escaped_goes_though_the_keeper_was_killed(mortal: Kept, tmp_path: Path) -> None:
    launcher = mortal(ESCAPE + SLEEP)
    orphan = escaped(tmp_path)
    launcher._process.kill()
    launcher.stop()
    assert is_gone(orphan)


@pytest.mark.parametrize("script", [ESCAPE, EXECUTE], ids=["forked", "executed"])
def test_who_escaped_goes_though_the_warm_parents_keeper_died(own: WarmParent, tmp_path: Path, script: str) -> None:
    start = next(launchers(tmp_path, ready(own)))
    launcher = start(script + SLEEP)
    orphan = escaped(tmp_path)
    own._keeper.kill()
    assert await_end(launcher) == -9
    launcher.stop()
    assert is_gone(orphan)
    assert own.problem == "the process that forks the ranks was killed by SIGKILL"


def test_a_keeper_that_is_stopped_cannot_hold_up_the_console(mortal: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddptui.engines.local.warm.STOP_WITHIN_S", 1.0)
    launcher = mortal(SLEEP)
    children = begun(launcher)
    os.kill(launcher._process.pid, signal.SIGSTOP)
    launcher.stop()
    assert all(is_gone(child) for child in children)


def test_trackers_are_told_from_others() -> None:
    command = [sys.executable, "-c", SLEEP, "from multiprocessing.resource_tracker import main"]
    tracker = subprocess.Popen(command)
    try:
        until(lambda: keeper.is_tracker(psutil.Process(tracker.pid)))  # its command is its own a moment after it starts
    finally:
        tracker.kill()
        tracker.wait()
    assert not keeper.is_tracker(psutil.Process())


def test_a_launcher_whose_keeper_was_killed_before_the_kernel_was_asked_is_not_begun(tmp_path: Path) -> None:
    command = ["touch", str(tmp_path / "begun")]
    another = os.getppid()  # as if the keeper, which is the parent, had been killed, and another had taken its place
    subprocess.run(command, preexec_fn=partial(keeper.die_with, another), check=False)
    assert not (tmp_path / "begun").exists()
    subprocess.run(command, preexec_fn=partial(keeper.die_with, os.getpid()), check=True)
    assert (tmp_path / "begun").exists()
