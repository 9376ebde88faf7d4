"""Why a launch failed, in one line and the log's end: which rank went first, and how. Pure."""

import re
from collections.abc import Mapping, Sequence

from ddptui.config.trial import Trial
from ddptui.diagnosis.known_errors import known_error
from ddptui.diagnosis.memory import RAN_OUT, memory_remedy
from ddptui.text.printable import ending, printable
from ddptui.wire.messages import Failed

LAST_LINES = 8
LINES_SEARCHED = 60  # of the log of a rank that said nothing: a C++ trace stands below what went wrong
WIDEST_LINE = 300
# What a rank says whose peer is gone: it is a victim, not the cause.
PEER_IS_GONE = re.compile(
    r"(closed|reset) by (remote )?peer|peer closed|Broken pipe|Socket closed|Timed out waiting \d+ms for|"
    r"ncclRemoteError|remote process exited|communicator was aborted|"
    r"Watchdog caught collective operation timeout|NCCL operation timed out",
    re.IGNORECASE,
)
# What the launchers say of the first rank to fail: ours, then torchrun's.
OUR_LAUNCHERS = re.compile(r"^rank (\d+) ended with exit code (-?\d+)", re.MULTILINE)
TORCHRUN = re.compile(r"Root Cause.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL)
# What says that memory ran out: Python, torch on the CPU.
OUT_OF_MEMORY = re.compile(r"MemoryError|can't allocate memory|out of memory\b(?!-)", re.IGNORECASE)
# What stands in the log alone, where the error only says that NCCL, or a DataLoader's worker, has failed.
IN_THE_LOG = re.compile(r"^.*(?:NCCL WARN|Unexpected bus error|is killed by signal).*$", re.MULTILINE)
# What a rank may say, and yet did not end of.
WARNING = re.compile(r"^.*Warning:.*$", re.MULTILINE)
PUT_IN = re.compile(r"^fault, step \d+: (?:kill|exit|abort)$", re.MULTILINE)
# What Python's helpers say after a rank that was killed: one that cleans up, and one that had handed something over.
AFTERWARDS = re.compile(
    r"^.*UserWarning: resource_tracker: .*\n?(?:^ +warnings\.warn\(.*\n?)?|"
    r"^Traceback .*\n(?:^ .*\n)*^ .*resource_sharer\.py\S+ line \d+, in _serve\n(?:^ .*\n)*^\S.*\n?",
    re.MULTILINE,
)


def explain_failure(
    *,
    trial: Trial,
    exit_code: int | None,
    launcher_log: str,
    rank_logs: Mapping[int, str],
    failed: Sequence[Failed],
    silent: Sequence[int],
    missing: Sequence[int],
    memory_was_short: bool = False,
    one_process: bool = False,
) -> str:
    """The failure of a launch.

    trial             what was launched: remedies are named that it can take
    exit_code         the launcher's; None: it had to be stopped
    failed            last words of ranks; silent: ranks that died without any; missing: ranks that never said Hello
    memory_was_short  the kernel has killed somebody for want of memory meanwhile
    one_process       there is no launcher: the process that was started is rank 0, and whatever other ranks there are
    """
    if one_process and not failed:
        log = rank_logs.get(0, "") or launcher_log
        return with_log(f"rank 0 {_unreported_end(trial, exit_code, log, memory_was_short)}", log)
    if exit_code is not None and exit_code < 0 and not failed:
        return with_log(f"the launcher was {ending(exit_code)}", launcher_log)
    rank, how = _first_failure(launcher_log, failed, silent)
    if rank is None:
        who = f"rank {missing[0]} never started" if missing else "the ranks ended without a result"
        launcher = "waited in vain" if exit_code is None and missing else ending(exit_code)
        return with_log(f"{who}: the launcher {launcher}", launcher_log)
    own_words = [words.error for words in failed if words.rank == rank]
    log = rank_logs.get(rank, "")
    why = (
        _reported_error(trial, own_words[0], log)
        if own_words
        else f" {_unreported_end(trial, how, log, memory_was_short)}"
    )
    return with_log(f"rank {rank}{why}", log or launcher_log)


def _reported_error(trial: Trial, words: str, log: str) -> str:
    """What follows a rank's name: its own words, or what they mean where that is known."""
    besides = IN_THE_LOG.findall(log) if "NCCL" in words or "DataLoader worker" in words else []
    if known := known_error("\n".join([words, *besides]), trial):
        return f" {known}" if known.startswith(RAN_OUT) else f": {known}"  # of which it is the subject, or is not
    return f" {words}; {memory_remedy(trial)}" if OUT_OF_MEMORY.search(words) else f" {words}"


def _unreported_end(trial: Trial, exit_code: int | None, log: str, memory_was_short: bool) -> str:
    """How a rank ended that said nothing, and why, as far as its log or the kernel tells."""
    how = ending(exit_code)
    if exit_code == 0 or PUT_IN.search(log):
        return how
    if memory_was_short and how.endswith(("SIGKILL", "without a word")):
        return f"{how}: the kernel killed it, since memory ran out; {memory_remedy(trial)}"
    known = known_error("\n".join(WARNING.sub("", log).splitlines()[-LINES_SEARCHED:]), trial)
    return f"{how}: {known}" if known else how


def _first_failure(launcher_log: str, failed: Sequence[Failed], silent: Sequence[int]) -> tuple[int | None, int | None]:
    """The rank that failed first and its exit code: the launcher has seen it; else what the ranks said tells."""
    causes = [words for words in failed if not PEER_IS_GONE.search(words.error)]
    victims = {words.rank for words in failed} - {words.rank for words in causes}
    seen = _launcher_report(launcher_log)
    if seen is not None and not (causes and seen[0] in victims):  # a cause may take longer to end: NCCL tidies up
        return seen
    if causes:
        return min(causes, key=lambda words: words.at_ns).rank, None
    if silent:
        return silent[0], None
    return (min(failed, key=lambda words: words.at_ns).rank, None) if failed else (None, None)


def _launcher_report(launcher_log: str) -> tuple[int, int] | None:
    """The rank that the launcher saw end first, and its exit code."""
    found = OUR_LAUNCHERS.search(launcher_log) or TORCHRUN.search(launcher_log)
    return (int(found[1]), int(found[2])) if found else None


def with_log(headline: str, log: str) -> str:
    """The headline, and under it the last lines of a log that are the rank's, made safe for a terminal."""
    lines = [printable(line)[:WIDEST_LINE].rstrip() for line in AFTERWARDS.sub("", log).splitlines()]
    return "\n".join([*map(printable, headline.splitlines()), *[line for line in lines if line][-LAST_LINES:]])
