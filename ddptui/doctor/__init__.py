"""`ddptui doctor`: every precondition of a run, checked by doing it; each with what mends it."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from ddptui.doctor import engines, folders, gpus, machine, processes, torch
from ddptui.doctor.finding import Finding, lines, with_known_cause
from ddptui.text.printable import first_line

Check = Callable[[], Iterable[Finding]]
Groups = dict[str, tuple[tuple[str, Check], ...]]

REPORT = "a mistake in this check: please report this line"
INTERRUPTED = 130


def groups(runs: str | None) -> Groups:
    """All checks under their headings; `runs`: where runs are to be kept (none: as always)."""
    return {
        "This machine": (
            ("python", machine.machine),
            ("driver", gpus.told_by_nvml),
            ("compiler", machine.compiler),
            ("interfaces", machine.interfaces),
            ("open files", machine.open_files),
            ("processes", machine.processes),
            ("time of day", machine.wall_clock),
        ),
        "Folders": (
            ("runs", partial(folders.runs, runs)),
            ("data", folders.data),
            ("/dev/shm", folders.shared_memory),
        ),
        "Processes": (
            ("sockets", folders.sockets),
            ("clock", processes.clock),
            ("scheduler", processes.scheduler),
            ("orphans", processes.orphans),
        ),
        "Elsewhere": (("join", engines.join), ("slurm", engines.slurm), ("slow links", engines.slow_links)),
        "torch, and ranks that meet (takes some seconds)": (("torch", torch.torch),),
    }


def examine(runs: str | None = None) -> int:
    """Print all findings as they come; returns 1 if something stands in the way of a run."""
    fatal = False
    with _ended_in_order():
        for heading, checks in groups(runs).items():
            print(heading, flush=True)
            for finding in findings(checks):
                fatal |= finding.fatal
                print(*lines(finding), sep="\n", flush=True)
    return 1 if fatal else 0


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Whoever ends it politely finds nothing left behind."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    sys.exit(INTERRUPTED)


def findings(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """What the checks find; one that fails itself is a finding, too."""
    for what, check in checks:
        try:
            yield from map(with_known_cause, check())
        except Exception as error:
            yield with_known_cause(Finding(what, f"cannot be checked: {first_line(error)}", REPORT))
