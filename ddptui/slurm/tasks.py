"""What srun says in a job's log of the tasks that went wrong, where a task is a rank. Pure."""

import re
import signal

from ddptui.failure import ending

# srun: error: n1: task 0: Killed; n1: tasks 0,2-3: Exited with exit code 7; n2: task 1: Aborted (core dumped)
OF_TASKS = re.compile(r"^srun: error: \S+: tasks? (\d+)[\d,-]*: (.+?)(?: \(core dumped\))?$", re.MULTILINE)
EXITED = "Exited with exit code "
SIGNALS = {signal.strsignal(number): number for number in signal.valid_signals()}


def first_to_go(log: str) -> str | None:
    """Which rank went first and how, in words, where it cannot have said so itself. What ends with exit code 1 has said
    why, as Python's exceptions do; and what was terminated, was so by Slurm, because of another rank, or to end it."""
    if (found := OF_TASKS.search(log)) is None:
        return None
    code = _exit_code(found[2])
    return None if code in (None, 1, -signal.SIGTERM) else f"rank {found[1]} {ending(code)}"


def _exit_code(how: str) -> int | None:
    if how.startswith(EXITED) and (code := how.removeprefix(EXITED)).isdecimal():
        return int(code)
    return -SIGNALS[how] if how in SIGNALS else None
