"""What the doctor says about a machine: each thing is made to be missing once, and the remedy is named."""

import errno
import os
import resource
import shutil
import socket
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from ddptui.doctor import machine
from ddptui.doctor.finding import Finding
from ddptui.engines.checks import CHECKS
from ddptui.host.network import Interface, NetworkError
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


@pytest.mark.parametrize("name", ["compiler", "slow links"])
def test_what_only_some_trials_need_is_missed_without_a_remedy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHECKS, name, CHECKS[name]._replace(probe=lambda _: None))
    assert only(machine.need(name, "it works")) == Finding(name, "it works")
    monkeypatch.setitem(CHECKS, name, CHECKS[name]._replace(probe=lambda _: "install it"))
    assert only(machine.need(name, "it works")) == Finding(name, "install it", tried=False)


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
def test_a_limit_of_open_files_is_set_against_2_and_64_ranks(
    soft: int, hard: int, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_room_for_processes_is_what_the_narrower_limit_leaves(
    by_user: int | None, by_group: int | None, remedy: str
) -> None:
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


def test_a_time_of_day_that_cannot_be_is_said() -> None:
    assert machine.time_remedy(datetime.now(UTC)) == ""
    for year in (1970, 2190):
        assert "timedatectl" in machine.time_remedy(datetime(year, 1, 1, tzinfo=UTC))


# Where else ranks could run


def test_the_address_that_other_hosts_would_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "choose_interface", lambda: Interface("eth7", "10.1.0.7"))
    assert only(machine.join()) == Finding("join", "other hosts reach this one at 10.1.0.7 (eth7): --engine join")
    monkeypatch.setattr(machine, "choose_interface", failing(NetworkError("no network but loopback")))
    assert only(machine.join()) == Finding(
        "join", "other hosts cannot reach this one: no network but loopback", tried=False
    )


def test_slurm_is_missed_by_nobody_who_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not only(machine.slurm()).tried
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/sbatch")
    monkeypatch.setattr(machine, "refusal", lambda _: "no controller")
    assert only(machine.slurm()) == Finding("slurm", "no controller", "ask the cluster's administrators")
    monkeypatch.setattr(machine, "refusal", lambda _: None)
    assert only(machine.slurm()) == Finding("slurm", "jobs can be submitted: --engine slurm")
