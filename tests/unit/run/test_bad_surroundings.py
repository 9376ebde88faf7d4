"""Full disks, closed streams, interrupts before anything has begun, and what a killed console has left behind."""

import errno
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddptui.config.preset import Preset
from ddptui.findings.compare import RunningResults
from ddptui.run import headless, runner
from ddptui.run.headless import Narrator
from ddptui.store.journal import RunLost
from ddptui.store.runs import Run
from ddptui.wire.records import Message
from tests.support.builders import journal, preset_of
from tests.support.failing import failing


class Closed(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Preset]:
    """A preset whose run is over in no time: the lab is the seam."""

    def run_preset(_: Preset, run: Run, *, results: RunningResults) -> Iterator[Message]:
        assert not results.outcomes
        for message in journal("a"):
            if results.add(message):
                run.write_results(results.results)
            yield message

    monkeypatch.setattr(runner, "run_preset", run_preset)
    return lambda: preset_of({"trial": [{"name": "a"}]})


def test_a_full_disk_stops_the_run_with_one_line_and_the_table_is_still_shown(
    ran: Callable[[], Preset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(Run, "write_results", failing(RunLost(tmp_path, full)))
    assert headless.run(ran(), tmp_path, as_json=False) == 1
    output, errors = capsys.readouterr()
    assert "No space left on device" in errors
    assert "ddptui --resume" in errors
    assert "\ntrial " in output


def test_a_reader_of_stdout_that_has_gone_changes_no_exit_code(
    ran: Callable[[], Preset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Closed())
    assert headless.run(ran(), tmp_path, as_json=False) == 0
    sys.stdout.close()
    assert "kept in" in capsys.readouterr().err
    narrator = Narrator(ran(), Closed())  # nor does one of how it goes
    for message in journal("a"):
        narrator.add(message)


def test_an_interrupt_before_anything_has_begun_exits_with_130() -> None:
    script = (
        "import os, signal; from ddptui import cli; cli.main = lambda: os.kill(os.getpid(), signal.SIGINT); cli.start()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")
