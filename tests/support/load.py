"""Other programs that keep cores busy."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil

BUSY = "print(flush=True)\nwhile True: pass"


@contextmanager
def busy_processes(number: int) -> Iterator[list[psutil.Process]]:
    """So many processes that each want a core; all of them are at work."""
    with ExitStack() as stack:
        started = []
        for _ in range(number):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE))
            stack.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        yield [psutil.Process(process.pid) for process in started]
