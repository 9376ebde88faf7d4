"""What the doctor says about a machine, its folders and its processes: each is made to be missing once."""

import errno
import os
import resource
import shutil
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ddptui import doctor
from ddptui.doctor import machine, processes
from ddptui.doctor.machine import CheckResult
from ddptui.engines.checks import CHECKS
from ddptui.host.network import Interface, NetworkError
from ddptui.host.rank_side import NoAnswer
from tests.support.doctoring import GB, only
from tests.support.failing import failing, failing_with

RAISE_IT = "raise `nofile` in /etc/security/limits.conf (a container: --ulimit nofile=4096)"


def test_this_machine_is_told_without_a_remedy_where_it_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    enough = psutil.virtual_memory()._replace(available=4 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: enough)
    monkeypatch.setattr(machine, "available_cores", lambda: 2)
    assert [finding.remedy for finding in machine.machine()] == ["", "", ""]
    monkeypatch.setattr(psutil, "virtual_memory", lambda: enough._replace(available=GB))
    monkeypatch.setattr(machine, "available_cores", lambda: 1)
    assert [bool(finding.remedy) for finding in machine.machine()] == [False, True, True]
    assert machine.time_remedy(datetime.now(UTC)) == ""
    for year in (1970, 2190):
        assert "timedatectl" in machine.time_remedy(datetime(year, 1, 1, tzinfo=UTC))
    for finding in (*processes.clock(), *processes.orphans()):
        assert finding.remedy == "", finding


@pytest.mark.parametrize("name", ["compiler", "slow links"])
def test_what_only_some_trials_need_is_missed_without_a_remedy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHECKS, name, CHECKS[name]._replace(probe=lambda _: None))
    assert only(machine.need(name, "it works")) == CheckResult(name, "it works")
    monkeypatch.setitem(CHECKS, name, CHECKS[name]._replace(probe=lambda _: "install it"))
    assert only(machine.need(name, "it works")) == CheckResult(name, "install it", tried=False)


def test_the_loopback_interface_is_talked_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not only(machine.interfaces()).remedy
    monkeypatch.setattr(socket, "create_server", failing_with(errno.EADDRNOTAVAIL))
    finding = only(machine.interfaces())
    assert finding.fatal
    assert "ip link set lo up" in finding.remedy


@pytest.mark.parametrize(
    ("soft", "hard", "remedy"),
    [
        (1024, 4096, ""),
        (256, 1024, ""),  # ddptui raises it
        (24, resource.RLIM_INFINITY, ""),
        (64, 64, f"64 ranks need 288 open files per process, but 64 are allowed: {RAISE_IT}"),
        (24, 24, f"2 ranks need 40 open files per process, but 24 are allowed: {RAISE_IT}"),
    ],
)
def test_files_for_2_and_64_ranks(soft: int, hard: int, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    assert only(machine.open_files()).remedy == remedy


@pytest.mark.parametrize(
    ("by_user", "by_group", "remedy"),
    [
        (None, None, ""),
        (1000, None, ""),
        (None, 1000, ""),
        (100, None, "for 64 ranks: raise `ulimit -u`"),
        (100, 5, "2 ranks need 36: raise the container's limit (docker: --pids-limit)"),
        (5, 100, "2 ranks need 36: raise `ulimit -u`"),
    ],
)
def test_room_is_what_the_narrower_limit_leaves(by_user: int | None, by_group: int | None, remedy: str) -> None:
    assert machine.processes_remedy(by_user, by_group) == remedy


def test_the_limits_of_processes_are_read_where_they_stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # root is not held to its limit
    monkeypatch.setattr(resource, "getrlimit", lambda _: (machine._threads_of_user() + 50, 10_000))
    monkeypatch.setattr(machine, "PIDS_FILES", (str(tmp_path / "pids"),))
    assert "ulimit -u" in only(machine.processes()).remedy
    (tmp_path / "pids.max").write_text("30\n")
    (tmp_path / "pids.current").write_text("20\n")
    finding = only(machine.processes())
    assert finding.text.startswith("room for 10 more")
    assert "--pids-limit" in finding.remedy
    (tmp_path / "pids.max").write_text("max\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert only(machine.processes()).text.startswith("no limit")


# Where else ranks could run


def test_a_host_without_slurm_misses_nothing_and_other_hosts_get_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not only(machine.slurm()).tried
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/sbatch")
    monkeypatch.setattr(machine, "refusal", lambda _: "no controller")
    assert only(machine.slurm()) == CheckResult("slurm", "no controller", "ask the cluster's administrators")
    monkeypatch.setattr(machine, "refusal", lambda _: None)
    assert only(machine.slurm()) == CheckResult("slurm", "jobs can be submitted: --engine slurm")
    monkeypatch.setattr(machine, "choose_interface", lambda: Interface("eth7", "10.1.0.7"))
    assert only(machine.join()) == CheckResult("join", "other hosts reach this one at 10.1.0.7 (eth7): --engine join")
    monkeypatch.setattr(machine, "choose_interface", failing(NetworkError("only loopback")))
    assert only(machine.join()) == CheckResult("join", "other hosts cannot reach this one: only loopback", tried=False)


# Folders of runs and of sockets, and shared memory


def test_the_runs_folder_is_written_to_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, disk = machine.check_runs(str(tmp_path / "not" / "there"))
    assert (kept.remedy, disk.name) == ("", "disk")
    assert list(tmp_path.iterdir()) == []
    for free_gb, remedy in ((1.0, ""), (0.9, machine.FREE_SOME)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free_gb * GB: SimpleNamespace(free=free))
        assert [*machine.check_runs(str(tmp_path))][-1].remedy == remedy


@pytest.mark.parametrize("name", ["file", "file/below", "dangling", "dangling/below", ""])
def test_runs_that_cannot_be_kept_are_fatal_and_nothing_stays(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    if not name:  # on a disk that fails half way
        monkeypatch.setattr(os, "fsync", failing_with(errno.ENOSPC))
    [finding] = doctor.findings([("runs", lambda: machine.check_runs(str(tmp_path / name)))])
    assert finding.fatal
    assert ("--runs" if name else "disk is full") in finding.remedy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("RankServer", failing_with(errno.ENOENT)),  # there is no folder for sockets
        ("_hello", lambda _: False),
        ("_hello", failing(NoAnswer("killed by SIGABRT"))),
    ],
)
def test_an_unheard_wire_is_fatal(name: str, found: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not only(machine.check_sockets()).fatal
    monkeypatch.setattr(machine, name, found)
    finding = only(machine.check_sockets())
    assert finding.fatal
    assert "export TMPDIR=" in finding.remedy


def test_sockets_elsewhere_than_wanted_are_said() -> None:
    where = Path("/tmp")
    for wanted in (None, "/tmp", "/tmp/"):
        found = machine.socket_folder_finding(where, wanted, "/tmp")
        assert found == CheckResult("sockets", "ZeroMQ (ipc) works in /tmp")
    long = machine.socket_folder_finding(where, "/a/long/path", "/a/long/path")
    assert "too long" in long.text
    assert not long.remedy
    refused = machine.socket_folder_finding(where, "/nowhere", "/tmp")
    assert "TMPDIR (/nowhere) cannot be written" in refused.text
    assert refused.remedy == "`export TMPDIR=/tmp`"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/shm is Linux's own")
@pytest.mark.parametrize(
    ("size_gb", "no_gpu", "remedy"), [(0.06, True, ""), (1.0, False, ""), (0.06, False, "--shm-size=1g")]
)
def test_little_shared_memory_matters_where_there_is_a_gpu(
    size_gb: float, no_gpu: bool, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "SHARED", tmp_path)
    monkeypatch.setattr(machine.gpus, "surely_none", lambda: no_gpu)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=size_gb * GB))
    found = only(machine.shared_memory())
    assert remedy in found.remedy if remedy else found.remedy == ""
    assert "NCCL" in found.text
    assert list(tmp_path.iterdir()) == []  # what was written is gone
    monkeypatch.setattr(machine, "SHARED", tmp_path / "none")
    none = only(machine.shared_memory())
    assert ("--shm-size" in none.remedy, none.fatal) == (True, False)


