"""Asks torch, in child processes, questions that only torch can answer: the console never imports torch."""

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
from ddptui.host.rank_place import without_launchers
from ddptui.text.words import ending, first_line
from ddptui.wire.connection import CONSOLE_PID

ANSWER_S = 60.0
EXIT_S = 5.0  # time for a child to exit after its standard input was closed
LONGEST_ERRORS = 16_384  # bytes kept of a child's standard error, whose last line says why it died
CHUNK = 65_536


class NoAnswer(Exception):
    """A question could not be answered. The message is one line that says why."""


class Child:
    """A child process `python -m module` that answers each question with a line of JSON. `variables` are added to its
    environment."""

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
        """The answer to a question. Raises NoAnswer if the question failed, the process died, or the timeout passed."""
        try:
            process = self._process or self._start()  # started by the first question, and again after it has died
            answer: dict[str, Any] = json.loads(self._exchange(process, question, within_s))
        except (OSError, ValueError) as error:
            self._end()
            raise NoAnswer(f"the process could not be started, or its answer not parsed: {first_line(error)}") from None
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
        self._selector = selectors.PollSelector()  # uses no file descriptor: `doctor` must work if they run out
        pipe, environment = subprocess.PIPE, {**without_launchers(os.environ), **self._variables}
        # a session of its own, so that the child and its children can be killed together
        self._process = process = subprocess.Popen(
            self._command, cwd="/", env=environment, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        for stream in (process.stdout, process.stderr):
            self._selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
        return process

    def _exchange(self, process: subprocess.Popen[bytes], question: str, limit_s: float) -> bytes:
        """Sends a question, and waits for a line."""
        with suppress(BrokenPipeError):  # the child has died: reading its output finds out how
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
        """Waits up to wait_s for output, and reads what has arrived. False: standard output was closed."""
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
        """Why the child died: the last line of its standard error, or else its exit code or signal."""
        self._selector.unregister(process.stdout)  # type: ignore[arg-type]
        until = time.monotonic() + EXIT_S  # a process that the child started may hold stderr open
        while self._selector.get_map() and time.monotonic() < until:  # until stderr is closed
            self._read(process, until - time.monotonic())
        with suppress(subprocess.TimeoutExpired):
            process.wait(EXIT_S)
        code, lines = process.poll(), self._errors.decode("utf-8", "replace").strip().splitlines()
        self._end()
        return lines[-1].strip() if lines and code is not None and code > 0 else ending(code)

    def _end(self, exit_s: float = 0.0) -> None:
        """Closes the child's standard input, waits exit_s for it to exit, then kills what is left of its session."""
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
