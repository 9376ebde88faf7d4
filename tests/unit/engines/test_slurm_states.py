"""What Slurm prints, and what that means."""

import pytest

from ddptui.engines.slurm.states import (
    JobStatus,
    TaskGroup,
    exit_code,
    job_status,
    read_details,
    read_history,
    read_queue,
)

DETAILS = (
    "JobId=8 ArrayJobId=6 ArrayTaskId=1 JobName=a b UserId=root(0) JobState=FAILED Reason=NonZeroExitCode "
    "Dependency=(null) ExitCode=3:0 RunTime=00:00:24 NodeList=n[1-2] BatchHost=n1\n"
    "JobId=9 JobName=JobState JobState=PENDING Reason=Resources ExitCode=0:0 NodeList=(null)\n"
)


def part(state: str, reason: str = "None", nodes: str = "", exit: str = "", by: str = "", id: str = "17") -> TaskGroup:
    return TaskGroup(id, state, reason, nodes, exit, by)


def test_squeue_is_read() -> None:
    printed = "3|FAILED|JobLaunchFailure|n[1-2]\n6_0|PENDING|(Nodes are DOWN, DRAINED)|\n\nwarning\n"
    assert read_queue(printed) == [
        TaskGroup("3", "FAILED", "JobLaunchFailure", "n[1-2]"),
        TaskGroup("6_0", "PENDING", "(Nodes are DOWN, DRAINED)", ""),
    ]


def test_sacct_is_read_without_the_steps() -> None:
    printed = "17|CANCELLED by 1000|0:15|n1\n17.batch|CANCELLED|0:15|n1\n17.0|FAILED|1:0|n1\n"
    assert read_history(printed) == [TaskGroup("17", "CANCELLED", "", "n1", "0:15", "1000")]


def test_scontrol_is_read() -> None:
    assert read_details(DETAILS) == [
        TaskGroup("6_1", "FAILED", "NonZeroExitCode", "n[1-2]", "3:0"),
        TaskGroup("9", "PENDING", "Resources", "", "0:0"),
    ]


@pytest.mark.parametrize(("exit", "code"), [("3:0", 3), ("0:9", -9), ("137:0", -9), ("0:0", 1), ("", 1), ("x:y", 1)])
def test_exit_codes_are_those_of_processes_and_never_that_of_success(exit: str, code: int) -> None:
    assert exit_code(part("FAILED", exit=exit)) == code


@pytest.mark.parametrize(
    ("parts", "says", "is_waiting"),
    [
        ([part("PENDING")], "job 17 is queued", True),
        ([part("PENDING", "Resources")], "job 17 is queued: Resources (the nodes are busy)", True),
        ([part("PENDING", "QOSMaxJobsPerUserLimit")], "job 17 is queued: QOSMaxJobsPerUserLimit", True),
        ([part("CONFIGURING", nodes="n1")], "job 17 is being prepared", True),
        ([part("RUNNING", nodes="n[1-2]")], "job 17 runs on n[1-2]", False),
        ([part("COMPLETING", nodes="n1")], "job 17 is completing on n1", False),
        ([part("SUSPENDED", nodes="n1")], "job 17 is suspended on n1", False),
        (
            [part("RUNNING", nodes="n1", id="17_0"), part("PENDING", "Resources", id="17_1")],
            "job 17 is queued: 1 of 2 have started, 1 wait for: Resources (the nodes are busy)",
            True,
        ),
        (
            [part("RUNNING", nodes="n1", id="17_0"), part("COMPLETED", nodes="n2", id="17_1")],
            "job 17 runs on n1, n2",
            False,
        ),
    ],
)
def test_one_that_is_not_over_says_where_it_stands(parts: list[TaskGroup], says: str, is_waiting: bool) -> None:
    assert job_status(parts) == JobStatus(is_waiting, says)


def test_all_of_an_array_has_to_end_well() -> None:
    done = [part("COMPLETED", id="17_0"), part("COMPLETED", id="17_1")]
    assert job_status(done) == JobStatus(False, "job 17 has completed", 0)
    assert job_status([done[0], part("FAILED", "NonZeroExitCode", exit="2:0", id="17_1")]).exit_code == 2
    assert job_status([part("PENDING", id="17_1"), part("FAILED", exit="2:0", id="17_0")]).exit_code == 2


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (part("TIMEOUT"), "job 17 reached its time limit: raise it with --time"),
        (part("NODE_FAIL", nodes="n2"), "job 17 was ended because a node failed: n2"),
        (part("CANCELLED", by="ann"), "job 17 was cancelled by ann"),
        (part("CANCELLED"), "job 17 was cancelled outside this console"),
        (
            part("FAILED", "JobLaunchFailure", "n1"),
            "job 17 could not be started on n1: the nodes may not see the run's folder; --runs names another",
        ),
        (part("FAILED", "RaisedSignal:53"), "job 17 has ended: FAILED: RaisedSignal:53"),
        (part("QUITE_NEW", "Because"), "job 17 has ended: QUITE_NEW: Because"),
        (part("FAILED", "NonZeroExitCode", exit="1:0"), None),
    ],
)
def test_why_it_ended_is_said_where_the_ranks_cannot_know(part: TaskGroup, why: str | None) -> None:
    now = job_status([part])
    assert now.why == why
    assert now.exit_code
    assert now.was_cancelled == (part.state == "CANCELLED")


@pytest.mark.parametrize("reason", ["PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "InvalidAccount"])
def test_one_that_would_wait_for_ever_is_over(reason: str) -> None:
    now = job_status([part("PENDING", reason)])
    assert now.exit_code == 1
    assert f"can never start ({reason}): " in (now.why or "")


@pytest.mark.parametrize("state", ["REQUEUED", "REQUEUE_HOLD", "PENDING"])
def test_one_that_is_put_back_has_lost_what_it_had(state: str) -> None:
    now = job_status([part(state, "BeginTime")], had_begun=True)
    assert now.exit_code == 1
    assert "was requeued" in (now.why or "")
