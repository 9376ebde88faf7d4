"""The relay of this host, a process of ddptui's own: ranks of a watched training send it what they note, and it reports
to the console as ranks do. It ends with the process that has started it, and may end the training then."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from ddptui.host.folders import module_folders, write_private
from ddptui.text.argv import as_text
from ddptui.wire.connection import NOTES, SILENCE_S
from ddptui.wire.watching import LET_GO, RelayTask, Watching, orders

LET_GO_AFTER_S = 60  # without a word of the console, ranks are no longer watched
END_WITHIN_S = 20.0  # to send what has come, once it is to end: on a busy machine
SOCKET = "relay"  # in a folder whose path is short: a socket's must be


class Relay:
    """A relay under way."""

    def __init__(
        self, file: Path, folder: Path, way: Mapping[str, str], watching: Watching, *, ends_training: bool
    ) -> None:
        """file: where ranks look for it; others beside it. folder: this process's own, for its socket. way: the
        variables by which it reaches the console. ends_training: it ends the training if this process dies. Raises
        OSError."""
        self._path = folder / SOCKET
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(self._path))
            listener.listen(1024)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "workers.relay"],  # -P: this folder may have modules of that name
                env={**os.environ, "PYTHONPATH": os.pathsep.join(module_folders())},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # what the terminal sends is for the command
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
        new = file.with_name(f"{file.name}.new")  # a rank must not find half of it
        write_private(new, orders(str(self._path), watching).decode())
        new.replace(file)

    def processes(self) -> list[psutil.Process]:
        """Its process, while it runs."""
        with suppress(psutil.NoSuchProcess):
            return [psutil.Process(self._process.pid)]
        return []

    def close(self) -> None:
        """Have it send what has come, and end."""
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
