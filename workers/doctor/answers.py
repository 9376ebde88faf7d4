"""Answers questions of `ddptui doctor` and `ddptui verify`: for each input line, the process prints a line of JSON."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from workers.rank import guard

Question = Callable[[], dict[str, Any]]


def by_name(*questions: Question) -> Callable[[str], dict[str, Any]]:
    """A function that calls one of these functions by its name and returns the result."""
    named = {question.__name__: question for question in questions}
    return lambda name: named[name]()


def answer(reply: Callable[[str], dict[str, Any]]) -> None:
    """Answer each line until the input ends. If `reply` raises, the answer is {"error": one line}."""
    guard.die_with_parent()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # else torch's and NCCL's output would mix with the answers
    for line in sys.stdin:
        try:
            content = reply(line.strip())
        except Exception as error:
            content = {"error": last_line(error)}
        print(json.dumps(content), file=answers, flush=True)


def last_line(error: Exception) -> str:
    """An error as one line. If it quotes a rank's traceback, the last line of the traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if "Traceback" in str(error):
        return lines[-1].strip()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
