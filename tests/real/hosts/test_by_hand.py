"""Ranks on several hosts, joined to a run or started by hand: they meet, they are measured, and nothing is left."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.hosts.conftest import SOON_S, Consoles, Host, until
from tests.support.runner import QUICK, arguments, environment, write_preset
from tests.support.running import LONG

pytestmark = pytest.mark.rare
TRIALS = """
[[trial]]
name = "spawn"
launch = "spawn"
world_size = 3
[[trial]]
name = "launch"
launch = "launch"
strategy = "ddp"
[[trial]]
name = "file"
launch = "process"
init_method = "file"
gpus_per_rank = 2
[[trial]]
name = "killed"
[[trial.fault]]
kind = "kill"
rank = 0
step = 3
"""


@contextmanager
def cut_off(host: Host) -> Iterator[None]:
    host.cut_off()
    try:
        yield
    finally:
        host.plug_in()


def test_a_run_on_two_hosts_has_the_table_of_one(hosts: list[Host], consoles: Consoles, tmp_path: Path) -> None:
    preset = write_preset(tmp_path, f"[defaults]\n{QUICK}{TRIALS}")
    console = consoles.console(preset, "--nodes", "2", "--shared", str(tmp_path))
    nodes = consoles.nodes()
    out, err = console.communicate(timeout=2 * SOON_S)
    assert console.returncode == 1, err
    assert [node.wait(SOON_S) for node in nodes] == [0, 0]
    told = json.loads(out)
    assert [trial["status"] for trial in told["trials"]] == ["ok", "ok", "ok", "failed"]
    killed = told["trials"].pop()
    assert killed["error"].startswith("rank 0 was killed by SIGKILL"), killed["error"]
    placed = {trial["name"]: [rank["host"] for rank in trial["repeats"][0]["ranks"]] for trial in told["trials"]}
    two = ["host-1", "host-2"]
    assert placed == {"spawn": ["host-1", *two], "launch": two, "file": two}
    for trial in told["trials"]:
        repeat = trial["repeats"][0]
        assert repeat["in_sync"]["parameters"]
        assert repeat["averaging"]["error"] < 1e-5
        assert repeat["steps"] == 6
        assert repeat["wait_ms"] is not None
    assert "stand-in" in told["trials"][2]["repeats"][0]["ranks"][1]["device"]
    assert "waiting for 2 nodes" in err
    assert "node 1 (host-2, 10.97.0.3) has joined by eth0" in err
    run = next(consoles.runs.iterdir())
    assert not (run / "ticket").exists()
    assert (run / "trial-spawn" / "repeat-1" / "rank-2.log").is_file()
    assert not list(tmp_path.glob("ddptui-meeting-*"))


def test_a_node_that_is_cut_off_is_named_and_ends_its_ranks(
    hosts: list[Host], consoles: Consoles, tmp_path: Path
) -> None:
    preset = write_preset(tmp_path, f'[[trial]]\nname = "long"\n{LONG}')
    console = consoles.console(preset, "--nodes", "2")
    nodes = consoles.nodes()
    until(lambda: consoles.steps() > 50)
    with cut_off(hosts[2]):
        out, _ = console.communicate(timeout=SOON_S)
        assert console.returncode == 1
        error = json.loads(out)["trials"][0]["error"]
        assert error.startswith("node 1 (host-2, 10.97.0.3) was lost, with rank 1"), error
        assert nodes[0].wait(SOON_S) == 0
        _, said = nodes[1].communicate(timeout=SOON_S)
        assert nodes[1].returncode == 2
        assert "lost the console: the connection has ended" in said
        until(lambda: not hosts[2].pids())


def test_nothing_is_left_on_a_node_whose_console_was_killed(
    hosts: list[Host], consoles: Consoles, tmp_path: Path
) -> None:
    preset = write_preset(tmp_path, f'[[trial]]\nname = "long"\nworld_size = 1\n{LONG}')
    console = consoles.console(preset, "--nodes", "1")
    node = consoles.start(hosts[1], "join", consoles.ticket())
    until(lambda: consoles.steps() > 50)
    for pid in hosts[0].pids():
        subprocess.run(["kill", "-9", str(pid)], check=False)
    assert console.wait(SOON_S) != 0
    assert node.wait(SOON_S) == 2
    until(lambda: not hosts[1].pids())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_node_that_is_ended_is_named_and_takes_its_ranks_along(
    hosts: list[Host], consoles: Consoles, tmp_path: Path, number: signal.Signals
) -> None:
    """Though the other node's rank may be the first to say that something is wrong."""
    preset = write_preset(tmp_path, f'[[trial]]\nname = "long"\nstart_method = "fork"\n{LONG}')
    console = consoles.console(preset, "--nodes", "2")
    nodes = consoles.nodes()
    until(lambda: consoles.steps() > 50)
    os.kill(next(filter(is_joined, hosts[2].pids())), number)
    out, _ = console.communicate(timeout=SOON_S)
    assert json.loads(out)["trials"][0]["error"].startswith("node 1 (host-2, 10.97.0.3) was lost, with rank 1")
    for node in nodes:
        node.wait(SOON_S)
    until(lambda: not hosts[2].pids())


