"""Parses what squeue and sacct print about a job, and puts it into words."""

from typing import NamedTuple

QUEUE_FORMAT = "%T|%r|%N"  # squeue: state, reason, nodes
HISTORY_FIELDS = "State,NodeList"  # sacct has no reason, but knows who canceled the job
NOT_BEGUN = ("PENDING", "CONFIGURING")  # CONFIGURING: the nodes are booting
UNDER_WAY = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
CANCELLED = "CANCELLED"
LOST = "LOST"  # not a state of Slurm: Slurm has forgotten the job
NEVER_STARTS = {  # reasons for which a pending job never starts, and remedies
    "PartitionNodeLimit": "the partition does not allow so many nodes: use fewer --nodes, or another --partition",
    "PartitionConfig": "the partition does not have what the job requests: change --nodes, --time or --partition",
    "PartitionTimeLimit": "the partition does not allow so much time: use a shorter --time, or another --partition",
    "BadConstraints": "no node has what the job requests: change --gres or --sbatch",
    "InvalidAccount": "the account is not valid here: use another --account",
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
    "REQUEUED": "was requeued, but its nodes cannot continue the run",
    LOST: "is no longer known to Slurm",
}
USUAL_REASONS = ("None", "NonZeroExitCode", "")  # reasons of a job in which a node failed


class JobRow(NamedTuple):
    """Slurm's information about a job."""

    state: str
    reason: str = ""
    nodes: str = ""
    by: str = ""  # the user who canceled the job: an id or a name


class JobStatus(NamedTuple):
    """The state of a job in words; empty before the first check."""

    text: str
    is_over: bool = False  # also if the job will never start
    by_slurm: bool = False  # whether the text says why the job is over; otherwise a node may know


def read_queue(printed: str) -> JobRow | None:
    """Reads the output of `squeue --format=QUEUE_FORMAT`."""
    return next((JobRow(*row) for row in _rows(printed, 3)), None)


def read_history(printed: str) -> JobRow | None:
    """Reads the output of `sacct --allocations --parsable2 --format=HISTORY_FIELDS`."""
    # the state of a canceled job is "CANCELLED by 1000"
    rows = [(state.partition(" by "), nodes) for state, nodes in _rows(printed, 2)]
    return next((JobRow(state, nodes=nodes, by=by) for (state, _, by), nodes in rows), None)


def _rows(printed: str, fields: int) -> list[list[str]]:
    rows = [line.strip().split("|") for line in printed.splitlines()]
    return [row for row in rows if len(row) == fields]  # other lines are warnings, or printed by the site


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
            how = f"was canceled {f'by {row.by}' if row.by else 'outside this console'}"
        case state:
            how = ENDINGS.get(state, f"has ended: {state}{_because(row)}")
            how += f": {row.nodes}" if state == "NODE_FAIL" else ""
    return JobStatus(f"{job} {how}", is_over=True, by_slurm=True)


def _because(row: JobRow) -> str:
    if row.reason in ("", "None"):
        return ""
    # more words may follow a reason, as in "(ReqNodeNotAvail, UnavailableNodes:n1)"
    words = next((words for name, words in REASONS.items() if row.reason.lstrip("(").startswith(name)), "")
    return f": {row.reason}{f' ({words})' if words else ''}"