# Other processes of this host: real ones, some of which lie or do not answer


@pytest.mark.parametrize(
    ("there", "tick", "said", "remedy"),
    [
        (50, 40, "the same in another process, in steps of 0.04 µs", ""),
        (50, 4_000_000, "in steps of 4e+03 µs", "clock source"),
        (50, 0, "in steps of 0 µs", "clock source"),
        (-10_000_000, 40, "two processes differ by 10 ms", "selftest"),
    ],
)
def test_another_processs_reading_lies_between_two_of_ours(there: int, tick: int, said: str, remedy: str) -> None:
    finding = processes.clock_finding(0, there, 100, tick)
    assert said in finding.text
    assert (remedy in finding.remedy) if remedy else not finding.remedy


LIAR = """
import os, subprocess, sys
from workers.doctor.answers import answer, by_name
def clock():
    return {"ns": 1}
def scheduler():
    raise PermissionError(1, "Operation not permitted")
def dependants():
    alone = [sys.executable, "-c", "import time; time.sleep(60)"]
    return {"parent": subprocess.Popen(alone).pid, "console": subprocess.Popen(alone).pid}
answer(by_name(clock, scheduler, dependants))
"""


def test_a_host_that_does_not_is_found_out(module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MODULE", module(LIAR))
    monkeypatch.setattr(processes, "DEATH_S", 0.1)
    judged: list[dict[str, bool]] = []
    judge = processes.orphans_finding
    monkeypatch.setattr(processes, "orphans_finding", lambda gone, **means: judged.append(gone) or judge(gone, **means))
    assert "processes differ" in only(processes.clock()).text
    refused = only(processes.scheduler())
    assert "Operation not permitted" in refused.text
    assert "sched_batch=false" in refused.remedy
    outlived = only(processes.orphans())
    assert judged == [{"parent": False, "console": False}]
    assert outlived.text == "a rank outlives its parent and its console"
    assert "pgrep" in outlived.remedy


def test_what_watches_over_ranks_is_told_by_system() -> None:
    gone, left = {"parent": True, "console": True}, {"parent": False, "console": True}
    assert "(pidfd)" in processes.orphans_finding(gone, linux=True, pidfd=True).text
    assert "four times a second" in processes.orphans_finding(gone, linux=True, pidfd=False).text
    assert processes.orphans_finding(left, linux=True, pidfd=True).text == "a rank outlives its parent"
    assert not processes.orphans_finding(left, linux=False, pidfd=False).remedy


@pytest.mark.parametrize("check", [processes.clock, processes.scheduler, processes.orphans])
def test_without_an_answer_a_remedy_is_said_all_the_same(
    check: doctor.Look, module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MODULE", module("import sys; sys.exit('no such thing')"))
    [finding] = check()
    assert "no such thing" in finding.text
    assert finding.remedy
