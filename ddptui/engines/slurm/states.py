"""What squeue, sacct and scontrol print of a job, read and put in words; and which task of srun failed first."""

import re
import signal
from collections.abc import Sequence
from typing import NamedTuple

from ddptui.text.words import ending

QUEUE_FORMAT = "%i|%T|%r|%N"  # of squeue; sacct has no reason, but the exit code, and who cancelled the job
HISTORY_FIELDS = "JobID,State,ExitCode,NodeList"
NOT_BEGUN = ("PENDING", "CONFIGURING")
UNDER_WAY = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
REQUEUED = ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
COMPLETED, CANCELLED, FAILED, RUNNING, LOST = "COMPLETED", "CANCELLED", "FAILED", "RUNNING", "LOST"
SIGNAL_OFFSET = 128  # a shell's exit code for a command that a signal has ended
NEVER_STARTS = {  # reasons for which a pending job never starts, and what to do
    "PartitionNodeLimit": "the partition allows no job so many nodes: fewer --nodes, or another --partition",
    "PartitionConfig": "the partition does not have what it requests: change --nodes, --time or --partition",
    "PartitionTimeLimit": "the partition allows no job so much time: a shorter --time, or another --partition",
    "BadConstraints": "no node has what it requests: change --gres or --sbatch",
    "InvalidAccount": "the account is not valid here: another --account",
    "InvalidQOS": "there is no such quality of service: change --sbatch",
    "DependencyNeverSatisfied": "the job that it depends on has failed: change --sbatch",
}
REASONS = {
    "Resources": "the nodes are busy",
    "Priority": "jobs of higher priority come first",
    "JobHeldUser": "the job is held: `scontrol release` releases it",
    "JobHeldAdmin": "an administrator holds the job",
    "ReqNodeNotAvail": "a requested node is not available",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "BeginTime": "its start time has not come",
}
ENDINGS = {
    "TIMEOUT": "reached its time limit: raise it with --time",
    "OUT_OF_MEMORY": "exceeded the memory that it requested: request more, as with --sbatch=--mem=8G",
    "NODE_FAIL": "was ended because a node failed",
    "PREEMPTED": "was preempted by another job",
    "BOOT_FAIL": "was given a node that failed to boot",
    "DEADLINE": "missed its deadline",
    "REVOKED": "was taken over by another cluster",
    LOST: "is no longer known to Slurm, and left no exit code",
}
USUAL_REASONS = ("None", "NonZeroExitCode", "")


class TaskGroup(NamedTuple):
    """A job, or one job of an array. exit: Slurm's CODE:SIGNAL, or empty."""

    id: str
    state: str
    reason: str = ""
    nodes: str = ""
    exit: str = ""
    by: str = ""  # the user who cancelled it: an id, or a name


class JobStatus(NamedTuple):
    """The state of a whole job.

    is_waiting  some of it has not begun
    text        the state in words
    exit_code   None while it is not over
    why         why it is over, where the ranks cannot know
    """

    is_waiting: bool
    text: str
    exit_code: int | None = None
    why: str | None = None
    was_cancelled: bool = False


SUBMITTED = JobStatus(True, "")  # before the first look at the queue


def read_queue(printed: str) -> list[TaskGroup]:
    """Reads the output of `squeue --array --format=QUEUE_FORMAT`."""
    rows = [line.strip().split("|") for line in printed.splitlines()]
    return [TaskGroup(*row) for row in rows if len(row) == 4]


def read_history(printed: str) -> list[TaskGroup]:
    """Reads the output of `sacct --parsable2 --format=HISTORY_FIELDS`, without the steps of a job."""
    rows = [line.strip().split("|") for line in printed.splitlines()]
    jobs = [row for row in rows if len(row) == 4 and "." not in row[0]]
    return [
        TaskGroup(job, state.split(" ")[0], "", nodes, exit, state.partition(" by ")[2])
        for job, state, exit, nodes in jobs
    ]


def read_details(printed: str) -> list[TaskGroup]:
    """Reads the output of `scontrol --oneliner show job`."""
    return [_part(line) for line in printed.splitlines() if "JobState=" in line]


