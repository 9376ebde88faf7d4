"""The processes below this one, found without a look at all the others: every test asks for them at its end."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

LISTED = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()  # by Linux, as most are built


def descendants() -> list[psutil.Process]:
    if not LISTED:
        return psutil.Process().children(recursive=True)
    found = []
    for pid in _below(os.getpid()):
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found


def _below(pid: int) -> Iterator[int]:
    with suppress(FileNotFoundError, ProcessLookupError):  # the process, or one of its threads, has just ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield child
                yield from _below(child)
