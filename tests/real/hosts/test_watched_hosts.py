"""A training of several hosts, each with `ddptui watch --join`, and a console on another that watches it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ddptui.wire.messages import VERSION
from tests.real.hosts.conftest import SOON_S, Consoles, Host, until
from tests.support.watching import script

pytestmark = pytest.mark.rare
HERE = Path(__file__).parents[3]


def train(consoles: Consoles, hosts: list[Host], *words: str) -> "list[subprocess.Popen[str]]":
    """Start a training on all hosts but the first, a rank on each."""
    ticket = consoles.ticket()
    common = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1", "--master_port=29400"]
    return [
        consoles.start(
            host, "watch", "--join", ticket, "--",
            *common, f"--node_rank={number}", f"--master_addr={hosts[1].address}", *script("plain", *words),
        )
        for number, host in enumerate(hosts[1:])
    ]  # fmt: skip


def test_who_is_late_on_another_host_is_named(hosts: list[Host], consoles: Consoles) -> None:
    console = consoles.start(hosts[0], "watch", "--listen", "--json", "--steps", "40")
    nodes = train(consoles, hosts, "ddp", "backward")
    _, said = console.communicate(timeout=SOON_S)
    assert console.returncode == 0, said
    assert [node.wait(SOON_S) for node in nodes] == [0, 0]
    [line] = [line for line in said.splitlines() if line.startswith("ddptui: waiting")]
    assert "`ddptui watch --join " in line
    [trial] = json.loads(next(consoles.runs.glob("*/results.json")).read_text())["trials"]
    assert (trial["name"], trial["status"]) == ("elsewhere", "ok")
    [repeat] = trial["repeats"]
    assert (repeat["steps"], [rank["host"] for rank in repeat["ranks"]]) == (40, ["host-1", "host-2"])
    culprit = trial["summary"]["culprit"]
    assert (culprit["rank"], culprit["phase"]) == (1, "backward")
    assert culprit["excess_s"]["estimate"] == pytest.approx(40 * 0.02, rel=0.1)
    assert not list(consoles.runs.glob("*/ticket"))


def test_the_training_goes_on_when_the_console_is_interrupted_or_cut_off(hosts: list[Host], consoles: Consoles) -> None:
    console = consoles.start(hosts[0], "watch", "--listen")
    nodes = train(consoles, hosts, "ddp", "forward", "epochs=4")
    until(lambda: consoles.steps() > 60)
    os.kill(hosts[0].pids()[-1], signal.SIGINT)
    _, said = console.communicate(timeout=SOON_S)
    assert console.returncode == 130
    assert "Rank 1 holds everyone up" in said
    assert [node.wait(SOON_S) for node in nodes] == [0, 0]
    assert all("loss" in node.communicate()[0] for node in nodes)


def test_a_training_whose_console_has_gone_before_it_ends_as_it_would(hosts: list[Host], consoles: Consoles) -> None:
    console = consoles.start(hosts[0], "watch", "--listen")
    ticket = Path(consoles.ticket()).read_text()
    os.kill(hosts[0].pids()[-1], signal.SIGKILL)
    console.communicate(timeout=SOON_S)
    node = consoles.start(hosts[1], "watch", "--join", ticket, "--", sys.executable, *script("plain", "alone", "none"))
    printed, _ = node.communicate(timeout=SOON_S)
    assert (node.returncode, printed.count("loss")) == (0, 1)


def test_a_training_whose_console_has_another_version_ends_as_it_would(
    hosts: list[Host], consoles: Consoles, tmp_path: Path
) -> None:
    other = tmp_path / "other"  # the whole of ddptui, which speaks another version of the protocol
    for package in ("ddptui", "workers"):
        shutil.copytree(HERE / package, other / package, ignore=shutil.ignore_patterns("__pycache__"))
    messages = other / "ddptui" / "wire" / "messages.py"
    messages.write_text(messages.read_text().replace(f"VERSION = {VERSION}", "VERSION = 99"))
    console = consoles.start(hosts[0], "watch", "--listen")
    command = [sys.executable, *script("plain", "alone", "none", "epochs=20")]
    node = consoles.start(hosts[1], "watch", "--join", consoles.ticket(), "--", *command, cwd=other)
    printed, _ = node.communicate(timeout=SOON_S)
    assert (node.returncode, printed.count("loss")) == (0, 1)
    os.kill(hosts[0].pids()[-1], signal.SIGINT)
    _, said = console.communicate(timeout=SOON_S)
    assert "rank 0 speaks version 99 of ddptui's protocol" in said