def _part(line: str) -> TaskGroup:
    fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line))
    job = fields.get("JobId", "")
    if "ArrayJobId" in fields and "ArrayTaskId" in fields:
        job = f"{fields['ArrayJobId']}_{fields['ArrayTaskId']}"
    reason, nodes, exit = (fields.get(name, "") for name in ("Reason", "NodeList", "ExitCode"))
    return TaskGroup(job, fields["JobState"], reason, "" if nodes == "(null)" else nodes, exit)


def is_over(part: TaskGroup) -> bool:
    """Whether it has ended, well or not."""
    return part.state not in NOT_BEGUN and part.state not in UNDER_WAY and part.state not in REQUEUED


def job_status(parts: Sequence[TaskGroup], *, had_begun: bool = False) -> JobStatus:
    """The state of a job, from its parts. had_begun: it was running at the last look, so it must not wait again."""
    failed = next((part for part in parts if is_over(part) and part.state != COMPLETED), None)
    if failed is not None:
        return _failed(failed)
    back = next((part for part in parts if part.state in REQUEUED or (had_begun and part.state in NOT_BEGUN)), None)
    if back is not None:
        why = f"job {back.id} was requeued{_because(back.reason)}; its ranks would have to start again"
        return JobStatus(False, why, 1, why)
    if parts and all(part.state == COMPLETED for part in parts):
        return JobStatus(False, f"{_named(parts)} has completed", 0)
    waiting = [part for part in parts if part.state in NOT_BEGUN]
    if never := next((part for part in waiting if part.reason in NEVER_STARTS), None):
        why = f"job {never.id} can never start ({never.reason}): {NEVER_STARTS[never.reason]}"
        return JobStatus(True, why, 1, why)
    return JobStatus(bool(waiting), _in_words(parts, waiting))


def _failed(part: TaskGroup) -> JobStatus:
    """Without a reason of Slurm's, why stays None: the ranks and the log know more."""
    code = exit_code(part)
    if part.state == FAILED and part.reason in USUAL_REASONS:
        return JobStatus(False, f"job {part.id} has failed", code)
    return JobStatus(False, why := _why(part), code, why, part.state == CANCELLED)


def _why(part: TaskGroup) -> str:
    on = f" on {part.nodes}" if part.nodes else ""
    if part.state == CANCELLED:
        return f"job {part.id} was cancelled {f'by {part.by}' if part.by else 'outside this console'}"
    if part.state == FAILED and part.reason == "JobLaunchFailure":
        return f"job {part.id} could not be started{on}: the nodes may not see the run's folder; --runs names another"
    if part.state in ENDINGS:
        return f"job {part.id} {ENDINGS[part.state]}{f': {part.nodes}' if part.state == 'NODE_FAIL' else ''}"
    return f"job {part.id} has ended: {part.state}{_because(part.reason)}"


def exit_code(part: TaskGroup) -> int:
    """The exit code of a part that failed: negative for a signal, and never 0."""
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
    runs = f"{len(begun)} of {len(parts)} have started, " if begun else ""
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
    words = next((words for name, words in REASONS.items() if reason.lstrip("(").startswith(name)), "")
    return f"{sign}{reason}{f' ({words})' if words else ''}"


# srun: error: n1: task 0: Killed; n1: tasks 0,2-3: Exited with exit code 7; n2: task 1: Aborted (core dumped)
OF_TASKS = re.compile(r"^srun: error: \S+: tasks? (\d+)[\d,-]*: (.+?)(?: \(core dumped\))?$", re.MULTILINE)
EXITED = "Exited with exit code "
SIGNALS = {signal.strsignal(number): number for number in signal.valid_signals()}


def first_failed_rank(log: str) -> str | None:
    """Which rank ended first and how, as srun reports it in the log; None where the rank has said so itself.

    A rank with exit code 1 has printed its exception. SIGTERM comes from Slurm, after another rank's failure.
    """
    if (match := OF_TASKS.search(log)) is None:
        return None
    code = _exit_code(match[2])
    return None if code in (None, 1, -signal.SIGTERM) else f"rank {match[1]} {ending(code)}"


def _exit_code(how: str) -> int | None:
    if how.startswith(EXITED) and (code := how.removeprefix(EXITED)).isdecimal():
        return int(code)
    return -SIGNALS[how] if how in SIGNALS else None
