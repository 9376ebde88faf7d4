"""Whole runs on a real cluster: the same table as on one host, and nothing left in the queue or on a node, however the
console goes."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.runner import QUICK, ddptui, family, run_json, start, survivors, write_preset
from tests.slurm.cluster import Cluster

RUNNING_WITHIN_S = 90
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
        ("rank", 'launch = "spawn"\nworld_size = 3'),
        ("node", 'launch = "launch"\nworld_size = 3'),
        ("node", 'launch = "process"\nworld_size = 2'),
        ("array", 'launch = "spawn"\nworld_size = 2'),
    ],
)
def test_ranks_run_on_two_nodes(cluster: Cluster, tmp_path: Path, tasks: str, fields: str) -> None:
    results, code = run_json(tmp_path / "runs", preset(tmp_path, fields), *ON_TWO_NODES, "--tasks", tasks)
    assert code == 0, results
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


def test_a_rank_that_fails_is_named_with_its_log(cluster: Cluster, tmp_path: Path) -> None:
    fault = '[[trial.fault]]\nkind = "raise"\nrank = 1\nstep = 3\n'
    results, code = run_json(tmp_path / "runs", preset(tmp_path, "world_size = 2", QUICK + fault), *ON_TWO_NODES)
    assert code == 1
    [trial] = results["trials"]
    assert trial["error"].startswith("rank 1 ")
    assert "FAULT" in trial["error"].upper()
    assert cluster.tasks() == []


def test_what_slurm_refuses_is_said_before_anything_is_kept(cluster: Cluster, tmp_path: Path) -> None:
    done = ddptui(
        tmp_path / "runs", "--preset", str(preset(tmp_path, "")), "--no-ui", *ON_TWO_NODES, "--partition", "x"
    )
    assert done.returncode == 2
    assert "no partition 'x'; there are debug, small" in done.stderr
    assert not (tmp_path / "runs").exists()


class Running:
    """A console whose trial is under way on the nodes."""

    def __init__(self, folder: Path, tasks: str) -> None:
        self.runs = folder / "runs"
        long = preset(folder, 'launch = "spawn"\nworld_size = 2', QUICK.replace("steps = 8", "steps = 1000000"))
        self.console = start(self.runs, "--preset", str(long), "--json", *ON_TWO_NODES, "--tasks", tasks)
        self._wait_until_it_runs()
        self.family = family(self.console.pid)
        pids = [message["pid"] for message in journal(self.runs) if message["type"] == "Hello"]
        self.ranks = [psutil.Process(pid) for pid in pids]

    def _wait_until_it_runs(self) -> None:
        deadline = time.monotonic() + RUNNING_WITHIN_S
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


@pytest.fixture(params=["rank", "node"])
def running(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    running = Running(tmp_path, request.param)
    yield running
    running.end()


def test_nothing_is_left_when_it_is_stopped(cluster: Cluster, running: Running) -> None:
    running.console.send_signal(signal.SIGINT)
    running.console.communicate(timeout=GONE_WITHIN_S)
    assert running.console.returncode == 130
    assert cluster.queue() == []
    assert survivors([*running.family, *running.ranks], 1) == []
    assert cluster.tasks() == []


def test_nothing_is_left_when_the_console_is_killed(cluster: Cluster, running: Running) -> None:
    os.kill(running.console.pid, signal.SIGKILL)
    assert survivors([*running.family, *running.ranks], GONE_WITHIN_S) == []
    assert cluster.queue() == []
    assert cluster.tasks() == []
    assert not (repeat(running.runs) / "wire.env").exists()


def test_secrets_are_in_no_command_line_and_in_no_environment_that_slurm_sends(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Of srun itself: the tasks read them from the file."""
    running = Running(tmp_path, "rank")
    try:
        secrets = [
            line.partition("=")[2]
            for line in (repeat(running.runs) / "wire.env").read_text().splitlines()
            if line.startswith(("export DDPTUI_TOKEN=", "export DDPTUI_KEYS="))
        ]
        assert len(secrets) == 2
        tasks = {process.pid: process for process in cluster.tasks()}
        for process in [each for each in tasks.values() if each.name() == "srun"]:
            told = " ".join([*process.cmdline(), *process.environ().values()])
            assert not any(secret.strip("'") in told for secret in secrets)
        told = "".join(" ".join(process.cmdline()) for process in tasks.values())
        assert not any(secret.strip("'") in told for secret in secrets)
        assert subprocess.run(["squeue"], capture_output=True, check=True).returncode == 0
    finally:
        running.end()
        deadline = time.monotonic() + GONE_WITHIN_S
        while cluster.queue() and time.monotonic() < deadline:
            time.sleep(0.1)
