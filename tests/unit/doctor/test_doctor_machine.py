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

from ddptui.config.parser import PresetError
from ddptui.doctor import machine
from ddptui.doctor.finding import Finding
from ddptui.engines.local import links
from ddptui.host.network import Interface, NetworkError
from tests.support.doctoring import GB, only
from tests.support.failing import failing, failing_with


def test_this_machine_is_told_without_a_remedy_where_it_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    enough = psutil.virtual_memory()._replace(available=4 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: enough)
    monkeypatch.setattr(machine, "available_cores", lambda: 2)
    assert [finding.remedy for finding in machine.machine()] == ["", "", ""]
    monkeypatch.setattr(psutil, "virtual_memory", lambda: enough._replace(available=GB))
    monkeypatch.setattr(machine, "available_cores", lambda: 1)
    assert [bool(finding.remedy) for finding in machine.machine()] == [False, True, True]


def test_a_compiler_is_missed_by_torch_compile_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "no_compiler", lambda _: "")
    assert only(machine.compiler()) == Finding("compiler", "C++ compiler found: compile = true works")
    monkeypatch.setattr(machine, "no_compiler", lambda _: "install g++")
    assert only(machine.compiler()) == Finding("compiler", "install g++", tried=False)


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
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, ""),
        (256, 1024, "for 64 ranks: `ulimit -n 1024`"),
        (256, resource.RLIM_INFINITY, "for 64 ranks: `ulimit -n 4096`"),
        (24, 100_000, "2 ranks need 40: `ulimit -n 4096`"),
        (64, 64, "for 64 ranks: raise `nofile` in /etc/security/limits.conf (a container: --ulimit nofile=4096)"),
    ],
)
def test_a_limit_of_open_files_is_set_against_2_and_64_ranks(
    soft: int, hard: int, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
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
    monkeypatch.setattr(machine, "check", failing(PresetError("--engine slurm: no controller")))
    assert only(machine.slurm()) == Finding("slurm", "no controller", "ask the cluster's administrators")
    monkeypatch.setattr(machine, "check", lambda _: None)
    assert only(machine.slurm()) == Finding("slurm", "jobs can be submitted: --engine slurm")


def test_slow_links_or_what_they_want(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "problem", lambda: "a slow link wants root")
    assert only(machine.slow_links()) == Finding("slow links", "a slow link wants root", tried=False)
    monkeypatch.setattr(links, "problem", lambda: None)
    assert only(machine.slow_links()).tried
