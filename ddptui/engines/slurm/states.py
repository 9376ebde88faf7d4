"""What squeue, sacct and scontrol print of a job, read and put in words; and which task of srun failed first."""

import re
import signal
from collections.abc import Sequence
from typing import NamedTuple

from ddptui.text.words import ending

QUEUE_FORMAT = "%i|%T|%r|%N"  # of squeue; sacct has no reason, but the exit code, and who cancelled the job
HISTORY_FIELDS = "JobID,State,ExitCode,NodeList"
NOT_BEGUN = ("PENDING", "CONFIGURING")  # CONFIGURING: it has nodes, which boot
UNDER_WAY = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
REQUEUED = ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
COMPLETED, CANCELLED, FAILED, RUNNING = "COMPLETED", "CANCELLED", "FAILED", "RUNNING"
LOST = "LOST"  # not one of Slurm's: it has forgotten the job
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
USUAL_REASONS = ("None", "NonZeroExitCode", "")  # of a job whose script failed: the ranks know more


class TaskGroup(NamedTuple):
    """A job, or one job of an array."""

    id: str
    state: str
    reason: str = ""
    nodes: str = ""
    exit: str = ""  # Slurm's CODE:SIGNAL
    by: str = ""  # the user who cancelled it: an id, or a name


class JobStatus(NamedTuple):
    """The state of a whole job."""

    is_waiting: bool  # some of it has not begun
    text: str  # the state in words
    exit_code: int | None = None  # None while it is not over
    why: str | None = None  # why it is over, where the ranks cannot know
    was_cancelled: bool = False


SUBMITTED = JobStatus(True, "")  # before the first look at the queue


def read_queue(printed: str) -> list[TaskGroup]:
    """Reads the output of `squeue --array --format=QUEUE_FORMAT`."""
    return [TaskGroup(*row) for row in _rows(printed)]


def read_history(printed: str) -> list[TaskGroup]:
    """Reads the output of `sacct --parsable2 --format=HISTORY_FIELDS`, without the steps of a job."""
    return [
        # the state of a cancelled job is "CANCELLED by 1000"
        TaskGroup(job, state.split(" ")[0], "", nodes, exit, state.partition(" by ")[2])
        for job, state, exit, nodes in _rows(printed)
        if "." not in job  # as in 17.batch, 17.0
    ]


def _rows(printed: str) -> list[list[str]]:
    rows = [line.strip().split("|") for line in printed.splitlines()]
    return [row for row in rows if len(row) == 4]  # others are warnings, or lines that a site prints


def read_details(printed: str) -> list[TaskGroup]:
    """Reads the output of `scontrol --oneliner show job`."""
    parts = []
    for line in printed.splitlines():
        fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line))
        if "JobState" not in fields:
            continue
        job = fields.get("JobId", "")
        if "ArrayJobId" in fields and "ArrayTaskId" in fields:  # squeue's id; JobId is another number for each
            job = f"{fields['ArrayJobId']}_{fields['ArrayTaskId']}"
        nodes = fields.get("NodeList", "").replace("(null)", "")
        parts.append(TaskGroup(job, fields["JobState"], fields.get("Reason", ""), nodes, fields.get("ExitCode", "")))
    return parts


def is_over(part: TaskGroup) -> bool:
    """Whether it has ended, well or not."""
    return part.state not in (*NOT_BEGUN, *UNDER_WAY, *REQUEUED)  # a state that is in none of them counts as an end


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
    code = exit_code(part)
    on = f" on {part.nodes}" if part.nodes else ""
    match part.state:
        case "FAILED" if part.reason in USUAL_REASONS:
            return JobStatus(False, f"job {part.id} has failed", code)  # no why: the ranks and the log know more
        case "FAILED" if part.reason == "JobLaunchFailure":
            why = f"could not be started{on}: the nodes may not see the run's folder; --runs names another"
        case "CANCELLED":
            why = f"was cancelled {f'by {part.by}' if part.by else 'outside this console'}"
        case state if state in ENDINGS:
            why = f"{ENDINGS[state]}{f': {part.nodes}' if state == 'NODE_FAIL' else ''}"
        case state:
            why = f"has ended: {state}{_because(part.reason)}"
    why = f"job {part.id} {why}"
    return JobStatus(False, why, code, why, part.state == CANCELLED)


def exit_code(part: TaskGroup) -> int:
    """The exit code of a part that failed: negative for a signal, and never 0."""
    code, _, number = part.exit.partition(":")
    if number.isdecimal() and int(number):
        return -int(number)
    if not code.isdecimal() or not int(code):  # Slurm says 0:0 of a cancelled job, too
        return 1
    return int(code) if int(code) <= SIGNAL_OFFSET else SIGNAL_OFFSET - int(code)


def _in_words(parts: Sequence[TaskGroup], waiting: Sequence[TaskGroup]) -> str:
    if not waiting:
        state = next((part.state for part in parts if part.state != COMPLETED), RUNNING)
        nodes = ", ".join(dict.fromkeys(part.nodes for part in parts if part.nodes))
        does = "runs" if state == RUNNING else f"is {state.lower()}"
        return f"{_named(parts)} {does}{f' on {nodes}' if nodes else ''}"
    where = "is being prepared" if waiting[0].state == "CONFIGURING" else "is queued"
    if len(parts) == 1:
        return f"{_named(parts)} {where}{_because(waiting[0].reason)}"
    begun = len(parts) - len(waiting)
    runs = f"{begun} of {len(parts)} have started, " if begun else ""
    return f"{_named(parts)} {where}: {runs}{len(waiting)} wait{_because(waiting[0].reason, ' for: ')}"


def _named(parts: Sequence[TaskGroup]) -> str:
    return f"job {parts[0].id.partition('_')[0]}" if parts else "the job"  # 17_3 is a job of array 17


def _because(reason: str, sign: str = ": ") -> str:
    if reason in ("", "None"):
        return ""
    # a reason may have more words behind it, as in "(ReqNodeNotAvail, UnavailableNodes:n1)"
    words = next((words for name, words in REASONS.items() if reason.lstrip("(").startswith(name)), "")
    return f"{sign}{reason}{f' ({words})' if words else ''}"


# srun: error: n1: task 0: Killed; n1: tasks 0,2-3: Exited with exit code 7; n2: task 1: Aborted (core dumped)
OF_TASKS = re.compile(r"^srun: error: \S+: tasks? (\d+)[\d,-]*: (.+?)(?: \(core dumped\))?$", re.MULTILINE)
EXITED = "Exited with exit code "
SIGNALS = {signal.strsignal(number): number for number in signal.valid_signals()}  # srun prints the C library's words


def first_failed_rank(log: str) -> str | None:
    """Which rank ended first and how, as srun reports it in the log; None where the rank has said so itself."""
    if (match := OF_TASKS.search(log)) is None:
        return None
    first, how = match.groups()
    exit_text = how.removeprefix(EXITED)
    if how.startswith(EXITED) and exit_text.isdecimal():
        code = int(exit_text)
    elif how in SIGNALS:
        code = -SIGNALS[how]
    else:
        return None
    # a rank with exit code 1 has printed its exception; SIGTERM comes from Slurm, after another rank's failure
    return None if code in (1, -signal.SIGTERM) else f"rank {first} {ending(code)}"
