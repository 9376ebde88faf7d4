"""A process that answers the questions of `ddptui doctor` and `verify`: a line comes in, a line of JSON goes out."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from workers.rank import guard

Question = Callable[[], dict[str, Any]]


def by_name(*questions: Question) -> Callable[[str], dict[str, Any]]:
    """What answers a question that is the name of one of these functions."""
    named = {question.__name__: question for question in questions}
    return lambda name: named[name]()


def answer(reply: Callable[[str], dict[str, Any]]) -> None:
    """Answer until the input ends. The answer of a question that fails is {"error": one line}."""
    guard.die_with_parent()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the output of torch and NCCL is no answer
    for line in sys.stdin:
        try:
            content = reply(line.strip())
        except Exception as error:
            content = {"error": last_line(error)}
        print(json.dumps(content), file=answers, flush=True)


def last_line(error: Exception) -> str:
    """An error in one line. If it quotes a rank's traceback, the last line of that."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if "Traceback" in str(error):
        return lines[-1].strip()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
