"""The script of a job: what it asks of Slurm, and what each of its tasks starts. And what Slurm says of a job."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ddptui.config.preset import EngineOptions
from ddptui.config.trial import Trial
from ddptui.config.values import make_trial
from ddptui.engines.slurm.job import (
    JobRow,
    JobStatus,
    engine_options,
    example,
    job_status,
    read_queue,
    render,
    sbatch_options,
)
from ddptui.engines.slurm.keeper import SlurmError

FOLDER = Path("/runs/one")


def trial(**fields: Any) -> Trial:
    return make_trial({"name": "a", "launch": "spawn", "world_size": 4, "strategy": "all_reduce", "steps": 8} | fields)


def data_parallel(**fields: Any) -> Trial:
    return make_trial({"name": "a", "launch": "dp"} | fields)


def engine(**fields: Any) -> EngineOptions:
    return EngineOptions(name="slurm", **{"nodes": 2, **fields})


def options(*trials: Trial, folder: Path = FOLDER, **fields: Any) -> list[str]:
    return sbatch_options(trials, engine(**fields), folder, "ddptui-one-1a2b")


def test_a_node_is_a_task() -> None:
    assert options(trial()) == [
        "--cpus-per-task=2",
        "--job-name=ddptui-one-1a2b",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        f"--chdir={FOLDER}",
        f"--output={FOLDER}/job.log",
        "--open-mode=append",
        "--no-requeue",
    ]


@pytest.mark.parametrize(
    ("trials", "cores"),
    [
        ([trial(world_size=3)], 2),  # of uneven nodes the larger
        ([trial(threads=3)], 6),
        ([trial(), data_parallel(world_size=5)], 5),
    ],
)
def test_cores_are_for_the_trial_that_needs_most_and_nodes_for_the_largest(trials: list[Trial], cores: int) -> None:
    assert f"--cpus-per-task={cores}" in options(*trials)
    assert "--nodes=2" in options(trial(world_size=2), data_parallel(world_size=3), nodes=8)
    assert "--nodes=3" in options(trial(world_size=2), trial(world_size=3), nodes=8)
    assert "--nodes=1" in options(data_parallel(world_size=3), nodes=8)


def test_what_the_engine_says_and_what_was_typed_is_asked_for() -> None:
    typed = ("--exclusive", "--mem 4G", "-c4")
    asked = options(trial(), partition="gpu", account="lab", gres="gpu:2", time="10:00", options=typed)
    assert asked[1:9] == ["--partition=gpu", "--account=lab", "--gres=gpu:2", "--time=10:00",
                          "--exclusive", "--mem", "4G", "-c4"]  # fmt: skip


def test_a_task_joins_with_the_ticket_of_its_job(tmp_path: Path) -> None:
    """The script as it is, with an srun that starts one task, and a task that says how it was called."""
    folder = tmp_path / "a b#%j'\"é"
    folder.mkdir()
    for name, does in {
        "srun": 'while [ "$1" != python ]; do shift; done; exec "$@"',
        "python": 'printf "%s\n" "$@"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    asked = options(trial(), folder=folder)
    assert f"--output={tmp_path}/a b#%%j'\"é/job.log" in asked
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_CPUS_PER_TASK": "2"}
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run([bash, "-u"], env=environment, text=True, check=True, capture_output=True,
                          input=render(asked, folder / "ticket-1", "python"))  # fmt: skip
    assert done.stdout.splitlines() == ["-P", "-m", "ddptui", "join", "--as", "slurm", str(folder / "ticket-1")]


@pytest.mark.parametrize("name", ["two\nlines", "bell\a", "back\\slash"])
def test_a_folder_that_cannot_be_spelled_is_refused(name: str) -> None:
    with pytest.raises(SlurmError, match="name another one with --runs"):
        options(trial(), folder=Path("/runs") / name)


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("exclusive", "is not an option of sbatch"),
        ("--", "is not an option of sbatch"),
        ("--comment='x", "a quote is not closed"),
        ("--array=0-9", "ddptui sets --array itself"),
        ("-N 4", "ddptui sets --nodes itself"),
        ("--output x", "ddptui sets --output itself"),
        ("--exclusive -- x", "is not an option of sbatch"),
    ],
)
def test_options_that_the_lab_has_to_give_itself_are_refused(option: str, why: str) -> None:
    with pytest.raises(SlurmError, match=why):
        engine_options(engine(options=(option,)))
    fine = ("--exclusive", "-c4", "--constraint=a|b", "--comment='two words'", "-x n1", "-pN", "-Hpa --mem 4G -t 5")
    engine_options(engine(options=(*fine, "--nodelist=n1", "--ntasks-per-core=1", "--wait-all-nodes=1")))


def test_an_example_says_where_things_go() -> None:
    assert "#SBATCH --chdir=/RUNS/RUN\n" in example([trial()], engine())
    assert "python -P -m ddptui join --as slurm /RUNS/RUN/ticket-TOKEN\n" in example([trial()], engine())


# What Slurm says of it


def test_squeue_is_read() -> None:
    queued = "a site's words\nFAILED|JobLaunchFailure|n[1-2]\n\n"
    assert read_queue(queued) == JobRow("FAILED", "JobLaunchFailure", "n[1-2]")
    assert read_queue("PENDING|(Nodes are DOWN, DRAINED)|\n") == JobRow("PENDING", "(Nodes are DOWN, DRAINED)")
    assert read_queue("") is None


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (JobRow("PENDING", "None"), "job 17 is queued"),
        (JobRow("PENDING", "Resources"), "job 17 is queued: Resources (the nodes are busy)"),
        (
            JobRow("PENDING", "ReqNodeNotAvail, UnavailableNodes:n1"),
            "job 17 is queued: ReqNodeNotAvail, UnavailableNodes:n1 (a requested node is not available)",
        ),
        (JobRow("PENDING", "QOSMaxJobsPerUserLimit"), "job 17 is queued: QOSMaxJobsPerUserLimit"),
        (JobRow("CONFIGURING", nodes="n1"), "job 17 is being prepared"),
        (JobRow("RUNNING", nodes="n[1-2]"), "job 17 runs on n[1-2]"),
        (JobRow("COMPLETING", nodes="n1"), "job 17 is completing on n1"),
    ],
)
def test_one_that_is_not_over_says_where_it_stands(row: JobRow, says: str) -> None:
    assert job_status(17, row) == JobStatus(says)


NOT_STARTED = "could not be started on n1: the nodes may not see the run's folder; --runs names another"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (JobRow("TIMEOUT"), "reached its time limit: raise it with --time"),
        (JobRow("NODE_FAIL", nodes="n2"), "was ended because a node failed: n2"),
        (JobRow("CANCELLED"), "was canceled outside this console"),
        (JobRow("FAILED", "JobLaunchFailure", "n1"), NOT_STARTED),
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
