"""A job from its submission to its end, on a cluster of two nodes and with commands that fail on demand."""

import io
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psutil
import pytest

from ddptui import __version__
from ddptui.config.preset import EngineOptions
from ddptui.engines.base import Launch, LaunchRefused
from ddptui.engines.join.agent import ConsoleConnection
from ddptui.engines.join.ticket import read_ticket
from ddptui.engines.rank_server import RankServer
from ddptui.engines.slurm import engine as slurm_engine
from ddptui.engines.slurm import job as slurm_job
from ddptui.engines.slurm import keeper
from ddptui.engines.slurm.engine import SlurmEngine
from ddptui.engines.slurm.job import Job, render, sbatch_options
from ddptui.engines.sockets import LAST_PORT
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run
from ddptui.wire.helper_messages import Join, LaunchEnded
from tests.support import waiting
from tests.support.builders import preset_of
from tests.support.slurm_cluster import Cluster
from tests.support.slurm_fakes import Fakes

SOON_S = 20.0
Submit = Callable[..., Job]
ONE = {"trial": [{"name": "one", "launch": "spawn", "strategy": "all_reduce"}], "engine": {"name": "slurm"}}


until = partial(waiting.until, within_s=SOON_S)


def make_job(folder: Path) -> Job:
    return Job("ddptui-test", folder / "ticket", folder / "job.log")


def submit_body(job: Job, folder: Path, body: str, *options: str) -> None:
    (folder / "job.sh").write_text(f"#!/bin/bash\n{body}\n")
    where = ("--job-name=ddptui-test", f"--chdir={folder}", f"--output={folder}/job.log", "--open-mode=append")
    job.submit([*where, *options], folder / "job.sh")


@pytest.fixture
def submit(tmp_path: Path) -> Iterator[Submit]:
    jobs: list[Job] = []

    def start(body: str = "srun sleep 600", *options: str) -> Job:
        jobs.append(make_job(tmp_path))
        submit_body(jobs[-1], tmp_path, body, *options)
        return jobs[-1]

    yield start
    for job in jobs:
        assert job._keeper.stdin is not None
        if not job._keeper.stdin.closed:
            job.close()


def ended(job: Job) -> str:
    until(lambda: job.status.is_over, why_not=lambda: job.status)
    return job.status.text


def heard(job: Job, words: str) -> str:
    """The first news with these words."""
    said: list[str] = []
    until(lambda: any(words in text for text in said) or bool(said.extend(job.take_notices())), why_not=lambda: said)
    return next(text for text in said if words in text)


# On a real cluster.


def test_a_job_runs_on_both_nodes_and_ends_well(cluster: Cluster, submit: Submit) -> None:
    job = submit("srun hostname", "--nodes=2", "--ntasks=2")
    assert ended(job) == f"job {job._number} has completed"
    assert ended(job) in job.take_notices()


def test_it_waits_for_nodes_runs_and_leaves_the_queue_when_it_is_closed(
    cluster: Cluster, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "GRACE_S", 0)
    first = submit("srun sleep 600", "--nodes=2", "--exclusive")
    assert heard(first, "runs on") == f"job {first._number} runs on n[1-2]"
    second = submit("srun sleep 600", "--nodes=2", "--job-name=other")
    second._name = "other"
    assert heard(second, "(").endswith(
        ("Resources (the nodes are busy)", "Priority (jobs of higher priority come first)")
    )
    assert second.close() is None
    assert [line.split()[0] for line in cluster.queue()] == [str(first._number)]
    assert first.close() is None
    until(lambda: cluster.queue() == [] and cluster.tasks() == [])  # with no grace, one that completes is over
    assert not first.status.is_over  # it has not ended, it was ended


def test_somebody_else_cancels_it(cluster: Cluster, submit: Submit) -> None:
    job = submit()
    heard(job, "runs on")
    cluster.says("scancel", str(job._number))
    assert ended(job) == f"job {job._number} was canceled outside this console"


def test_one_that_could_never_run_is_not_waited_for(cluster: Cluster, submit: Submit) -> None:
    job = submit("true", "--partition=small", "--time=10")
    assert ended(job).startswith(f"job {job._number} can never start (Partition")
    assert "--time" in ended(job)


def test_a_console_that_is_killed_leaves_nothing_in_the_queue(cluster: Cluster, tmp_path: Path) -> None:
    code = f"""
import time; from pathlib import Path
from tests.real.slurm.test_slurm_jobs import make_job, submit_body
folder = Path({str(tmp_path)!r})
submit_body(job := make_job(folder), folder, "srun bash -c 'touch begun; sleep 600'")
print(job._number, flush=True)
time.sleep(600)
"""
    (tmp_path / "ticket").touch()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        assert console.stdout.readline().strip().isdecimal()
        until((tmp_path / "begun").exists)
        kept = psutil.Process(console.pid).children()
        console.kill()
    until(lambda: cluster.queue() == [] and cluster.tasks() == [], why_not=cluster.queue)
    assert not psutil.wait_procs(kept, timeout=SOON_S)[1]
    assert not (tmp_path / "ticket").exists()


