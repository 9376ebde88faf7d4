"""However the console ends, the terminal is as it was, no rank is left, and what is finished is kept."""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.widgets import Select

from ddptui.config.settings import NO_SETTINGS
from ddptui.store.runs import Run
from ddptui.tui import start as program
from ddptui.tui.app import Console
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.runs import RunsScreen
from ddptui.tui.terminal import TerminalDriver
from ddptui.tui.widgets.trial_form import Field, TrialForm
from tests.support.builders import failure, journal, results_for, two_trials
from tests.support.runner import ENOUGH_S, QUICK, arguments, environment, family, survivors, write_preset
from tests.support.slurm_fakes import Fakes
from tests.tui.opened import Opened, opened, until

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
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NARROW = 50  # columns: narrower than the sentences below a table
PATIENCE_S = 90
GONE_S = 6


class OnATerminal:
    """A console on a pty of 120 × 40."""

    def __init__(self, runs: Path, preset: Path) -> None:
        self.master, terminal = pty.openpty()
        self.resize(120)
        told = {name: value for name, value in environment(runs).items() if name != "COLUMNS"}  # hides the width
        self.process = subprocess.Popen(
            arguments("--preset", str(preset), "--wait-quiet", "0"),
            env=told | {"TERM": "xterm-256color"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        self.painted = b""

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

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
            is_there = time.monotonic() < deadline and self.process.poll() is None
            assert is_there or text.encode() in self.painted, f"{text!r} was never painted"

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
async def test_each_signal_ends_it_with_its_own_exit_code(number: signal.Signals, code: int, tmp_path: Path) -> None:
    signal.signal(number, lambda *_: pytest.fail("the console does not listen to it"))
    async with opened(tmp_path, RunsScreen()) as (app, pilot):
        os.kill(os.getpid(), number)
        await until(pilot, lambda: app.leaving)
    assert app.return_code == code


def test_a_signal_ends_it_in_order(console: OnATerminal, tmp_path: Path) -> None:
    processes = under_way(console)
    assert processes
    os.kill(console.process.pid, signal.SIGHUP)
    assert console.wait() == 129
    assert survivors(processes, GONE_S) == []
    assert LEAVES_ALTERNATE_SCREEN in console.painted
    assert console.painted.rindex(SHOWS_CURSOR) > console.painted.rindex(b"of 100000")
    assert results(tmp_path / "runs")["status"] == "interrupted"
    table = console.painted[console.painted.rindex(LEAVES_ALTERNATE_SCREEN) :].decode()
    assert "short" in table
    assert "train s" in table


def test_quitting_prints_the_table_and_says_by_its_exit_code_how_it_went(console: OnATerminal, tmp_path: Path) -> None:
    processes = under_way(console)
    console.resize(NARROW)
    os.write(console.master, b"q")
    console.until("Stop and quit")
    os.write(console.master, b"y")
    assert console.wait() == 130
    assert survivors(processes, GONE_S) == []
    printed = STYLE.sub("", console.painted[console.painted.rindex(LEAVES_ALTERNATE_SCREEN) :].decode())
    assert "train s" in printed
    [run] = (tmp_path / "runs").iterdir()
    assert printed.split()[-3:] == ["kept", "in", str(run)]
    assert [line for line in printed.splitlines() if len(line) > NARROW and len(line.split()) > 1] == []
    assert results(tmp_path / "runs")["status"] == "interrupted"


def test_what_is_printed_is_the_last_run_and_where_each_is_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = two_trials(repeats=1)
    begun, other = results_for(preset, journal("a")), results_for(preset, failure("a"), journal("b"))
    resumed = results_for(preset, journal("a"), journal("b"))
    first, second, third = (Run(tmp_path / name) for name in ("first", "second", "third"))
    for run in (first, second):
        run.folder.mkdir()

    def played(app: Console) -> None:
        for run, results in [(first, begun), (third, resumed), (second, other), (first, resumed)]:
            app.run_ended(SimpleNamespace(run=run, preset=preset, results=results))  # type: ignore[arg-type]

    monkeypatch.setattr(Console, "run", played)
    monkeypatch.setattr(program, "give_way", lambda: None)  # it changes the process that runs the tests
    assert program.start(tmp_path, None, settings=NO_SETTINGS) == 1
    table, kept = capsys.readouterr().out.split("\n\nok, kept in ")
    assert kept.splitlines() == [str(first.folder), f"failed, kept in {second.folder}"]
    assert "train s" in table
    assert "not reached" not in table


def test_what_may_be_left_of_a_job_is_said_at_the_end(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes = Fakes(tmp_path / "bin", monkeypatch)
    fakes.job("PENDING")
    preset = '[engine]\nname = "slurm"\n[[trial]]\nname = "one"\nlaunch = "spawn"\nstrategy = "all_reduce"\n' + QUICK
    console = OnATerminal(tmp_path / "runs", write_preset(tmp_path, preset))
    console.until("job 17")
    keepers = family(console.process.pid)
    fakes.set(broken={"squeue": "Unable to contact slurm controller"})
    os.kill(console.process.pid, signal.SIGTERM)
    assert console.wait() == 143
    os.close(console.master)
    said = console.painted[console.painted.rindex(LEAVES_ALTERNATE_SCREEN) :].decode()
    assert "job 17 may be left (squeue: Unable to contact slurm controller)" in said
    fakes.set(broken={})
    assert survivors(keepers, PATIENCE_S) == []  # the job's has ended it since


def quits_before(method: Callable[..., Any]) -> Callable[..., Any]:
    def quitting(self: Any, *args: Any) -> Any:
        self.app.exit(0)
        return method(self, *args)

    return quitting


@pytest.mark.parametrize(
    ("widget", "method"),
    [(Lab, "compose_content"), (Lab, "on_mount"), (TrialForm, "_add_fields"), (Field, "compose"), (Select, "compose")],
)
async def test_quitting_early_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, widget: type, method: str
) -> None:
    monkeypatch.setattr(widget, method, quits_before(getattr(widget, method)))
    app = Opened(tmp_path)
    async with asyncio.timeout(PATIENCE_S):
        await app.run_async(headless=True)
    assert app.return_code == 0


async def test_a_test_that_ends_early_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's run_test closes the console without an exit."""
    begun = asyncio.Event()
    compose = Select.compose
    monkeypatch.setattr(Select, "compose", lambda select: begun.set() or compose(select))
    async with Opened(tmp_path, Screen()).run_test() as pilot:
        pilot.app.push_screen(Lab())
        await begun.wait()


@pytest.mark.parametrize(
    ("number", "handler"), [(signal.SIGTSTP, "_sigtstp_application"), (signal.SIGCONT, "_sigcont_application")]
)
async def test_ctrl_z_and_fg_wait_until_nothing_is_being_written(
    number: signal.Signals, handler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python may run a handler in the midst of a write, whose lock Textual's own would wait for without end."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTSTP, signal.SIGCONT)}
    handled: list[signal.Signals] = []
    monkeypatch.setattr(LinuxDriver, handler, lambda *_: handled.append(number))
    try:
        TerminalDriver(App[int]())
        os.kill(os.getpid(), number)
        assert not handled
        await asyncio.sleep(0)
        assert handled == [number]
    finally:
        for each, own in before.items():
            signal.signal(each, own)
