"""Asks the rank side, in processes of its own, what only torch can answer.

The console never imports torch, so a crash in native code cannot take the terminal with it.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import Any, Self

from ddptui.host.folders import lab_root
from ddptui.text.printable import ending, first_line, printable
from ddptui.wire.connection import CONSOLE_PID


def run_module(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` with the lab's modules in reach; its output passes through."""
    with tempfile.TemporaryDirectory(prefix="ddptui-") as clean:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, "PYTHONPATH": str(lab_root())},
            cwd=clean,  # holds no module that could stand in the way of torch's
            text=True,
            check=False,
        )


ANSWER_S = 60.0
LEAVE_S = 5.0  # for one that is not asked any more
LONGEST_TAIL = 16_384  # bytes of what it says besides
CHUNK = 65_536


class NoAnswer(Exception):
    """What was asked for could not be done: why, in one line."""


class Child:
    """`python -m module` (see workers/answers.py), started with the first question, and anew for the next one if it has
    died or had to be killed. `variables`: besides the environment. It and whoever it starts are a session of their own,
    killed as one."""

    def __init__(self, module: str, **variables: str) -> None:
        self._command = [sys.executable, "-P", "-m", module]  # -P: what lies in the working folder is nobody's module
        self._variables = {"PYTHONPATH": str(lab_root()), CONSOLE_PID: str(os.getpid()), **variables}
        self._process: subprocess.Popen[bytes] | None = None
        self._selector: selectors.BaseSelector | None = None
        self._said = b""
        self._besides = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end(leave_s=LEAVE_S if kind is None else 0)

    def ask(self, question: str, within_s: float | None = None) -> dict[str, Any]:
        """The answer. Raises NoAnswer: it failed, the process died, or nothing came within so many seconds."""
        limit_s = within_s or ANSWER_S
        try:
            process = self._process or self._start()
            answer: dict[str, Any] = json.loads(self._exchange(process, question, limit_s))
        except (OSError, ValueError) as error:
            self._end()
            raise NoAnswer(f"a process could not be started or heard: {first_line(error)}") from None
        if "error" in answer:
            raise NoAnswer(printable(answer["error"]))
        return answer

    def kill_alone(self) -> None:
        """Kill the process, and nobody else of its family."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self._said = self._besides = b""
        process = subprocess.Popen(
            self._command,
            cwd="/",
            env={**os.environ, **self._variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._process = process
        self._selector = selectors.DefaultSelector()
        for stream in (process.stdout, process.stderr):
            self._selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
        return process

    def _exchange(self, process: subprocess.Popen[bytes], question: str, limit_s: float) -> bytes:
        """Say a line, and hear one."""
        with suppress(BrokenPipeError):  # it is gone: reading tells how
            os.write(process.stdin.fileno(), question.encode() + b"\n")  # type: ignore[union-attr]
        until = time.monotonic() + limit_s
        while b"\n" not in self._said:
            if time.monotonic() >= until:
                self._end()
                raise NoAnswer(f"no answer within {limit_s:g} s")
            if not self._hear(process, until - time.monotonic()):
                raise NoAnswer(self._last_words(process))
        line, self._said = self._said.split(b"\n", 1)
        return line

    def _hear(self, process: subprocess.Popen[bytes], wait_s: float) -> bool:
        """Take in what there is, waiting for the first of it; False: it will say no more."""
        assert self._selector is not None
        for key, _ in self._selector.select(max(0.0, wait_s)):
            data = os.read(key.fd, CHUNK)
            if key.fileobj is process.stdout:
                self._said += data
                if not data:
                    return False
            elif data:
                self._besides = (self._besides + data)[-LONGEST_TAIL:]
            else:
                self._selector.unregister(key.fileobj)
        return True

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        """How it ended, or what it said last of all."""
        assert self._selector is not None
        self._selector.unregister(process.stdout)  # type: ignore[arg-type]
        until = time.monotonic() + LEAVE_S
        while self._selector.get_map() and time.monotonic() < until:  # until stderr is at its end
            self._hear(process, until - time.monotonic())
        with suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE_S)
        code, words = process.poll(), self._besides.decode("utf-8", "replace").strip().splitlines()
        self._end()
        return printable(words[-1].strip()) if words and code is not None and code > 0 else ending(code)

    def _end(self, leave_s: float = 0.0) -> None:
        """End it and its family: it may leave by itself for so long, then all that is left is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()  # type: ignore[union-attr]
        if self._selector is not None:
            self._selector.close()
        if leave_s:
            with suppress(subprocess.TimeoutExpired):
                process.wait(leave_s)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
