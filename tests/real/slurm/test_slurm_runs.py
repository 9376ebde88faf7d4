"""Whole runs on a real cluster: the same table as on one host, and nothing left in the queue or on a node, however the
console goes."""

import json
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddptui.wire.connection import KEYS, TOKEN
from tests.support.runner import ENOUGH_S, QUICK, ddptui, family, results_of, run_json, start, survivors, write_preset
from tests.support.running import LONG, WALK
from tests.support.slurm_cluster import Cluster

GONE_WITHIN_S = 30
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


@pytest.mark.parametrize(
    ("tasks", "fields"),
    [
        ("node", 'launch = "launch"\nworld_size = 3'),
        pytest.param("rank", 'launch = "spawn"\nworld_size = 3', marks=pytest.mark.rare),
        pytest.param("array", 'launch = "spawn"\nworld_size = 2', marks=pytest.mark.rare),
    ],
)
def test_ranks_run_on_two_nodes(cluster: Cluster, tmp_path: Path, tasks: str, fields: str) -> None:
    where = ["--engine", "slurm"] if tasks == "array" else ON_TWO_NODES  # Slurm places the jobs of an array itself
    results = results_of(tmp_path / "runs", preset(tmp_path, fields), *where, "--tasks", tasks)
    [trial] = results["trials"]
    [figures] = trial["repeats"]
    assert [rank["rank"] for rank in figures["ranks"]] == list(range(trial["config"]["world_size"]))
    assert figures["in_sync"]["parameters"] is True
    assert figures["train_time_s"] > 0
    notices = [message["text"] for message in journal(tmp_path / "runs") if message["type"] == "Notice"]
    assert any(" runs on n" in text for text in notices)
    left = {path.name for path in repeat(tmp_path / "runs").iterdir()}
    assert "job.sh" in left
    assert not left & {"wire.env", "ended", "meeting"}
    assert cluster.tasks() == []


@pytest.mark.rare
def test_a_rank_that_fails_is_named(cluster: Cluster, tmp_path: Path) -> None:
    fault = '[[trial.fault]]\nkind = "raise"\nrank = 1\nstep = 3\n'
    results, code = run_json(tmp_path / "runs", preset(tmp_path, "world_size = 2", QUICK + fault), *ON_TWO_NODES)
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
    assert "no partition 'x'; the partitions are: debug, small" in done.stderr
    assert not (tmp_path / "runs").exists()


class Running:
    """A console whose trial is under way on the nodes."""

    def __init__(self, folder: Path, tasks: str) -> None:
        self.runs = folder / "runs"
        long = preset(folder, 'launch = "spawn"\nworld_size = 2', LONG + WALK)
        self.console = start(self.runs, "--preset", str(long), "--json", *ON_TWO_NODES, "--tasks", tasks)
        self._wait_until_it_runs()
        self.family = family(self.console.pid)
        pids = {message["rank"]: message["pid"] for message in journal(self.runs) if message["type"] == "Hello"}
        self.ranks = [psutil.Process(pids[rank]) for rank in (0, 1)]

    def _wait_until_it_runs(self) -> None:
        deadline = time.monotonic() + ENOUGH_S
        while len({message["rank"] for message in journal(self.runs) if message["type"] == "Step"}) < 2:
            assert self.console.poll() is None, self.console.communicate()
            assert time.monotonic() < deadline, "the trial never ran"
            time.sleep(0.1)  # the journal is a file: there is nothing to wait on

    def end(self) -> None:
        if self.console.poll() is None:
            self.console.kill()
        self.console.communicate()
        for process in survivors([*self.family, *self.ranks], 0):
            process.kill()


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    running = Running(tmp_path, request.param)
    yield running
    running.end()


@pytest.mark.rare
@pytest.mark.parametrize("running", ["rank"], indirect=True)
def test_a_rank_that_is_killed_is_named(cluster: Cluster, running: Running) -> None:
    running.ranks[0].kill()  # it cannot say so itself
    output, _ = running.console.communicate(timeout=GONE_WITHIN_S)
    [killed] = json.loads(output)["trials"]
    assert killed["error"].splitlines()[0] == "rank 0 killed by SIGKILL"
    assert running.console.returncode == 1
    assert_nothing_is_left(cluster, running)


@pytest.mark.rare
@pytest.mark.parametrize("running", ["rank"], indirect=True)
def test_nothing_is_left_when_it_is_stopped(cluster: Cluster, running: Running) -> None:
    running.console.send_signal(signal.SIGINT)
    running.console.communicate(timeout=GONE_WITHIN_S)
    assert running.console.returncode == 130
    assert_nothing_is_left(cluster, running)


@pytest.mark.parametrize("running", ["rank"], indirect=True)
def test_secrets_are_nowhere_to_be_seen_and_nothing_is_left_when_the_console_is_killed(
    cluster: Cluster, running: Running
) -> None:
    secrets = secrets_of(running)
    tasks = cluster.tasks()
    command_lines = " ".join(word for process in tasks for word in process.cmdline())
    assert "workers.task" in command_lines
    [srun, *_] = [process for process in tasks if process.name() == "srun"]  # it sends its environment to the nodes
    assert not any(secret in command_lines + str(srun.environ()) for secret in secrets)

    assert_a_killed_console_leaves_nothing(cluster, running)


@pytest.mark.rare
@pytest.mark.parametrize("running", ["node"], indirect=True)
def test_nothing_is_left_when_the_console_is_killed(cluster: Cluster, running: Running) -> None:
    assert_a_killed_console_leaves_nothing(cluster, running)


def assert_a_killed_console_leaves_nothing(cluster: Cluster, running: Running) -> None:
    running.console.kill()
    assert survivors([*running.family, *running.ranks], GONE_WITHIN_S) == []
    assert_nothing_is_left(cluster, running)
    assert not (repeat(running.runs) / "wire.env").exists()


def assert_nothing_is_left(cluster: Cluster, running: Running) -> None:
    assert cluster.queue() == []
    assert survivors([*running.family, *running.ranks], 1) == []
    assert cluster.tasks() == []


def secrets_of(running: Running) -> list[str]:
    """The token and the keys, that let a rank in."""
    lines = (repeat(running.runs) / "wire.env").read_text().splitlines()
    named = [shlex.split(line.removeprefix("export "))[0].partition("=") for line in lines]
    secrets = [value for name, _, value in named if name in (TOKEN, KEYS)]
    assert len(secrets) == 2
    return secrets
