"""Whole runs on a real cluster: the same table as on one host, and nothing left in the queue or on a node, however the
console goes."""

import json
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddptui.engines.join.ticket import read_ticket
from tests.support.runner import ENOUGH_S, QUICK, ddptui, family, results_of, run_json, start, survivors, write_preset
from tests.support.running import LONG, WALK
from tests.support.slurm_cluster import Cluster
from tests.support.waiting import until

GONE_WITHIN_S = 30
FORKED = 'start_method = "fork"'  # torch is imported once a node
ON_TWO_NODES = ("--engine", "slurm", "--nodes", "2")


def preset(folder: Path, fields: str, quick: str = QUICK) -> Path:
    return write_preset(folder, f'[[trial]]\nname = "one"\nstrategy = "all_reduce"\n{fields}\n{quick}')


def repeat(runs: Path) -> Path:
    [folder] = runs.glob("*/trial-one/repeat-1")
    return folder


def journal(runs: Path) -> list[dict[str, Any]]:
    paths = list(runs.glob("*/trial-one/repeat-1/messages.jsonl"))
    lines = paths[0].read_text().splitlines(keepends=True) if paths else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def test_the_launches_of_a_run_are_on_the_nodes_of_one_job(cluster: Cluster, tmp_path: Path) -> None:
    two = preset(tmp_path, f'launch = "spawn"\nworld_size = 3\n{FORKED}').read_text()
    two += f'[[trial]]\nname = "two"\nstrategy = "all_reduce"\n{FORKED}\ninit_method = "file"\n{QUICK}'
    results = results_of(tmp_path / "runs", write_preset(tmp_path, two), *ON_TWO_NODES)
    for trial in results["trials"]:
        [figures] = trial["repeats"]
        assert [rank["rank"] for rank in figures["ranks"]] == list(range(trial["config"]["world_size"]))
        assert figures["in_sync"]["parameters"] is True
        assert figures["train_time_s"] > 0
    notices = [message["text"] for message in journal(tmp_path / "runs") if message["type"] == "Notice"]
    assert any(" runs on n" in text for text in notices)
    [run] = (tmp_path / "runs").iterdir()
    kept = {path.name for path in run.iterdir()}
    assert {"job.sh", "job.log"} <= kept
    assert not {name for name in kept if name.startswith(("ticket", "ddptui-meeting"))}
    assert (run / "job.log").read_text().count("this is node") == 2
    assert (repeat(tmp_path / "runs") / "rank-2.log").is_file()
    assert cluster.tasks() == []
    jobs = cluster.says("squeue", "--noheader", "--states=all", "--format=%T %j").splitlines()
    assert [job.split()[0] for job in jobs if run.name in job] == ["COMPLETED"]


@pytest.mark.rare
def test_a_rank_that_fails_is_named(cluster: Cluster, tmp_path: Path) -> None:
    fault = '[[trial.fault]]\nkind = "raise"\nrank = 1\nstep = 3\n'
    results, code = run_json(
        tmp_path / "runs", preset(tmp_path, 'launch = "launch"\nworld_size = 2', QUICK + fault), *ON_TWO_NODES
    )
    assert code == 1
    [raised] = results["trials"]
    assert raised["error"].startswith("rank 1 ")
    assert "FAULT" in raised["error"].upper()
    assert cluster.tasks() == []


def test_what_slurm_refuses_is_said_before_anything_is_kept(cluster: Cluster, tmp_path: Path) -> None:
    done = ddptui(
        tmp_path / "runs", "--preset", str(preset(tmp_path, "")), "--no-ui", *ON_TWO_NODES, "--partition", "x"
    )
    assert done.returncode == 2
    assert "invalid partition specified: x" in done.stderr
    assert not (tmp_path / "runs").exists()


class Running:
    """A console whose trial is under way on the nodes."""

    def __init__(self, folder: Path, more: str) -> None:
        self.runs = folder / "runs"
        long = preset(folder, f'launch = "spawn"\nworld_size = 2\n{FORKED}', LONG + WALK + more)
        self.console = start(self.runs, "--preset", str(long), "--json", *ON_TWO_NODES)
        until(lambda: self._stepping() == {0, 1} or self.console.poll() is not None)
        self.family = family(self.console.pid)
        pids = {message["rank"]: message["pid"] for message in journal(self.runs) if message["type"] == "Hello"}
        self.ranks = [psutil.Process(pids[rank]) for rank in (0, 1)]

    def _stepping(self) -> set[int]:
        """The ranks that have made a step."""
        return {message["rank"] for message in journal(self.runs) if message["type"] == "Step"}

    def end(self) -> None:
        if self.console.poll() is None:
            self.console.kill()
        self.console.communicate()
        for process in survivors([*self.family, *self.ranks], 0):
            process.kill()


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    running = Running(tmp_path, getattr(request, "param", ""))
    yield running
    running.end()


@pytest.mark.rare
def test_a_rank_that_is_killed_is_named(cluster: Cluster, running: Running) -> None:
    running.ranks[0].kill()  # it cannot say so itself
    output, _ = running.console.communicate(timeout=GONE_WITHIN_S)
    [killed] = json.loads(output)["trials"]
    assert killed["error"].splitlines()[0] == "rank 0 was killed by SIGKILL"
    assert running.console.returncode == 1
    assert_nothing_is_left(cluster, running)


@pytest.mark.rare
@pytest.mark.parametrize("running", [f'[[trial]]\nname = "two"\nlaunch = "single"\n{QUICK}'], indirect=True)
def test_a_job_that_others_cancel_ends_the_launch_and_the_next_has_another_job(
    cluster: Cluster, running: Running
) -> None:
    cluster.says("scancel", "--user=root")
    output, _ = running.console.communicate(timeout=ENOUGH_S)
    [cancelled, next_one] = json.loads(output)["trials"]
    assert next_one["status"] == "ok"
    assert "was canceled outside this console" in cancelled["error"].splitlines()[0]
    assert running.console.returncode == 1
    assert_nothing_is_left(cluster, running)


@pytest.mark.rare
def test_nothing_is_left_when_it_is_stopped(cluster: Cluster, running: Running) -> None:
    running.console.send_signal(signal.SIGINT)
    running.console.communicate(timeout=GONE_WITHIN_S)
    assert running.console.returncode == 130
    assert_nothing_is_left(cluster, running)


def test_secrets_are_nowhere_to_be_seen_and_nothing_is_left_when_the_console_is_killed(
    cluster: Cluster, running: Running
) -> None:
    [ticket] = running.runs.glob("*/ticket-*")
    assert stat.S_IMODE(ticket.stat().st_mode) == 0o600
    read = read_ticket(str(ticket))
    secrets = [ticket.read_text().strip(), read.token, *read.keys]
    tasks = cluster.tasks()
    command_lines = " ".join(word for process in tasks for word in process.cmdline())
    assert "join --as slurm" in command_lines
    [srun, *_] = [process for process in tasks if process.name() == "srun"]  # it sends its environment to the nodes
    assert not any(secret in command_lines + str(srun.environ()) for secret in secrets)

    running.console.kill()
    assert survivors([*running.family, *running.ranks], GONE_WITHIN_S) == []
    assert_nothing_is_left(cluster, running)
    assert not ticket.exists()


def assert_nothing_is_left(cluster: Cluster, running: Running) -> None:
    assert cluster.queue() == []
    assert survivors([*running.family, *running.ranks], 1) == []
    assert cluster.tasks() == []
