"""The states of a Slurm job in words, and which task of srun failed first."""

import re
import signal
from collections.abc import Sequence
from typing import NamedTuple

from ddptui.text.printable import ending

QUEUE_FORMAT = "%i|%T|%r|%N"  # of squeue; sacct has no reason, but says who cancelled a job, and the exit code
HISTORY_FIELDS = "JobID,State,ExitCode,NodeList"
NOT_BEGUN = ("PENDING", "CONFIGURING")
UNDER_WAY = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
PUT_BACK = ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
COMPLETED, CANCELLED, FAILED, RUNNING, LOST = "COMPLETED", "CANCELLED", "FAILED", "RUNNING", "LOST"
SIGNAL_OFFSET = 128  # a shell's exit code for a command that a signal has ended
NEVER = {  # reasons for which a job would wait for ever, and what to do
    "PartitionNodeLimit": "the partition gives no job so many nodes: --nodes, or another --partition",
    "PartitionConfig": "the partition cannot give what it asks for: --nodes, --time, or another --partition",
    "PartitionTimeLimit": "the partition gives no job so much time: --time, or another --partition",
    "BadConstraints": "no node has what it asks for: see --gres and --sbatch",
    "InvalidAccount": "the account may not be charged here: --account",
    "InvalidQOS": "there is no such quality of service: see --sbatch",
    "DependencyNeverSatisfied": "what it depends on has failed: see --sbatch",
}
IN_WORDS = {
    "Resources": "the nodes are busy",
    "Priority": "others come first",
    "JobHeldUser": "it is held: `scontrol release` lets it go",
    "JobHeldAdmin": "an administrator holds it",
    "ReqNodeNotAvail": "a node that it wants is not available",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "BeginTime": "its time has not come",
}
OVER = {
    "TIMEOUT": "ran out of the time that it had asked for: give it more with --time",
    "OUT_OF_MEMORY": "took more memory than it had asked for: ask for more, as with --sbatch=--mem=8G",
    "NODE_FAIL": "lost a node",
    "PREEMPTED": "had to make room for another job",
    "BOOT_FAIL": "got a node that did not start",
    "DEADLINE": "could not end before its deadline",
    "REVOKED": "was taken over by another cluster",
    LOST: "is unknown to Slurm by now, and left no word of how it ended",
}
USUAL_REASONS = ("None", "NonZeroExitCode", "")


class TaskGroup(NamedTuple):
    """A job, or one of an array. exit: as Slurm has it, CODE:SIGNAL; empty where it is not said."""

    id: str
    state: str
    reason: str = ""
    nodes: str = ""
    exit: str = ""
    by: str = ""  # whom it was cancelled by: a number


class JobStatus(NamedTuple):
    """is_waiting: not all of it has begun; says: where it stands, in words; exit_code: None while it is not over; why
    it is over, where the ranks cannot know."""

    is_waiting: bool
    says: str
    exit_code: int | None = None
    why: str | None = None
    was_cancelled: bool = False


SUBMITTED = JobStatus(True, "")  # nobody has looked yet


def read_queue(printed: str) -> list[TaskGroup]:
    """squeue --array --format=QUEUE_FORMAT."""
    rows = [line.strip().split("|") for line in printed.splitlines()]
    return [TaskGroup(*row) for row in rows if len(row) == 4]


def read_history(printed: str) -> list[TaskGroup]:
    """sacct --parsable2 --format=HISTORY_FIELDS; a job's steps are left out."""
    rows = [line.strip().split("|") for line in printed.splitlines()]
    jobs = [row for row in rows if len(row) == 4 and "." not in row[0]]
    return [
        TaskGroup(job, state.split(" ")[0], "", nodes, exit, state.partition(" by ")[2])
        for job, state, exit, nodes in jobs
    ]


def read_details(printed: str) -> list[TaskGroup]:
    """scontrol --oneliner show job."""
    return [_part(line) for line in printed.splitlines() if "JobState=" in line]


def _part(line: str) -> TaskGroup:
    said = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line))
    job = said.get("JobId", "")
    if "ArrayJobId" in said and "ArrayTaskId" in said:
        job = f"{said['ArrayJobId']}_{said['ArrayTaskId']}"
    reason, nodes, exit = (said.get(name, "") for name in ("Reason", "NodeList", "ExitCode"))
    return TaskGroup(job, said["JobState"], reason, "" if nodes == "(null)" else nodes, exit)


