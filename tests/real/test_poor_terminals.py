"""Terminals that cannot show every character: a run goes well, and the console draws a cell for each."""

import os
import pty
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import Popen

import psutil
import pytest

from tests.support.runner import ENOUGH_S, QUICK, arguments, ddptui, environment, write_preset
from tests.support.waiting import until

PRESET = f'title = "wén → 漢 \\u001b]0;PWN\\u0007"\n[[trial]]\nlaunch = "single"\n{QUICK}'
ASCII = {"PYTHONIOENCODING": "ascii", "LC_ALL": "POSIX"}


def test_a_run_ends_well_where_its_title_cannot_be_shown(tmp_path: Path) -> None:
    done = ddptui(tmp_path / "runs", "--preset", str(write_preset(tmp_path, PRESET)), "--no-ui", **ASCII)
    assert done.returncode == 0, done.stderr
    for printed in (done.stdout, done.stderr):
        assert r"w?n ? ? \x1b]0;PWN\x07" in printed
        assert printed.isascii()
        assert printed.replace("\n", "").isprintable()


@pytest.fixture
def console(tmp_path: Path) -> Iterator[tuple["Popen[bytes]", int]]:
    """A console, and its terminal; a test may close it."""
    mine, its = pty.openpty()
    told = environment(tmp_path / "runs") | ASCII | {"TERM": "xterm", "XDG_CONFIG_HOME": str(tmp_path)}
    process = Popen(arguments(), env=told, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)
    yield process, mine
    process.kill()
    process.wait()
    with suppress(OSError):
        os.close(mine)


def painted_until(console: tuple["Popen[bytes]", int], wanted: bytes) -> bytes:
    """What the console draws until it has drawn this."""
    process, terminal = console
    painted, deadline = b"", time.monotonic() + ENOUGH_S
    while wanted not in painted:
        assert process.poll() is None, painted
        assert time.monotonic() < deadline, painted
        if select.select([terminal], [], [], 1)[0]:
            painted += os.read(terminal, 2**16)
    return painted


def test_the_console_draws_a_cell_for_each_character_and_ends_with_its_terminal(
    console: tuple["Popen[bytes]", int],
) -> None:
    """Also where no SIGHUP comes, as here, where the terminal controls no process; and after Ctrl-Z and `fg`, when
    Textual writes in another thread."""
    process, terminal = console
    painted = painted_until(console, b"Lessons")
    assert b"?" in painted
    assert rb"\u" not in painted
    process.send_signal(signal.SIGTSTP)
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    process.send_signal(signal.SIGCONT)
    painted_until(console, b"Lessons")
    os.close(terminal)
    assert process.wait(ENOUGH_S) == 128 + signal.SIGHUP
