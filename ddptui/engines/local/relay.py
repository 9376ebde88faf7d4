"""The relay on this host, a process to which the ranks of a watched training send their notes, and which reports to the
console in their place. It ends with the process that started it, and may then end the training, too."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from ddptui.host.folders import module_folders, write_private
from ddptui.text.sanitize import as_text
from ddptui.wire.connection import LET_GO, NOTES, SILENCE_S, RelayTask, Watching, orders

LET_GO_AFTER_S = 60  # ranks are released if the relay receives nothing from the console for this long
END_WITHIN_S = 20.0  # time to send the remaining notes at the end, on a busy machine
SOCKET = "relay"  # in a folder with a short path, because the path of a socket must be short


class Relay:
    """A running relay."""

    def __init__(
        self, file: Path, folder: Path, way: Mapping[str, str], watching: Watching, *, ends_training: bool
    ) -> None:
        """file: the file by which ranks find the relay; notes are written beside it. folder: a private folder for the
        socket. way: the environment variables by which the relay reaches the console. ends_training: whether the relay
        ends the training if this process dies. Raises OSError."""
        self.file, self._path = file, folder / SOCKET
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(self._path))
            listener.listen(1024)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "workers.relay"],  # -P: the current folder may have modules of that name
                env={**os.environ, "PYTHONPATH": os.pathsep.join(module_folders())},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # signals from the terminal are for the command only
            )
            task = RelayTask(
                listener=listener.fileno(),
                way={**way, SILENCE_S: str(LET_GO_AFTER_S)},
                watching=watching,
                notes=as_text(str(file.with_name(NOTES).absolute())),
                ends=as_text(str(file.absolute())) if ends_training else None,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(task.spell())
        self._process.stdin.flush()
        new = file.with_name(f"{file.name}.new")  # then renamed: a rank must not read an incomplete file
        write_private(new, orders(str(self._path), watching).decode())
        new.replace(file)

    def processes(self) -> list[psutil.Process]:
        """The process of the relay; empty after its end."""
        with suppress(psutil.NoSuchProcess):
            return [psutil.Process(self._process.pid)]
        return []

    def close(self) -> None:
        """Make the relay send what it has received, and end it."""
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(OSError):  # it has ended
            if not pipe.closed:
                pipe.write(LET_GO)
            pipe.close()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(OSError):
            self._path.unlink()
