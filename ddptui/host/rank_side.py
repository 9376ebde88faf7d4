"""Asks torch, in child processes, questions that only torch can answer: the console never imports torch."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO, Any, Self

from ddptui.host.folders import python_path
from ddptui.host.rank_place import without_launchers
from ddptui.text.words import ending, first_line
from ddptui.wire.connection import CONSOLE_PID

ANSWER_S = 60.0
EXIT_S = 5.0  # time for a child to exit after its standard input was closed
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
        self._answers = b""
        self._errors: IO[bytes] = BytesIO()  # the process's standard error, whose last line says why it died

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
        self._answers, self._errors = b"", TemporaryFile()  # noqa: SIM115  (`_end` closes it)
        self._process = subprocess.Popen(
            self._command,
            cwd="/",
            env={**without_launchers(os.environ), **self._variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # so that the child and its children can be killed together
        )
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], question: str, limit_s: float) -> bytes:
        """Sends a question, and waits for a line."""
        with suppress(BrokenPipeError):  # the child has died: reading its output finds out how
            os.write(process.stdin.fileno(), question.encode() + b"\n")  # type: ignore[union-attr]
        until, output = time.monotonic() + limit_s, process.stdout.fileno()  # type: ignore[union-attr]
        poll = select.poll()  # uses no file descriptor: `doctor` must work if they run out
        poll.register(output, select.POLLIN)
        while b"\n" not in self._answers:
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                self._end()
                raise NoAnswer(f"no answer within {limit_s:g} s")
            if not (data := os.read(output, CHUNK)):
                raise NoAnswer(self._ending(process))
            self._answers += data
        line, self._answers = self._answers.split(b"\n", 1)
        return line

    def _ending(self, process: subprocess.Popen[bytes]) -> str:
        """Why the child died: the last line of its standard error, or else its exit code or signal."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(EXIT_S)
        self._errors.seek(0)
        code, lines = process.poll(), self._errors.read().decode("utf-8", "replace").strip().splitlines()
        self._end()
        return lines[-1].strip() if lines and code is not None and code > 0 else ending(code)

    def _end(self, exit_s: float = 0.0) -> None:
        """Closes the child's standard input, waits exit_s for it to exit, then kills what is left of its session."""
        self._errors.close()
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            stream.close()  # type: ignore[union-attr]
        if exit_s:
            with suppress(subprocess.TimeoutExpired):
                process.wait(exit_s)
        with suppress(ProcessLookupError, PermissionError):  # no process of the session is left; macOS: only zombies
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
