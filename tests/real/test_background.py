"""A console in the background outlives its terminal if nohup has started it, as any other program does."""

import fcntl
import os
import pty
import signal
import subprocess
import termios
from pathlib import Path

import psutil
import pytest

from tests.support.runner import ENOUGH_S, QUICK, arguments, environment, write_preset
from tests.support.waiting import until

# some seconds of training, in which signals arrive
WALK = QUICK.replace("steps = 8", "steps = 100") + '[[trial.bottleneck]]\nat = "data"\nranks = [0]\nsleep_ms = 20\n'
PRESET = f'[[trial]]\nname = "walk"\nlaunch = "single"\n{WALK}'
# what a shell does without job control: the console ignores SIGINT, and stays in the terminal's foreground group
SCRIPT = 'cd "$1"; shift; {ignoring} "$@" >out 2>err & echo $! >pid; wait'


@pytest.mark.parametrize(("ignoring", "interrupted"), [("nohup", False), ("", True)])
def test_a_closed_terminal_interrupts_only_a_console_without_nohup(
    tmp_path: Path, ignoring: str, interrupted: bool
) -> None:
    master, slave = pty.openpty()
    command = arguments("--preset", str(write_preset(tmp_path, PRESET)), "--no-ui")
    with subprocess.Popen(
        ["sh", "-c", SCRIPT.format(ignoring=ignoring), "sh", str(tmp_path), *command],
        env=environment(tmp_path / "runs"),
        stdin=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
    ):
        os.close(slave)
        console = await_training(tmp_path)
        console.send_signal(signal.SIGINT)  # ignored in both
        os.close(master)  # the terminal is closed: SIGHUP
        console.wait(ENOUGH_S)
    assert ("interrupted; the ranks are stopped" in (tmp_path / "err").read_text()) == interrupted


def await_training(folder: Path) -> psutil.Process:
    """The console, once its rank has made a step."""
    journals = "runs/*/trial-walk/repeat-1/messages.jsonl"
    until(
        lambda: any('"Step"' in path.read_text() for path in folder.glob(journals)), why_not=(folder / "err").read_text
    )
    return psutil.Process(int((folder / "pid").read_text()))
