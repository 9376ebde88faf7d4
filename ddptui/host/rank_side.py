"""Asks torch, in child processes, what only it can answer: the console never imports it."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Self

from ddptui.host.folders import python_path
from ddptui.host.launchers import without_launchers
from ddptui.text.words import ending, first_line
from ddptui.wire.connection import CONSOLE_PID

ANSWER_S = 60.0
EXIT_S = 5.0  # for a child to exit once its standard input is closed
LONGEST_ERRORS = 16_384  # bytes kept of its standard error, whose last line says why it died
CHUNK = 65_536


class NoAnswer(Exception):
    """A question without an answer. One line that says why."""


class Child:
    """`python -m module`, which answers questions, a line of JSON each. `variables` are added to its environment."""

    def __init__(self, module: str, **variables: str) -> None:
        self._command = [sys.executable, "-P", "-m", module]  # -P: no modules from the working folder
        self._variables = {"PYTHONPATH": python_path(), CONSOLE_PID: str(os.getpid()), **variables}
        self._process: subprocess.Popen[bytes] | None = None
        self._selector: selectors.BaseSelector  # of the process's output
        self._answers = self._errors = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end(exit_s=EXIT_S if kind is None else 0)

    def ask(self, question: str, within_s: float = ANSWER_S) -> dict[str, Any]:
        """The answer. Raises NoAnswer: the question failed, the process died, or the time was up."""
        try:
            process = self._process or self._start()  # with the first question, and again if it has died
            answer: dict[str, Any] = json.loads(self._exchange(process, question, within_s))
        except (OSError, ValueError) as error:
            self._end()
            raise NoAnswer(f"the process could not be started, or its answer not read: {first_line(error)}") from None
        if "error" in answer:
            raise NoAnswer(answer["error"])
        return answer

    def kill_alone(self) -> None:
        """Kills the process, but not its children."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self._answers = self._errors = b""
        self._selector = selectors.PollSelector()  # poll takes no descriptor: doctor asks where they run out, too
        pipe, environment = subprocess.PIPE, {**without_launchers(os.environ), **self._variables}
        # a session of its own: it and its children can be killed as one
        self._process = process = subprocess.Popen(
            self._command, cwd="/", env=environment, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        for stream in (process.stdout, process.stderr):
            self._selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
        return process

    def _exchange(self, process: subprocess.Popen[bytes], question: str, limit_s: float) -> bytes:
        """Sends a line, and waits for one."""
        with suppress(BrokenPipeError):  # it has died: reading finds out how
            os.write(process.stdin.fileno(), question.encode() + b"\n")  # type: ignore[union-attr]
        until = time.monotonic() + limit_s
        while b"\n" not in self._answers:
            if time.monotonic() >= until:
                self._end()
                raise NoAnswer(f"no answer within {limit_s:g} s")
            if not self._read(process, until - time.monotonic()):
                raise NoAnswer(self._ending(process))
        line, self._answers = self._answers.split(b"\n", 1)
        return line

    def _read(self, process: subprocess.Popen[bytes], wait_s: float) -> bool:
        """Reads what has arrived, waiting for the first of it. False: standard output is at its end."""
        for key, _ in self._selector.select(max(0.0, wait_s)):
            data = os.read(key.fd, CHUNK)
            if key.fileobj is process.stdout:
                self._answers += data
                if not data:
                    return False
            elif data:
                self._errors = (self._errors + data)[-LONGEST_ERRORS:]
            else:
                self._selector.unregister(key.fileobj)
        return True

    def _ending(self, process: subprocess.Popen[bytes]) -> str:
        """The last line of its standard error; without one, its exit code or signal."""
        self._selector.unregister(process.stdout)  # type: ignore[arg-type]
        until = time.monotonic() + EXIT_S  # a child of its own may hold stderr open
        while self._selector.get_map() and time.monotonic() < until:  # until stderr is at its end
            self._read(process, until - time.monotonic())
        with suppress(subprocess.TimeoutExpired):
            process.wait(EXIT_S)
        code, lines = process.poll(), self._errors.decode("utf-8", "replace").strip().splitlines()
        self._end()
        return lines[-1].strip() if lines and code is not None and code > 0 else ending(code)

    def _end(self, exit_s: float = 0.0) -> None:
        """Closes its standard input, gives it so long to exit, then kills what is left of its session."""
        process, self._process = self._process, None
        if process is None:
            return
        self._selector.close()  # before the streams, whose descriptors it watches
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()  # type: ignore[union-attr]
        if exit_s:
            with suppress(subprocess.TimeoutExpired):
                process.wait(exit_s)
        with suppress(ProcessLookupError, PermissionError):  # no process of the session is left; macOS: only zombies
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
