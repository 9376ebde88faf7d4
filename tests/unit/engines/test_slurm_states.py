"""What Slurm prints, and what that means."""

import pytest

from ddptui.engines.slurm.states import JobRow, JobStatus, job_status, read_history, read_queue


def test_squeue_is_read() -> None:
    assert read_queue("a site's words\nFAILED|JobLaunchFailure|n[1-2]\n\n") == JobRow(
        "FAILED", "JobLaunchFailure", "n[1-2]"
    )
    assert read_queue("PENDING|(Nodes are DOWN, DRAINED)|\n") == JobRow("PENDING", "(Nodes are DOWN, DRAINED)")
    assert read_queue("") is None


def test_sacct_is_read() -> None:
    assert read_history("CANCELLED by 1000|n1\n") == JobRow("CANCELLED", nodes="n1", by="1000")
    assert read_history("FAILED|n1\n") == JobRow("FAILED", nodes="n1")
    assert read_history("") is None


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (JobRow("PENDING", "None"), "job 17 is queued"),
        (JobRow("PENDING", "Resources"), "job 17 is queued: Resources (the nodes are busy)"),
        (JobRow("PENDING", "QOSMaxJobsPerUserLimit"), "job 17 is queued: QOSMaxJobsPerUserLimit"),
        (JobRow("CONFIGURING", nodes="n1"), "job 17 is being prepared"),
        (JobRow("RUNNING", nodes="n[1-2]"), "job 17 runs on n[1-2]"),
        (JobRow("COMPLETING", nodes="n1"), "job 17 is completing on n1"),
        (JobRow("SUSPENDED", nodes="n1"), "job 17 is suspended on n1"),
    ],
)
def test_one_that_is_not_over_says_where_it_stands(row: JobRow, says: str) -> None:
    assert job_status(17, row) == JobStatus(says)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (JobRow("TIMEOUT"), "reached its time limit: raise it with --time"),
        (JobRow("NODE_FAIL", nodes="n2"), "was ended because a node failed: n2"),
        (JobRow("CANCELLED", by="ann"), "was canceled by ann"),
        (JobRow("CANCELLED"), "was canceled outside this console"),
        (
            JobRow("FAILED", "JobLaunchFailure", "n1"),
            "could not be started on n1: the nodes may not see the run's folder; --runs names another",
        ),
        (JobRow("FAILED", "RaisedSignal:53"), "has ended: FAILED: RaisedSignal:53"),
        (JobRow("QUITE_NEW", "Because"), "has ended: QUITE_NEW: Because"),
        (JobRow("REQUEUED"), "was requeued, but its nodes cannot continue the run"),
        (JobRow("LOST"), "is no longer known to Slurm"),
    ],
)
def test_why_it_ended_is_said_where_the_nodes_cannot_know(row: JobRow, says: str) -> None:
    assert job_status(17, row) == JobStatus(f"job 17 {says}", is_over=True, by_slurm=True)


def test_of_one_that_failed_the_nodes_may_know_more() -> None:
    says = "job 17 has failed: job.log in the run's folder has its output"
    assert job_status(17, JobRow("FAILED", "NonZeroExitCode")) == JobStatus(says, is_over=True)


@pytest.mark.parametrize("reason", ["PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "InvalidAccount"])
def test_one_that_would_wait_for_ever_is_over(reason: str) -> None:
    now = job_status(17, JobRow("PENDING", reason))
    assert now.is_over
    assert f"can never start ({reason}): " in now.text