def is_joined(pid: int) -> bool:
    """Whether it is `ddptui join` itself, and not what it was started by."""
    program, *words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"python" in program and b"join" in words


BY_HAND = {
    "env": ("workers.spawn", {"NNODES": "2", "MASTER_ADDR": "host-1", "MASTER_PORT": "15432"}),
    "task": ("workers.task", {"WORLD_SIZE": "2", "MASTER_ADDR": "host-1", "MASTER_PORT": "15433"}),
}


@pytest.mark.parametrize("way", ["env", "task", "file", "c10d"])
def test_started_by_hand_on_each_host_they_meet(
    hosts: list[Host], consoles: Consoles, tmp_path: Path, way: str
) -> None:
    """As the lines say that `ddptui presets NAME --nodes 2` prints; and by torchrun's own rendezvous."""
    fields = ["world_size=2", "model=mlp", "width=16", "depth=1", "steps=4", "warmup_steps=1", "threads=1", "save=true"]
    started = []
    for number, host in enumerate(hosts[1:]):
        (folder := tmp_path / str(number)).mkdir()
        started.append(
            subprocess.Popen(
                host.line(*_by_hand(way, fields)),
                env=environment(tmp_path) | _variables(way, number, tmp_path),
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [process.communicate(timeout=SOON_S)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert len(list(tmp_path.glob("*/model-rank-*.pth"))) == 2


def _by_hand(way: str, fields: list[str]) -> list[str]:
    python = arguments()[0]
    if way == "c10d":
        rendezvous = ["--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_id=r"]
        rendezvous += ["--rdzv_endpoint=host-1:15434"]
        return [python, "-m", "torch.distributed.run", *rendezvous, "-m", "workers.launch", *fields[1:]]
    if way == "file":
        return [python, "-m", "workers.spawn", "init_method=file", *fields]
    return [python, "-m", BY_HAND[way][0], *(fields[1:] if way == "task" else fields)]


def _variables(way: str, number: int, folder: Path) -> dict[str, str]:
    named = {"PYTHONPATH": str(Path(__file__).parents[3])}
    if way == "task":
        return named | BY_HAND["task"][1] | {"RANK": str(number)}
    if way == "env":
        return named | BY_HAND["env"][1] | {"NODE_RANK": str(number)}
    if way == "file":
        meets = {"NNODES": "2", "NODE_RANK": str(number), "MASTER_ADDR": "host-1", "MASTER_PORT": "15435"}
        return named | meets | {"INIT_METHOD": f"file://{folder}/meeting"}
    return named


def test_a_name_that_stands_for_loopback_is_refused_before_anything_starts(hosts: list[Host], tmp_path: Path) -> None:
    """Where Debian's hosts file gives a host's own name to 127.0.1.1, gloo would wait for itself."""
    meets = {"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "15436"}
    done = subprocess.run(
        hosts[1].line(*_by_hand("env", ["world_size=2"])),
        env=environment(tmp_path) | {"PYTHONPATH": str(Path(__file__).parents[3])} | meets,
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the name 'localhost' resolves to 127.0.0.1 here, which is loopback" in done.stderr
