"""A slow link for real: it holds back what goes over it, and nothing of it stays, however the run ends."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ddptui.engines.local import links
from tests.support.runner import ENOUGH_S, family, start, survivors, write_preset
from tests.support.waiting import until

MBIT = 40
WIDTH = 1024
BYTES = 4 * (64 * WIDTH + WIDTH + WIDTH * 10 + 10)  # of the gradients: digits' 64 pixels, one hidden layer, 10 classes
SLOW = f"""
[[trial]]
name = "slow"
strategy = "flat"
model = "mlp"
width = {WIDTH}
depth = 1
warmup_steps = 2
threads = 1
bottleneck = [{{ at = "link", ranks = [1], mbit = {MBIT} }}]
"""
Began = Callable[[str], "tuple[subprocess.Popen[str], set[str]]"]


@pytest.fixture
def began(tmp_path: Path) -> Iterator[Began]:
    """Starts a console; returns when its two ranks are in networks of their own, and their launcher in a third; and
    which these are."""
    if problem := links.problem():
        pytest.skip(problem)
    consoles: list[subprocess.Popen[str]] = []

    def begin(length: str) -> "tuple[subprocess.Popen[str], set[str]]":
        preset = write_preset(tmp_path, f"{SLOW}{length}\n")
        console = start(tmp_path / "runs", "--preset", str(preset), "--no-ui", "--json")
        consoles.append(console)
        found: set[str] = set()

        def complete() -> bool:
            assert console.poll() is None, console.communicate()
            found.update(networks_of_family(console.pid))
            return len(found) == 3

        until(complete)
        return console, found

    yield begin
    for console in consoles:
        console.kill()
        console.communicate()


def network_of(process: psutil.Process) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{process.pid}/ns/net")
    return ""


def networks_of_family(pid: int) -> set[str]:
    """Those that are not this process's own: the switch's, and the ranks'."""
    return {network_of(process) for process in family(pid)} - {network_of(psutil.Process()), ""}


def held_networks() -> set[str]:
    """Every network that a process is in, or holds open."""
    held = set()
    for process in psutil.process_iter():
        held.add(network_of(process))
        with suppress(OSError):
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
                with suppress(OSError):
                    held.add(os.readlink(descriptor))
    return held


def assert_nothing_is_left(networks: set[str]) -> None:
    until(lambda: not networks & held_networks(), 10)
    assert not {"switch", "rank0", "rank1"} & set(os.listdir("/sys/class/net"))


@pytest.mark.rare
def test_the_limit_holds_and_nothing_is_left(began: Began) -> None:
    console, networks = began("steps = 40")  # some seconds, in which the networks are found
    out, errors = console.communicate(timeout=ENOUGH_S)
    assert console.returncode == 0, errors
    [trial] = json.loads(out)["trials"]
    at_least_ms = (BYTES - links.SMALLEST_BURST) * 8 / (MBIT * 1000)  # the bucket of tokens is full at first
    assert trial["repeats"][0]["transfer_ms"] > at_least_ms
    assert links.__file__ in trial["command"]
    assert trial["repeats"][0]["in_sync"]["parameters"]
    assert_nothing_is_left(networks)


@pytest.mark.rare
@pytest.mark.parametrize("victim", ["console", "keeper"])
def test_nothing_is_left_of_it_after_a_kill(began: Began, victim: str) -> None:
    console, networks = began("steps = 100000")
    processes = family(console.pid)
    [keeper] = psutil.Process(console.pid).children()
    (console if victim == "console" else keeper).send_signal(signal.SIGKILL)
    console.communicate(timeout=ENOUGH_S)
    assert not survivors(processes, 10)
    assert_nothing_is_left(networks)
