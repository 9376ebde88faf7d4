"""The engine `local`: a launcher and its ranks as processes of this host, in a session of their own."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

LAUNCHER_LOG = "launcher.log"
POLITE_S = 3.0  # from SIGTERM to SIGKILL


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
        self.knows(self._process.pid)

    @property
    def exit_code(self) -> int | None:
        """None while the launcher runs; negative: the signal that killed it."""
        return self._process.poll()

    def knows(self, pid: int) -> None:
        """Count this process among those to be ended. psutil keeps its start time, so a reused number is no danger."""
        if pid not in self._family:
            try:
                self._family[pid] = psutil.Process(pid)
            except psutil.NoSuchProcess:
                return

    def is_alive(self, pid: int) -> bool:
        process = self._family.get(pid)
        try:
            return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def stop(self) -> None:
        """End the launcher, its ranks and their helpers; return when none is left."""
        for process in list(self._family.values()):
            for child in _children(process):
                self.knows(child.pid)
        if self._process.poll() is None:
            self._process.terminate()
        _, left = psutil.wait_procs(self._others(), timeout=POLITE_S if self._process.poll() is None else 0.5)
        for process in left:
            _signal(process, "kill")
        try:
            self._process.wait(POLITE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for process in self._others():
            _signal(process, "kill")

    def _others(self) -> list[psutil.Process]:
        return [process for pid, process in self._family.items() if pid != self._process.pid and self.is_alive(pid)]


def cores() -> int:
    """How many cores this process, and so its ranks, may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _children(process: psutil.Process) -> Iterable[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return ()


def _signal(process: psutil.Process, how: str) -> None:
    try:
        getattr(process, how)()
    except psutil.NoSuchProcess:
        return
