"""Record the run that the snapshot tests replay: real ranks, of which one is killed in the third trial.

    python -m tests.tui.record

What says where it was recorded (paths, the host's name) is left out of what is kept.
"""

import os
import shutil
import signal
import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ddptui.host.folders import lab_root
from ddptui.host.machine import describe
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.run.runner import Session
from ddptui.store.presets import load
from ddptui.store.runs import Run

HERE = Path(__file__).parent / "recorded"
KILLED_AT_STEP = 60


def main() -> None:
    preset = load(str(HERE / "preset.toml"))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as threads:
        run = Run.create(Path(folder), preset, describe())
        session, live = Session(preset, run, threads), Live()
        while not session.is_over:
            fold(live, session.drain())
            if live.trial == "killed" and live.step >= KILLED_AT_STEP and live.ranks[1].state == "running":
                os.kill(live.ranks[1].pid, signal.SIGKILL)
                live.ranks[1].state = "failed"
        keep(run, HERE / "run")


def keep(run: Run, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run.folder, folder)
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_text(anonymous(path.read_text(encoding="utf-8")), encoding="utf-8")


def anonymous(text: str) -> str:
    for what, instead in ((sys.executable, "python"), (str(lab_root()), "/lab"), (socket.gethostname(), "host")):
        text = text.replace(what, instead)
    return text


if __name__ == "__main__":
    main()
