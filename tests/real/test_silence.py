"""A console that is stopped says nothing, and cannot be asked: its ranks wait for a while, and then end themselves."""

import signal
from pathlib import Path

import psutil
import pytest

from ddptui.wire.connection import SILENCE_S
from tests.support.runner import survivors
from tests.support.running import Running

SILENCE = 6.0  # s; more than the console takes between two words
SOON_S = 5.0


def test_ranks_end_themselves_when_the_console_is_silent_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SILENCE_S, str(SILENCE))
    running = Running(tmp_path, "spawn-fork")
    ranks = [psutil.Process(pid) for pid in running.pids.values()]
    running.send(signal.SIGSTOP)
    assert not survivors(ranks, SILENCE + SOON_S)
    running.send(signal.SIGCONT)
    error, code = running.error()
    running.end()
    assert code == 1
    assert "killed by SIGTERM" in error.splitlines()[0]
    logs = [path.read_text() for path in running.runs.glob("*/trial-long/repeat-1/rank-*.log")]
    assert any("no message from the console for 6 s: it is stopped, or cannot be reached" in log for log in logs)


def test_a_console_that_goes_on_in_time_loses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SILENCE_S, str(2 * SILENCE))
    running = Running(tmp_path, "spawn-fork")
    ranks = [psutil.Process(pid) for pid in running.pids.values()]
    running.send(signal.SIGSTOP)
    assert len(survivors(ranks, SILENCE / 2)) == 2
    running.send(signal.SIGCONT)
    assert len(survivors(ranks, SILENCE / 2)) == 2
    running.send(signal.SIGINT)
    running.console.communicate(timeout=SOON_S)
    assert running.console.returncode == 130