def test_what_was_asked_for_counts_more_than_what_the_shell_has_however_it_is_spelled(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"PARTITION": "debug", "TIMELIMIT": "1", "JOB_NAME": "other", "ARRAY_INX": "0-3", "WAIT": "1"}
    for name, value in said.items():
        monkeypatch.setenv(f"SBATCH_{name}", value)
    folder = tmp_path / "a b#%j'\"é"
    folder.mkdir()
    engine = EngineOptions(name="slurm", partition="small", options=("--comment='two words # and a half'",))
    options = sbatch_options(preset_of(ONE).trials, engine, folder, "a b")
    job = Job("a b", folder / "ticket", folder / "job.log")
    try:
        (folder / "job.sh").write_text(render(options, folder / "ticket", "/bin/true"))
        job.submit(options, folder / "job.sh")
        row = cluster.says("squeue", "--noheader", "--states=all", f"--jobs={job._number}", "--format=%i|%P|%l|%j|%k")
        assert row.strip() == f"{job._number}|small|1:00|a b|two words # and a half"
        assert ended(job) == f"job {job._number} has completed"
    finally:
        job.close()


# With commands that do as they are told.


def test_slurm_that_does_not_answer_for_a_while_is_said_once_and_harms_nobody(fakes: Fakes, submit: Submit) -> None:
    fakes.job("RUNNING", nodes="n1")
    job = submit()
    heard(job, "runs on n1")
    fakes.set(broken={"squeue": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"})
    job.hurry()
    assert heard(job, "may be out of date") == (
        "the state of job 17 may be out of date: squeue: slurm_load_jobs error: Unable to contact slurm controller "
        "(connect failure)"
    )
    asked = len(fakes.calls("squeue"))
    job.hurry()
    until(lambda: len(fakes.calls("squeue")) > asked)
    assert job.take_notices() == []
    assert not job.status.is_over
    fakes.set(broken={})
    fakes.job("TIMEOUT")
    job.hurry()
    assert ended(job) == "job 17 reached its time limit: raise it with --time"


def test_one_that_slurm_has_forgotten_is_over(fakes: Fakes, submit: Submit) -> None:
    assert ended(submit()) == "job 17 is no longer known to Slurm"


def test_one_that_waits_is_cancelled_at_once_and_one_that_runs_may_end_by_itself(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.job("RUNNING", nodes="n1")
    assert keeper.cancel("x", 0.3) == "it is RUNNING"
    assert fakes.calls("scancel") == []
    monkeypatch.setattr(keeper, "GRACE_S", 0)
    assert keeper.cancel("x", SOON_S) == ""
    assert len(fakes.calls("scancel")) == 1
    fakes.job("PENDING")
    monkeypatch.setattr(keeper, "GRACE_S", 10 * SOON_S)
    assert keeper.cancel("x", SOON_S) == ""
    [_, [name, user]] = fakes.calls("scancel")
    assert name == "--name=x"
    assert user.startswith("--user=")
    monkeypatch.setattr(keeper, "GRACE_S", 0.2)  # Slurm may take minutes to clean a node that is lost
    fakes.job("COMPLETING", nodes="n1")
    assert keeper.cancel("x", SOON_S) == ""
    assert len(fakes.calls("scancel")) == 2


def test_a_job_that_cannot_be_ended_is_said_with_what_to_do(fakes: Fakes, submit: Submit) -> None:
    fakes.job("PENDING")
    fakes.set(broken={"scancel": "scancel: error: Kill job error on job id 17: Access/permission denied"})
    job = submit()
    assert job.close() == (
        "job 17 may be left (scancel: Kill job error on job id 17: Access/permission denied): a process here tries to "
        "end it for 30 minutes; or cancel it with `scancel 17`"
    )
    fakes.set(broken={})
    until(lambda: job._keeper.poll() is not None)
    assert len(fakes.calls("scancel")) > 1


def test_an_sbatch_that_does_not_answer_may_have_submitted_all_the_same(
    fakes: Fakes, tmp_path: Path, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_job, "SUBMIT_S", 0.2)
    fakes.job("PENDING")
    fakes.set(slow={"sbatch": 5})
    job = make_job(tmp_path)
    with pytest.raises(LaunchRefused, match=r"sbatch has not answered within 0.2 s"):
        submit_body(job, tmp_path, "true")
    assert job.status.is_over
    assert job.close() is None
    [cancelled] = fakes.calls("scancel")
    assert cancelled[0] == "--name=ddptui-test"


def test_an_answer_of_sbatch_without_a_number_is_said(fakes: Fakes, tmp_path: Path) -> None:
    fakes.set(answer="Submitted, thank you\n")
    fakes.job("PENDING")
    job = make_job(tmp_path)
    with pytest.raises(LaunchRefused, match="no number in sbatch's answer: 'Submitted, thank you"):
        submit_body(job, tmp_path, "true")
    assert job.close() is None
    assert len(fakes.calls("scancel")) == 1


@pytest.fixture
def engine(fakes: Fakes, tmp_path: Path) -> Iterator[SlurmEngine]:
    fakes.job("PENDING")
    preset = preset_of(ONE)
    engine = SlurmEngine(preset, Run.create(tmp_path, preset, {}))
    yield engine
    engine.close()


def start(engine: SlurmEngine) -> Launch:
    with RankServer(2) as hub:
        return engine.start(
            preset_of(ONE).trials[0], [], RepeatJournal(engine.ticket_file.parent, 1, io.BytesIO()), hub
        )


def job_over(engine: SlurmEngine, fakes: Fakes) -> Job:
    fakes.job("TIMEOUT")
    assert engine._job is not None
    engine._job.wait_for_end(SOON_S)
    return engine._job


def test_an_engine_that_cannot_listen_again_can_be_closed(
    engine: SlurmEngine, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(engine)
    job_over(engine, fakes)
    monkeypatch.setattr(engine, "_port", LAST_PORT + 1)
    with pytest.raises(OSError, match="are taken"):
        start(engine)
    assert engine.close() is None


def test_a_node_that_slurm_has_ended_waits_for_slurms_reason(engine: SlurmEngine, fakes: Fakes) -> None:
    launch = start(engine)
    ticket = read_ticket(str(engine.ticket_file))
    with closing(ConsoleConnection(ticket)) as node:
        node.send(Join(version=__version__, token=ticket.token, node=None, host="n1", address="::", interface="a"))
        until(lambda: bool(launch.take_notices()) and not launch.is_waiting)
        node.send(LaunchEnded(number=1, exit_code=-15, logs={}))  # as after SIGTERM; its Leave is still under way
        until(lambda: bool(launch.take_notices()) or launch.exit_code is not None)
        fakes.job("TIMEOUT")
        launch.stop()
        assert launch.end_reason() == "job 17 reached its time limit: raise it with --time"


def test_a_job_that_may_be_left_harms_no_later_launch_and_is_said_at_the_end(engine: SlurmEngine, fakes: Fakes) -> None:
    start(engine)
    first, ticket = job_over(engine, fakes), engine.ticket_file
    fakes.set(broken={"squeue": "no contact"})
    start(engine)
    assert str(engine.ticket_file) in (ticket.parent / "job.sh").read_text()
    fakes.set(broken={})
    until(lambda: first._keeper.poll() is not None)  # one that ends late deletes its own ticket only
    assert engine.ticket_file.exists()
    assert not ticket.exists()
    assert str(engine.close()).startswith("job 17 may be left (squeue: no contact)")


def test_a_run_whose_job_is_over_submits_another_one(
    engine: SlurmEngine, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_engine, "END_WITHIN_S", 0)
    tickets = []
    for count in (1, 1, 2):  # the second launch is one of the first job, too
        launch = start(engine)
        assert launch.is_waiting
        tickets.append(engine.ticket_file.read_text())
        submitted = [call for call in fakes.calls("sbatch") if "--parsable" in call]
        assert len(submitted) == count
        if len(tickets) == 2:
            fakes.job("TIMEOUT")
            assert engine._job is not None
            engine._job.hurry()
            until(lambda launch=launch: launch.exit_code is not None)
            assert launch.end_reason() == "job 17 reached its time limit: raise it with --time"
            fakes.job("PENDING")
        launch.stop()
    names = [word for call in submitted for word in call if word.startswith("--job-name=")]
    assert len(set(names)) == 2
    assert tickets[0] == tickets[1] != tickets[2]
    assert engine.close() is None
    assert not engine.ticket_file.exists()


def test_without_its_keeper_the_console_cancels_the_job_all_the_same(fakes: Fakes, submit: Submit) -> None:
    fakes.job("PENDING")
    job = submit()
    job._keeper.kill()
    job._keeper.wait()
    assert job.close() is None
    assert len(fakes.calls("scancel")) == 1


def test_signals_do_not_end_the_keeper(fakes: Fakes, submit: Submit) -> None:
    fakes.job("PENDING")
    job = submit()
    heard(job, "is queued")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        job._keeper.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        job._keeper.wait(0.2)
    assert fakes.calls("scancel") == []


def test_it_is_asked_less_and_less_often_while_nothing_changes(
    fakes: Fakes, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float | None] = []
    fakes.job("PENDING", reason="Priority")
    wait = slurm_job.threading.Event.wait

    def note(self: object, timeout: float | None = None) -> bool:
        if slurm_job.threading.current_thread().name != "slurm":
            return wait(self, timeout)  # type: ignore[arg-type]
        pauses.append(timeout)
        return False

    monkeypatch.setattr(slurm_job.threading.Event, "wait", note)
    submit()
    until(lambda: len(pauses) > 8)
    assert pauses[:8] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert all("--jobs=17" in arguments for arguments in fakes.calls("squeue"))
    fakes.job("CONFIGURING")
    until(lambda: pauses.count(1) > 1)


def test_what_a_job_around_the_console_has_set_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"SLURM_CONF", "SBATCH_PARTITION"}
    for name in (*kept, "SLURM_JOB_ID", "SLURM_MEM_PER_NODE", "SBATCH_ARRAY_INX", "SBATCH_WAIT"):
        monkeypatch.setenv(name, "x")
    assert {name for name in keeper.environment() if name.startswith(("SLURM_", "SBATCH_"))} == kept
