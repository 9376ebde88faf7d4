"""A console that is stopped says nothing, and cannot be asked: its ranks wait for a while, and then end themselves."""

import signal
from pathlib import Path

import psutil
import pytest

from ddptui.wire.connection import SILENCE_S
from tests.support.runner import survivors
from tests.support.running import Running

SILENCE = 8.0  # s; more than twice what the console takes between two words
SHORT = SILENCE / 4
SOON_S = 30.0


def test_ranks_wait_for_a_console_that_is_silent_for_a_while_and_end_themselves_when_it_is_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SILENCE_S, str(SILENCE))
    running = Running(tmp_path, "warm-spawn")
    ranks = [psutil.Process(pid) for pid in running.under_way.pids.values()]
    running.process.send_signal(signal.SIGSTOP)
    assert len(survivors(ranks, SHORT)) == 2
    running.process.send_signal(signal.SIGCONT)
    assert len(survivors(ranks, SHORT)) == 2

    running.process.send_signal(signal.SIGSTOP)
    assert not survivors(ranks, SILENCE + SOON_S)
    running.process.send_signal(signal.SIGCONT)
    error, code = running.error()
    running.end()
    assert code == 1
    assert "killed by SIGTERM" in error.splitlines()[0]
    logs = [path.read_text() for path in running.runs.glob("*/trial-long/repeat-1/rank-*.log")]
    assert any("no message from the console for 8 s: it is stopped, or cannot be reached" in log for log in logs)
