"""`ddptui doctor`: checks each precondition of a run by trying it, and names a remedy for what is missing."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ddptui.doctor import machine, processes
from ddptui.doctor.machine import CheckResult, lines, with_known_cause
from ddptui.text.words import first_line

Look = Callable[[], Iterable[CheckResult]]
Groups = dict[str, tuple[tuple[str, Look], ...]]

LINKS_WORK = 'ranks can have simulated slow links: at = "link"'
REPORT = "this is a bug in the check: please report this line"


def groups(runs: str | None) -> Groups:
    """All checks, keyed by heading. runs: the value of --runs."""
    return {
        "This machine": (
            ("python", machine.machine),
            ("driver", machine.driver_and_gpus),
            ("compiler", partial(machine.need, "compiler", "C++ compiler found: compile = true works")),
            ("interfaces", machine.interfaces),
            ("open files", machine.open_files),
            ("processes", machine.processes),
        ),
        "Folders": (
            ("runs", partial(machine.check_runs, runs)),
            ("data", machine.check_data),
            ("/dev/shm", machine.shared_memory),
        ),
        "Processes": (
            ("sockets", machine.check_sockets),
            ("clock", processes.clock),
            ("scheduler", processes.scheduler),
            ("orphans", processes.orphans),
        ),
        "Elsewhere": (
            ("join", machine.join),
            ("slurm", machine.slurm),
            ("slow links", partial(machine.need, "slow links", LINKS_WORK)),
        ),
        "torch, and ranks that connect (takes some seconds)": (("torch", processes.torch),),
    }


def examine(runs: str | None = None) -> int:
    """Run all checks and print each finding at once. Returns the exit code: 1 if a finding is fatal."""
    fatal = False
    for heading, checks in groups(runs).items():
        print(heading, flush=True)
        for finding in findings(checks):
            fatal |= finding.fatal
            print(*lines(finding), sep="\n", flush=True)
    return 1 if fatal else 0


def findings(checks: Iterable[tuple[str, Look]]) -> Iterator[CheckResult]:
    """Yields the findings of the checks. A check that raises an exception yields a finding, too."""
    for name, look in checks:
        try:
            yield from map(with_known_cause, look())
        except Exception as error:
            yield with_known_cause(CheckResult(name, f"cannot be checked: {first_line(error)}", REPORT))
