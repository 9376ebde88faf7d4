"""A job from its submission to its end, on a cluster of two nodes and with commands that fail on demand."""

import io
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ddptui.config.engine import EngineOptions
from ddptui.config.trial_values import make_trial
from ddptui.engines.base import LaunchRefused
from ddptui.engines.hub import Hub
from ddptui.engines.slurm import engine as launch_slurm
from ddptui.engines.slurm import keeper, queue
from ddptui.engines.slurm.engine import SlurmLaunch
from ddptui.host.network import Interface
from ddptui.store.journal import RepeatJournal
from tests.support.slurm_cluster import Cluster
from tests.support.slurm_fakes import Fakes

SOON_S = 20.0
Submit = Callable[..., SlurmLaunch]


def until(reached: Callable[[], bool], what: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + SOON_S
    while not reached():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def script(folder: Path, body: str, *options: str) -> str:
    lines = [f"#SBATCH {option}" for option in (f"--chdir={folder}", f"--output={folder}/launcher.log", *options)]
    return "\n".join(["#!/bin/bash", *lines, "trap 'echo $? >> ended' EXIT", body]) + "\n"


@pytest.fixture
def submit(tmp_path: Path) -> Iterator[Submit]:
    jobs: list[SlurmLaunch] = []

    def start(body: str = "srun sleep 600", *options: str) -> SlurmLaunch:
        text = script(tmp_path, body, *options)
        jobs.append(SlurmLaunch("ddptui-test", text, {"SECRET": "it's secret"}, tmp_path, tmp_path / "meeting"))
        return jobs[-1]

    yield start
    for job in jobs:
        job.stop()


def ended(job: SlurmLaunch) -> int:
    until(lambda: job.exit_code is not None, job.take_notices)
    assert job.exit_code is not None
    return job.exit_code


def heard(job: SlurmLaunch, words: str) -> str:
    """The first news with these words."""
    said: list[str] = []
    until(lambda: any(words in text for text in said) or bool(said.extend(job.take_notices())), lambda: said)
    return next(text for text in said if words in text)


# On a real cluster.


def test_a_job_runs_on_both_nodes_and_ends_well(cluster: Cluster, submit: Submit, tmp_path: Path) -> None:
    job = submit("source ./wire.env; echo $SECRET; srun hostname", "--nodes=2", "--ntasks=2")
    assert ended(job) == 0
    assert job.end_reason() is None
    assert (tmp_path / "launcher.log").read_text().splitlines()[0] == "it's secret"
    assert f"job {job.number} has completed" in job.take_notices()


def test_what_the_tasks_are_told_can_be_read_by_the_user_alone_and_goes(
    cluster: Cluster, submit: Submit, tmp_path: Path
) -> None:
    job = submit()
    assert stat.S_IMODE((tmp_path / "wire.env").stat().st_mode) == 0o600
    job.stop()
    assert not (tmp_path / "wire.env").exists()
    assert "secret" not in (tmp_path / "job.sh").read_text()


def test_it_waits_for_nodes_runs_and_leaves_the_queue_when_it_is_stopped(cluster: Cluster, submit: Submit) -> None:
    first = submit("srun sleep 600", "--nodes=2", "--exclusive")
    assert heard(first, "runs on") == f"job {first.number} runs on n[1-2]"
    assert not first.is_waiting
    second = submit("srun sleep 600", "--nodes=2")
    assert heard(second, "(").endswith(
        ("Resources (the nodes are busy)", "Priority (jobs of higher priority come first)")
    )
    assert second.is_waiting
    second.stop()
    assert [line.split()[0] for line in cluster.queue()] == [str(first.number)]
    first.stop()
    assert cluster.queue() == []
    assert cluster.tasks() == []
    assert first.exit_code is None  # it has not ended, it was ended
    assert first.take_notices() == []


def test_the_exit_code_of_one_that_fails_is_known(cluster: Cluster, submit: Submit) -> None:
    job = submit("exit 3")
    assert ended(job) == 3
    assert job.end_reason() is None  # the ranks, and the log, know more


def test_who_does_not_listen_is_killed_before_slurm_would(cluster: Cluster, submit: Submit, tmp_path: Path) -> None:
    """Slurm sends SIGKILL KillWait after it has been asked to cancel; what it says then is CANCELLED."""
    job = submit("srun bash -c \"trap '' TERM; touch deaf; while true; do sleep 0.1; done\"")
    until((tmp_path / "deaf").exists)
    job.stop()
    assert cluster.tasks() == []
    assert cluster.says("squeue", "--noheader", "--states=all", f"--jobs={job.number}", "--format=%T") == "FAILED\n"


def test_somebody_else_cancels_it(cluster: Cluster, submit: Submit) -> None:
    job = submit()
    heard(job, "runs on")
    cluster.says("scancel", str(job.number))
    assert ended(job) != 0
    assert job.end_reason() == f"job {job.number} was cancelled outside this console"


def test_an_array_has_ended_when_one_of_its_jobs_has_failed(cluster: Cluster, submit: Submit) -> None:
    job = submit("[ $SLURM_ARRAY_TASK_ID = 1 ] && exit 5; srun sleep 600", "--array=0-2")
    assert ended(job) == 5
    job.stop()
    assert cluster.queue() == []


def test_of_an_array_those_that_wait_go_before_others_make_room_for_them(
    cluster: Cluster, submit: Submit, tmp_path: Path
) -> None:
    job = submit("echo $SLURM_ARRAY_TASK_ID >> begun; srun sleep 600", "--array=0-3", "--exclusive")
    assert heard(job, "2 of 4 have started, 2 wait for: Resources")  # Slurm may know the reason later than the state
    assert job.is_waiting
    until(lambda: (tmp_path / "begun").exists() and len((tmp_path / "begun").read_text().split()) == 2)
    job.stop()
    assert len((tmp_path / "begun").read_text().split()) == 2


def test_an_array_has_ended_well_when_all_of_it_has(cluster: Cluster, submit: Submit) -> None:
    assert ended(submit("true", "--array=0-2")) == 0


def test_one_that_could_never_run_is_not_waited_for(cluster: Cluster, submit: Submit) -> None:
    job = submit("true", "--partition=small", "--time=10")
    assert ended(job) == 1
    assert (job.end_reason() or "").startswith(f"job {job.number} can never start (Partition")
    assert "--time" in (job.end_reason() or "")


def test_what_sbatch_refuses_is_said_in_its_words(cluster: Cluster, submit: Submit, tmp_path: Path) -> None:
    with pytest.raises(LaunchRefused) as refusal:
        submit("true", "--partition=nope")
    assert str(refusal.value) == (
        "no job was submitted: sbatch: invalid partition specified: nope; Batch job submission failed: Invalid "
        "partition name specified"
    )
    assert not (tmp_path / "wire.env").exists()


def test_a_console_that_is_killed_leaves_nothing_in_the_queue(cluster: Cluster, tmp_path: Path) -> None:
    code = f"""
import sys, time; from pathlib import Path
from ddptui.engines.slurm.engine import SlurmLaunch
folder = Path({str(tmp_path)!r})
script = {script(tmp_path, "srun bash -c 'touch begun; sleep 600'")!r}
print(SlurmLaunch("n", script, {{}}, folder, folder / "meeting").number, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        assert console.stdout.readline().strip().isdecimal()
        until((tmp_path / "begun").exists)
        kept = psutil.Process(console.pid).children()
        console.kill()
    until(lambda: cluster.queue() == [] and cluster.tasks() == [], cluster.queue)
    assert not psutil.wait_procs(kept, timeout=SOON_S)[1]
    assert not (tmp_path / "wire.env").exists()


def test_what_was_asked_for_counts_more_than_what_the_shell_has(
    cluster: Cluster, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"PARTITION": "debug", "TIMELIMIT": "7", "JOB_NAME": "other", "ARRAY_INX": "0-3", "WAIT": "1"}
    for name, value in said.items():
        monkeypatch.setenv(f"SBATCH_{name}", value)
    job = submit("srun sleep 600", "--partition=small", '--job-name="a b"')
    row = cluster.says("squeue", "--noheader", f"--jobs={job.number}", "--format=%i|%P|%l|%j").strip()
    assert row == f"{job.number}|small|7:00|a b"


# With commands that do as they are told.


def test_slurm_that_does_not_answer_for_a_while_is_said_once_and_harms_nobody(fakes: Fakes, submit: Submit) -> None:
    fakes.job("RUNNING", nodes="n1")
    job = submit()
    heard(job, "runs on n1")
    fakes.set(broken={"squeue": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"})
    assert heard(job, "may be out of date") == (
        "the state of job 17 may be out of date: squeue: slurm_load_jobs error: Unable to contact slurm controller "
        "(connect failure)"
    )
    asked = len(fakes.calls("squeue"))
    job._poller.hurry()
    until(lambda: len(fakes.calls("squeue")) > asked)
    assert job.take_notices() == []
    assert job.exit_code is None
    fakes.set(broken={}, jobs=[["17", "COMPLETED", "None", "n1", "0:0"]])
    job._poller.hurry()
    assert ended(job) == 0


@pytest.mark.parametrize(
    ("state", "exit", "code", "why"),
    [
        ("TIMEOUT", "0:15", -15, "job 17 reached its time limit: raise it with --time"),
        ("NODE_FAIL", "0:0", 1, "job 17 was ended because a node failed: n2"),
        ("PREEMPTED", "0:15", -15, "job 17 was preempted by another job"),
        ("OUT_OF_MEMORY", "0:125", -125, "job 17 exceeded the memory that it requested"),
    ],
)
def test_how_it_ended_is_told_apart(fakes: Fakes, submit: Submit, state: str, exit: str, code: int, why: str) -> None:
    fakes.job(state, nodes="n2", exit=exit)
    job = submit()
    assert ended(job) == code
    assert (job.end_reason() or "").startswith(why)
    job.stop()
    assert fakes.calls("scancel") == []


def test_one_that_was_preempted_and_queued_again_is_not_begun_twice(fakes: Fakes, submit: Submit) -> None:
    fakes.job("RUNNING", nodes="n1")
    job = submit()
    heard(job, "runs on n1")
    fakes.job("PENDING", reason="BeginTime")
    job._poller.hurry()
    assert ended(job) == 1
    assert "was requeued: BeginTime" in (job.end_reason() or "")
    job.stop()
    assert fakes.calls("scancel") == [["--state=PENDING", "17"]]


@pytest.mark.parametrize(("code", "expected"), [("0", 0), ("9", 9)])
def test_of_one_that_slurm_has_forgotten_the_script_has_left_word(
    fakes: Fakes, submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, expected: int
) -> None:
    monkeypatch.setattr(queue, "FIRST_PAUSE_S", 10 * SOON_S)
    fakes.job("RUNNING", nodes="n1")
    job = submit()
    heard(job, "runs on n1")
    fakes.set(jobs=[])
    (tmp_path / "ended").write_text(f"{code}\n")  # which is noticed, though nobody has hurried
    assert ended(job) == expected


def test_of_one_that_slurm_has_forgotten_the_accounting_may_know(fakes: Fakes, submit: Submit) -> None:
    fakes.set(broken={}, sacct="17|CANCELLED by 0|0:15|n1\n17.batch|CANCELLED|0:15|n1\n")
    job = submit()
    assert ended(job) == -15
    assert job.end_reason() == "job 17 was cancelled by root"


def test_one_that_nobody_knows_any_more_has_failed(fakes: Fakes, submit: Submit) -> None:
    job = submit()
    assert ended(job) == 1
    assert job.end_reason() == "job 17 is no longer known to Slurm, and left no exit code"


def test_a_scancel_that_does_not_help_is_followed_by_one_that_kills(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "STEP_S", 0.2)
    fakes.job("RUNNING", nodes="n1")
    fakes.set(patience=3)
    assert keeper.cancel(17, 10) is None
    assert fakes.calls("scancel") == [["--signal=TERM", "17"], ["--signal=KILL", "17.0"], ["17"]]


def test_a_job_that_cannot_be_ended_is_said_with_what_to_do(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.job("RUNNING", nodes="n1")
    fakes.set(broken={"scancel": "scancel: error: Kill job error on job id 17: Access/permission denied"})
    assert keeper.cancel(17, 0.5) == (
        "job 17 could not be ended (scancel: Kill job error on job id 17: Access/permission denied): run `scancel 17`, "
        "then check with `squeue --jobs=17`"
    )


def test_one_that_only_completes_is_waited_for_and_not_cancelled(fakes: Fakes) -> None:
    fakes.job("COMPLETING")
    assert "it is COMPLETING" in (keeper.cancel(17, 0.3) or "")
    fakes.job("COMPLETED")
    assert keeper.cancel(17, 0.3) is None
    assert fakes.calls("scancel") == []


def test_an_sbatch_that_does_not_answer_may_have_submitted_all_the_same(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "SUBMIT_S", 0.2)
    fakes.set(slow={"sbatch": 5})
    (tmp_path / "job.sh").touch()
    with pytest.raises(keeper.SlurmError, match=r"sbatch has not answered within 0.2 s"):
        keeper.submit(tmp_path / "job.sh", "ddptui-test")
    [cancelled] = fakes.calls("scancel")
    assert cancelled[0] == "--name=ddptui-test"


def test_a_rank_that_srun_saw_die_is_named_where_a_task_is_a_rank(fakes: Fakes, tmp_path: Path) -> None:
    fakes.job("FAILED", reason="NonZeroExitCode", exit="137:0")
    (tmp_path / "launcher.log").write_text("srun: error: n1: task 1: Killed\n")
    for task_is_rank, why in ((True, "rank 1 killed by SIGKILL"), (False, None)):
        job = SlurmLaunch("n", "", {}, tmp_path, tmp_path / "meeting", task_is_rank=task_is_rank)
        try:
            assert ended(job) == -9
            assert job.end_reason() == why
        finally:
            job.stop()


def test_consoles_that_begin_in_the_same_second_share_neither_name_nor_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[tuple[str, str, Path]] = []
    monkeypatch.setattr(
        launch_slurm, "SlurmLaunch", lambda name, script, _1, _2, meeting, **_3: began.append((name, script, meeting))
    )
    monkeypatch.setattr(launch_slurm, "choose_interface", lambda _: Interface("eth", "127.0.0.1"))
    one = make_trial({"name": "a", "launch": "task", "world_size": 2, "strategy": "all_reduce", "init_method": "file"})
    for runs in ("x", "y"):
        starter = launch_slurm.SlurmEngine(EngineOptions(name="slurm", shared=str(tmp_path)), "20300102-030405")
        with Hub(2) as hub:
            starter.start(one, [], RepeatJournal(tmp_path / runs, 1, io.BytesIO()), hub)
    (name, script, meeting), (other, _, elsewhere) = began
    assert name != other
    assert meeting != elsewhere
    assert f"--job-name={name}\n" in script
    assert str(meeting) in script


def test_without_its_keeper_the_console_cancels_the_job_itself(fakes: Fakes, submit: Submit) -> None:
    fakes.job("RUNNING", nodes="n1")
    job = submit()
    job._keeper.kill()
    job.stop()
    assert fakes.calls("scancel") == [["--signal=TERM", "17"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_do_not_end_the_keeper(fakes: Fakes, submit: Submit, number: signal.Signals) -> None:
    fakes.job("RUNNING", nodes="n1")
    job = submit()
    job._keeper.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        job._keeper.wait(0.2)
    assert fakes.calls("scancel") == []


def test_it_is_asked_less_and_less_often_while_nothing_changes(
    fakes: Fakes, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(queue.JobPoller, "_wait_for_need", lambda self, pause_s: pauses.append(pause_s) is not None)
    fakes.job("PENDING", reason="Priority")
    submit()
    until(lambda: len(pauses) > 8)
    assert pauses[:8] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert all("--jobs=17" in arguments for arguments in fakes.calls("squeue"))
    fakes.job("RUNNING")
    until(lambda: pauses.count(1) > 1)


def test_what_a_job_around_the_console_has_set_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SLURM_JOB_ID",
        "SLURM_MEM_PER_NODE",
        "SLURM_CONF",
        "SBATCH_PARTITION",
        "SBATCH_ARRAY_INX",
        "SBATCH_WAIT",
    ):
        monkeypatch.setenv(name, "x")
    left = {name for name in keeper.environment() if name.startswith(("SLURM_", "SBATCH_"))}
    assert left == {"SLURM_CONF", "SBATCH_PARTITION"}
