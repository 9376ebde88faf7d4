"""However the console ends, the terminal is as it was, no rank is left, and what is finished is kept."""

import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ddptui.tui.screens.runs import RunsScreen
from tests.support.runner import ENOUGH_S, arguments, environment, family, survivors, write_preset
from tests.tui.opened import opened, until

LONG = """
[defaults]
model = "mlp"
width = 16
depth = 1
warmup_steps = 2
threads = 1
[[trial]]
name = "short"
steps = 40
[[trial]]
name = "long"
steps = 100000
"""
LEAVES_ALTERNATE_SCREEN, SHOWS_CURSOR = b"\x1b[?1049l", b"\x1b[?25h"
PATIENCE_S = 90
GONE_S = 6


class OnATerminal:
    """A console on a pty of 120 × 40."""

    def __init__(self, runs: Path, preset: Path) -> None:
        self.master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            arguments("--preset", str(preset)),
            env=environment(runs) | {"TERM": "xterm-256color"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        self.painted = b""

    def read(self) -> None:
        if select.select([self.master], [], [], 0.1)[0]:
            try:
                self.painted += os.read(self.master, 2**16)
            except OSError:  # nobody is at the other end any more
                time.sleep(0.01)

    def until(self, text: str) -> None:
        deadline = time.monotonic() + ENOUGH_S
        while text.encode() not in self.painted:
            self.read()
            assert time.monotonic() < deadline, f"{text!r} was never painted"

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            self.read()
            assert time.monotonic() < deadline, "the console does not end"
        for _ in range(20):
            self.read()
        return self.process.returncode


@pytest.fixture
def console(tmp_path: Path, home: Path) -> Iterator[OnATerminal]:
    started = OnATerminal(tmp_path / "runs", write_preset(tmp_path, LONG))
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()
    os.close(started.master)


def results(runs: Path) -> dict[str, object]:
    [run] = runs.iterdir()
    found: dict[str, object] = json.loads((run / "results.json").read_text(encoding="utf-8"))
    return found


def under_way(console: OnATerminal) -> list[psutil.Process]:
    console.until("of 100000")  # steps, in the title
    return family(console.process.pid)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.usefixtures("signals_given_back")
def test_each_signal_ends_it_with_its_own_exit_code(number: signal.Signals, code: int, tmp_path: Path) -> None:
    signal.signal(number, lambda *_: pytest.fail("the console does not listen to it"))

    async def check() -> None:
        async with opened(tmp_path, RunsScreen()) as (app, pilot):
            os.kill(os.getpid(), number)
            await until(pilot, lambda: app.leaving)
        assert app.return_code == code

    asyncio.run(check())


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.rare), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_it_in_order(number: signal.Signals, code: int, console: OnATerminal, tmp_path: Path) -> None:
    processes = under_way(console)
    assert processes
    os.kill(console.process.pid, number)
    assert console.wait() == code
    assert survivors(processes, GONE_S) == []
    assert LEAVES_ALTERNATE_SCREEN in console.painted
    assert console.painted.rindex(SHOWS_CURSOR) > console.painted.rindex(b"of 100000")
    assert results(tmp_path / "runs")["status"] == "interrupted"
    table = console.painted[console.painted.rindex(LEAVES_ALTERNATE_SCREEN) :].decode()
    assert "short" in table
    assert "train s" in table


def test_quitting_prints_the_table_and_says_by_its_exit_code_how_it_went(console: OnATerminal, tmp_path: Path) -> None:
    processes = under_way(console)
    os.write(console.master, b"q")
    console.until("Stop and quit")
    os.write(console.master, b"y")
    assert console.wait() == 130
    assert survivors(processes, GONE_S) == []
    assert b"train s" in console.painted[console.painted.rindex(LEAVES_ALTERNATE_SCREEN) :]
    assert results(tmp_path / "runs")["status"] == "interrupted"