def is_over(part: TaskGroup) -> bool:
    return part.state not in NOT_BEGUN and part.state not in UNDER_WAY and part.state not in PUT_BACK


def job_status(parts: Sequence[TaskGroup], *, had_begun: bool = False) -> JobStatus:
    """Where a job stands. had_begun: it was under way already, so that it must not be waiting again."""
    failed = next((part for part in parts if is_over(part) and part.state != COMPLETED), None)
    if failed is not None:
        return _failed(failed)
    back = next((part for part in parts if part.state in PUT_BACK or (had_begun and part.state in NOT_BEGUN)), None)
    if back is not None:
        why = f"job {back.id} was put back into the queue{_because(back.reason)}: what it had done is lost"
        return JobStatus(False, why, 1, why)
    if parts and all(part.state == COMPLETED for part in parts):
        return JobStatus(False, f"{_named(parts)} has ended well", 0)
    waiting = [part for part in parts if part.state in NOT_BEGUN]
    if never := next((part for part in waiting if part.reason in NEVER), None):
        why = f"job {never.id} would wait for ever ({never.reason}): {NEVER[never.reason]}"
        return JobStatus(True, why, 1, why)
    return JobStatus(bool(waiting), _in_words(parts, waiting))


def _failed(part: TaskGroup) -> JobStatus:
    """Of one whose exit code is all that Slurm knows, the ranks and the log say more."""
    code = exit_code(part)
    if part.state == FAILED and part.reason in USUAL_REASONS:
        return JobStatus(False, f"job {part.id} has failed", code)
    return JobStatus(False, why := _why(part), code, why, part.state == CANCELLED)


def _why(part: TaskGroup) -> str:
    on = f" on {part.nodes}" if part.nodes else ""
    if part.state == CANCELLED:
        return f"job {part.id} was cancelled{f' by {part.by}' if part.by else ', and not by this console'}"
    if part.state == FAILED and part.reason == "JobLaunchFailure":
        return f"job {part.id} could not be started{on}: do the nodes see the run's folder? --runs names another one"
    if part.state in OVER:
        return f"job {part.id} {OVER[part.state]}{on if part.state == 'NODE_FAIL' else ''}"
    return f"job {part.id} has ended: {part.state}{_because(part.reason)}"


def exit_code(part: TaskGroup) -> int:
    """Of one that went wrong: negative for a signal's number, and never 0."""
    code, _, number = part.exit.partition(":")
    if number.isdecimal() and int(number):
        return -int(number)
    if not code.isdecimal() or not int(code):
        return 1
    return int(code) if int(code) <= SIGNAL_OFFSET else SIGNAL_OFFSET - int(code)


def _in_words(parts: Sequence[TaskGroup], waiting: Sequence[TaskGroup]) -> str:
    begun = [part for part in parts if part not in waiting]
    if not waiting:
        return f"{_named(parts)} {_does(parts)}"
    where = "is being prepared" if waiting[0].state == "CONFIGURING" else "is queued"
    if len(parts) == 1:
        return f"{_named(parts)} {where}{_because(waiting[0].reason)}"
    runs = f"{len(begun)} of {len(parts)} have begun, " if begun else ""
    return f"{_named(parts)} {where}: {runs}{len(waiting)} wait{_because(waiting[0].reason, ' for: ')}"


def _does(parts: Sequence[TaskGroup]) -> str:
    state = next((part.state for part in parts if part.state != COMPLETED), RUNNING)
    nodes = ", ".join(dict.fromkeys(part.nodes for part in parts if part.nodes))
    return f"{'runs' if state == RUNNING else f'is {state.lower()}'}{f' on {nodes}' if nodes else ''}"


def _named(parts: Sequence[TaskGroup]) -> str:
    return f"job {parts[0].id.partition('_')[0]}" if parts else "the job"


def _because(reason: str, sign: str = ": ") -> str:
    if reason in ("", "None"):
        return ""
    words = next((words for name, words in IN_WORDS.items() if reason.lstrip("(").startswith(name)), "")
    return f"{sign}{reason}{f' ({words})' if words else ''}"


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
