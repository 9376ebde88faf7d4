"""Explains why a launch failed: which rank failed first, how, and the end of its log. Pure."""

import re
import signal
from collections.abc import Mapping, Sequence

from ddptui.config.trial import Trial, own_codes
from ddptui.diagnosis.known_errors import is_consequence, known_error
from ddptui.diagnosis.memory import RAN_OUT, memory_remedy
from ddptui.diagnosis.positions import line_of, named, verb, where_in
from ddptui.text.words import ending, printable
from ddptui.wire.messages import Failed
from ddptui.wire.records import Failure

LAST_LINES = 8  # lines of a log shown below the headline: the end of a traceback
LINES_SEARCHED = 60  # lines at the end of a log searched for a known error, which a C++ stack trace may follow
WIDEST_LINE = 300
GAVE_UP, LINES_BEFORE = "terminate called", 2  # the first words of native code that gives up, and lines shown before
FRAMES = 4  # of the thread that crashed
# How launchers report the first rank that failed: ddptui's own launchers, then torchrun.
OUR_LAUNCHERS = re.compile(r"^rank (\d+) ended with exit code (-?\d+)", re.MULTILINE)
TORCHRUN = re.compile(r"Root Cause.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL)
# How Python and torch report that host memory ran out.
OUT_OF_MEMORY = re.compile(r"MemoryError|can't allocate memory|out of memory\b(?!-)", re.IGNORECASE)
# Causes that only the log names: the error itself just says that NCCL or a DataLoader worker failed.
IN_THE_LOG = re.compile(r"^.*(?:NCCL WARN|Unexpected bus error|is killed by signal).*$", re.MULTILINE)
# Warnings are ignored, because they do not end a rank.
WARNING = re.compile(r"^.*Warning:.*$", re.MULTILINE)
INJECTED_FAULT = re.compile(r"^fault, step \d+: (?:kill|exit|abort)$", re.MULTILINE)
LEFT_LOOP = re.compile(r"^rank \d+  left the training loop$", re.MULTILINE)
OTHER_SIZE = "op.preamble.length <= op.nbytes"  # gloo's words
# Output of Python's helper processes (resource tracker and resource sharer) after a rank was killed.
AFTERWARDS = re.compile(
    r"^.*UserWarning: resource_tracker: .*\n?(?:^ +warnings\.warn\(.*\n?)?|"
    r"^Traceback .*\n(?:^ .*\n)*^ .*resource_sharer\.py\S+ line \d+, in _serve\n(?:^ .*\n)*^\S.*\n?",
    re.MULTILINE,
)


def explain_failure(
    *,
    trial: Trial,  # the launched trial: remedies depend on it
    exit_code: int | None,  # exit code of the launcher; None: ddptui had to stop it
    launcher_log: str,
    rank_logs: Mapping[int, str],  # keyed by rank; logs on other hosts may be missing
    failed: Sequence[Failed],  # errors that ranks sent
    silent: Sequence[int],  # ranks that died without sending an error
    missing: Sequence[int],  # ranks that never connected
    memory_was_short: bool = False,  # during the launch, the kernel killed a process because memory ran out
    one_process: bool = False,  # there is no launcher: the started process is rank 0, and contains all other ranks
) -> Failure:
    """Why the launch failed, with the last lines of the most informative log."""
    if one_process and not failed:
        log = rank_logs.get(0, "") or launcher_log
        return failure_of(f"rank 0 {_unreported_end(trial, exit_code, log, memory_was_short)}", log, rank=0)
    if exit_code is not None and exit_code < 0 and not failed:
        return failure_of(f"the launcher {ending(exit_code)}", launcher_log)
    rank, how = _first_failure(launcher_log, failed, silent)
    if rank is None:
        who = f"rank {missing[0]} never connected" if missing else "the ranks ended without a result"
        launcher = "was stopped" if exit_code is None and missing else ending(exit_code)
        suspect = missing[0] if len(missing) == 1 else None
        return failure_of(f"{who}; the launcher {launcher}", launcher_log, rank=suspect)
    errors = [message for message in failed if message.rank == rank]
    log = rank_logs.get(rank, "")
    why = _reported_error(trial, errors[0], log) if errors else f" {_unreported_end(trial, how, log, memory_was_short)}"
    suspect = None if errors and is_consequence(errors[0].error) else rank
    if left := _left_before(rank, how, rank_logs):
        headline = f"{named(left)} {verb(left, 'has left its training loop')}, and rank {rank} has not: it{why}"
        return failure_of(headline, log, rank=left[0] if len(left) == 1 else None)
    place = line_of(errors[0].stack) if errors else ""
    return failure_of(f"rank {rank}{why}", log or launcher_log, rank=suspect, place=place)


def _left_before(rank: int, exit_code: int | None, rank_logs: Mapping[int, str]) -> list[int]:
    """The ranks that had left their training loop when gloo received another size than it expected in this rank's, and
    ended it; empty if it ended otherwise."""
    met_another = exit_code == -signal.SIGABRT and OTHER_SIZE in rank_logs.get(rank, "")
    left = [other for other, log in rank_logs.items() if LEFT_LOOP.search(log)]
    return left if met_another and rank not in left else []


def explain_end(why: str, trial: Trial, launcher_log: str, memory_was_short: bool) -> Failure:
    """Like `explain_failure`, for a launch whose end the engine can explain itself, e.g. because a node was lost. why:
    the engine's explanation."""
    is_killed = memory_was_short and ending(-signal.SIGKILL) in why
    return failure_of(f"{why}: {_killed_for_memory(trial)}" if is_killed else why, launcher_log)


def failure_of(headline: str, log: str = "", *, rank: int | None = None, name: str = "", place: str = "") -> Failure:
    """A failure with a headline, which may have several lines, and the last lines of a log. name: as in `with_log`."""
    summary, *details = with_log(headline, log, name=name).splitlines()
    return Failure(summary=summary, rank=rank, place=place, details=tuple(details))


def _killed_for_memory(trial: Trial) -> str:
    return f"the kernel killed it because memory ran out; {memory_remedy(trial)}"


def _reported_error(trial: Trial, failed: Failed, log: str) -> str:
    """The text to put after a rank's name: the error that the rank sent, with the line of the user's own code, or its
    explanation if the error is known."""
    error, where = failed.error, where_in(failed.stack)
    causes = IN_THE_LOG.findall(log) if "NCCL" in error or "DataLoader worker" in error else []
    if known := known_error("\n".join([error, *causes]), trial):
        if known.startswith(RAN_OUT):
            return f" {known}"  # "rank 1 ran out …", "rank 1: NCCL failed"
        return f"{f' failed {where}' * bool(where)}: {known}"
    remedy = f"; {memory_remedy(trial)}" if OUT_OF_MEMORY.search(error) else ""
    return f" failed{f' {where}' * bool(where)}: {error}{remedy}"


def _unreported_end(trial: Trial, exit_code: int | None, log: str, memory_was_short: bool) -> str:
    """How a rank ended that sent no error, and why, as far as its log or the kernel shows."""
    how = ending(exit_code) + _own_line(trial, log)
    # An injected fault is the cause even if the kernel also killed a process.
    if exit_code == 0 or INJECTED_FAULT.search(log):
        return how
    if memory_was_short and exit_code in (None, -signal.SIGKILL):
        return f"{how}: {_killed_for_memory(trial)}"
    lines = _without_dump(WARNING.sub("", log)).splitlines()
    known = known_error("\n".join(lines[-LINES_SEARCHED:]), trial)
    return f"{how}: {known}" if known else how


def _own_line(trial: Trial, log: str) -> str:
    """As in " in average, mine.py:8": where the user's own code was, by the log of a rank that crashed. Else empty."""
    for own in own_codes(trial).values():
        if found := re.search(rf'File "{re.escape(own.source)}", line (\d+) in (\w+)', log):
            return f" in {found[2]}, {own.source.rpartition('/')[2]}:{found[1]}"
    return ""


def _first_failure(launcher_log: str, failed: Sequence[Failed], silent: Sequence[int]) -> tuple[int | None, int | None]:
    """The rank that failed first, and its exit code (None: not known): from the launcher's report if there is one, else
    from the errors."""
    causes = [message for message in failed if not is_consequence(message.error)]
    victims = {message.rank for message in failed} - {message.rank for message in causes}
    report = OUR_LAUNCHERS.search(launcher_log) or TORCHRUN.search(launcher_log)
    # A victim may exit before the rank that caused the failure, which shuts down NCCL first.
    if report and not (causes and int(report[1]) in victims):
        return int(report[1]), int(report[2])
    if causes:
        return min(causes, key=lambda message: message.at_ns).rank, None
    if silent:
        return silent[0], None
    return (min(failed, key=lambda message: message.at_ns).rank, None) if failed else (None, None)


def with_log(headline: str, log: str, *, name: str = "") -> str:
    """The headline, followed by the last lines of a log, both made safe for a terminal. Output of Python's helper
    processes is left out, and what follows the words of native code that gave up. name: the name of the log, if the
    headline does not make it clear."""
    log = _without_dump(AFTERWARDS.sub("", log))
    lines = [line for line in (printable(line)[:WIDEST_LINE].rstrip() for line in log.splitlines()) if line]
    first = max(0, len(lines) - LAST_LINES)
    if gave_up := [number for number, line in enumerate(lines) if line.startswith(GAVE_UP)]:
        first = max(0, min(first, gave_up[-1] - LINES_BEFORE))
    last = lines[first : first + LAST_LINES]
    named = [f"the end of {name}:"] if name and last else []
    return "\n".join([*map(printable, headline.splitlines()), *named, *last])


def _without_dump(log: str) -> str:
    """The log with a dump of faulthandler cut down to the innermost lines of the thread that crashed."""
    before, fatal, dump = log.partition("Fatal Python error: ")
    what, _, threads = dump.partition("\n")
    crashed = re.search(rf"^Current thread .*(?:\n  File .*){{1,{FRAMES}}}", threads, re.MULTILINE)
    return f"{before}{fatal}{what}\n{crashed[0] if crashed else ''}" if fatal else log
