"""What squeue and sacct print of a job, read and put in words."""

from typing import NamedTuple

QUEUE_FORMAT = "%T|%r|%N"  # of squeue; sacct has no reason, but who cancelled the job
HISTORY_FIELDS = "State,NodeList"
NOT_BEGUN = ("PENDING", "CONFIGURING")  # CONFIGURING: it has nodes, which boot
UNDER_WAY = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
CANCELLED = "CANCELLED"
LOST = "LOST"  # not one of Slurm's: it has forgotten the job
NEVER_STARTS = {  # reasons for which a pending job never starts, and what to do
    "PartitionNodeLimit": "the partition allows no job so many nodes: fewer --nodes, or another --partition",
    "PartitionConfig": "the partition does not have what it requests: change --nodes, --time or --partition",
    "PartitionTimeLimit": "the partition allows no job so much time: a shorter --time, or another --partition",
    "BadConstraints": "no node has what it requests: change --gres or --sbatch",
    "InvalidAccount": "the account is not valid here: another --account",
    "DependencyNeverSatisfied": "the job that it depends on has failed: change --sbatch",
}
REASONS = {
    "Resources": "the nodes are busy",
    "Priority": "jobs of higher priority come first",
    "JobHeldUser": "the job is held: `scontrol release` releases it",
    "JobHeldAdmin": "an administrator holds the job",
    "ReqNodeNotAvail": "a requested node is not available",
    "BeginTime": "its start time has not come",
}
ENDINGS = {
    "COMPLETED": "has completed",
    "TIMEOUT": "reached its time limit: raise it with --time",
    "OUT_OF_MEMORY": "exceeded the memory that it requested: request more, as with --sbatch=--mem=8G",
    "NODE_FAIL": "was ended because a node failed",
    "PREEMPTED": "was preempted by another job",
    "REQUEUED": "was requeued, and its nodes would have to start again",
    LOST: "is no longer known to Slurm",
}
USUAL_REASONS = ("None", "NonZeroExitCode", "")  # of a job in which a node failed


class JobRow(NamedTuple):
    """What Slurm says of a job."""

    state: str
    reason: str = ""
    nodes: str = ""
    by: str = ""  # the user who cancelled it: an id, or a name


class JobStatus(NamedTuple):
    """The state of a job in words; empty before the first look."""

    text: str
    is_over: bool = False  # also if it never starts
    by_slurm: bool = False  # the text says why it is over; else a node may say so


def read_queue(printed: str) -> JobRow | None:
    """Reads the output of `squeue --format=QUEUE_FORMAT`."""
    return next((JobRow(*row) for row in _rows(printed, 3)), None)


def read_history(printed: str) -> JobRow | None:
    """Reads the output of `sacct --allocations --parsable2 --format=HISTORY_FIELDS`."""
    # the state of a cancelled job is "CANCELLED by 1000"
    rows = [(state.partition(" by "), nodes) for state, nodes in _rows(printed, 2)]
    return next((JobRow(state, nodes=nodes, by=by) for (state, _, by), nodes in rows), None)


def _rows(printed: str, fields: int) -> list[list[str]]:
    rows = [line.strip().split("|") for line in printed.splitlines()]
    return [row for row in rows if len(row) == fields]  # others are warnings, or lines that a site prints


def job_status(number: int, row: JobRow) -> JobStatus:
    """The state of a job."""
    job, on = f"job {number}", f" on {row.nodes}" if row.nodes else ""
    if row.state in NOT_BEGUN:
        if never := NEVER_STARTS.get(row.reason):
            return JobStatus(f"{job} can never start ({row.reason}): {never}", is_over=True, by_slurm=True)
        return JobStatus(f"{job} {'is queued' if row.state == 'PENDING' else 'is being prepared'}{_because(row)}")
    if row.state in UNDER_WAY:
        return JobStatus(f"{job} {'runs' if row.state == 'RUNNING' else f'is {row.state.lower()}'}{on}")
    match row.state:
        case "FAILED" if row.reason in USUAL_REASONS:
            return JobStatus(f"{job} has failed: job.log in the run's folder has its output", is_over=True)
        case "FAILED" if row.reason == "JobLaunchFailure":
            how = f"could not be started{on}: the nodes may not see the run's folder; --runs names another"
        case "CANCELLED":
            how = f"was cancelled {f'by {row.by}' if row.by else 'outside this console'}"
        case state:
            how = ENDINGS.get(state, f"has ended: {state}{_because(row)}")
            how += f": {row.nodes}" if state == "NODE_FAIL" else ""
    return JobStatus(f"{job} {how}", is_over=True, by_slurm=True)


def _because(row: JobRow) -> str:
    if row.reason in ("", "None"):
        return ""
    # a reason may have more words behind it, as in "(ReqNodeNotAvail, UnavailableNodes:n1)"
    words = next((words for name, words in REASONS.items() if row.reason.lstrip("(").startswith(name)), "")
    return f": {row.reason}{f' ({words})' if words else ''}"
