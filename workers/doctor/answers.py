"""A process that answers questions: one a line comes in, one line of JSON goes out. `ddptui doctor` asks this way."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from workers.rank import guard

Question = Callable[[], dict[str, Any]]


def answer(questions: Mapping[str, Question]) -> None:
    """Answer until there is no more to be asked. What fails is answered, too: {"error": one line}."""
    guard.die_with_parent()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever torch and NCCL print is no answer
    for line in sys.stdin:
        print(json.dumps(_one(questions[line.strip()])), file=answers, flush=True)


def _one(question: Question) -> dict[str, Any]:
    try:
        return question()
    except Exception as error:
        return {"error": last_line(error)}


def last_line(error: Exception) -> str:
    """What went wrong, in one line: of an error that quotes a rank's traceback, the rank's own words."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if "Traceback" in str(error):
        return lines[-1].strip()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
