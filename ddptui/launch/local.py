"""The engine `local`: a launcher and its ranks as processes of this host, in a session of their own."""

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

LAUNCHER_LOG = "launcher.log"
POLITE_S = 3.0  # from SIGTERM to SIGKILL
ALONE_S = 0.5  # from the launcher's own end to SIGKILL for those whom it left


class Launcher:
    """A started command. Ctrl-C in the terminal does not reach it: the console ends it, in order."""

    def __init__(self, command: list[str], environment: Mapping[str, str], folder: Path) -> None:
        with (folder / LAUNCHER_LOG).open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,  # holds no module that could stand in the way of torch's
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._family: dict[int, psutil.Process] = {}

    @property
    def exit_code(self) -> int | None:
        """None while the launcher runs; negative: the signal that killed it."""
        return self._process.poll()

    def meet(self, pid: int) -> None:
        """Count a rank among those to be ended, and whoever the launcher has started by now: when it is gone, its
        helpers (a forkserver, a resource tracker) could no longer be found. psutil keeps each one's start time, so
        that a number used again is no danger."""
        for process in _children(self._process.pid):
            self._family.setdefault(process.pid, process)
        if pid not in self._family:
            with suppress(psutil.NoSuchProcess):
                self._family[pid] = psutil.Process(pid)

    def family(self) -> list[psutil.Process]:
        """The ranks, and whoever else the launcher had started when one of them was met."""
        return list(self._family.values())

    def is_alive(self, pid: int) -> bool:
        process = self._family.get(pid)
        try:
            return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def stop(self) -> None:
        """End the launcher, its ranks and their helpers; return when none is left."""
        for process in _children(self._process.pid):
            self._family.setdefault(process.pid, process)
        patience_s = ALONE_S if self._process.poll() is not None else POLITE_S
        if patience_s == POLITE_S:
            self._process.terminate()
            for process in self._alive():
                with suppress(psutil.NoSuchProcess):
                    process.terminate()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _, left = psutil.wait_procs(self._alive(), timeout=patience_s)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(self._alive(), timeout=POLITE_S)

    def _alive(self) -> list[psutil.Process]:
        return [process for pid, process in self._family.items() if self.is_alive(pid)]


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
