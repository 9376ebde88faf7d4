"""The console's terminal, which may vanish while the console runs: its window is closed, or a connection is lost."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


class Output:
    """A terminal's output, which drops what can no longer be written, and then ends the console as SIGHUP does. (The
    thread of Textual that writes would end with the error, and the console wait for it forever, with its ranks.)"""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._is_gone = file, False
        self.fileno = file.fileno

    def write(self, text: str) -> None:
        """Write text, unless the terminal is gone."""
        with self._while_there():
            self._file.write(text)

    def flush(self) -> None:
        """Flush it, unless the terminal is gone."""
        with self._while_there():
            self._file.flush()

    @contextmanager
    def _while_there(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            if not self._is_gone:
                self._is_gone = True
                os.kill(os.getpid(), signal.SIGHUP)


class TerminalDriver(LinuxDriver):
    """Textual's driver, with an output that outlives the terminal."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._file: Any = Output(self._file)
