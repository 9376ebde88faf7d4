"""What the doctor says about the folders of runs and of sockets, and about shared memory."""

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddptui import doctor
from ddptui.doctor import folders
from ddptui.doctor.finding import Finding
from ddptui.host.rank_side import NoAnswer
from tests.support.doctoring import GB, only
from tests.support.failing import failing, failing_with


def test_the_runs_folder_is_written_to_and_nothing_stays(tmp_path: Path) -> None:
    kept, disk = folders.runs(str(tmp_path / "not" / "there"))
    assert (kept.remedy, disk.name) == ("", "disk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "file/below", "dangling", "dangling/below"])
def test_runs_that_cannot_be_kept_are_fatal(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    finding = only(folders.runs(str(tmp_path / name)))
    assert finding.fatal
    assert "--runs" in finding.remedy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]


def test_a_disk_that_fails_half_way_is_fatal_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing_with(errno.ENOSPC))
    [finding] = doctor.findings([("runs", lambda: folders.runs(str(tmp_path)))])
    assert finding.fatal
    assert "disk is full" in finding.remedy
    assert list(tmp_path.iterdir()) == []


def test_less_than_a_gigabyte_of_disk_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free_gb, remedy in ((1.0, ""), (0.9, folders.FREE_SOME)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free_gb * GB: SimpleNamespace(free=free))
        assert [*folders.runs(str(tmp_path))][-1].remedy == remedy


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Hub", failing_with(errno.ENOENT)),  # there is no folder for sockets
        ("_hello", lambda _: False),
        ("_hello", failing(NoAnswer("killed by SIGABRT"))),
    ],
)
def test_a_wire_on_which_nobody_is_heard_is_fatal(
    name: str, found: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not only(folders.sockets()).fatal
    monkeypatch.setattr(folders, name, found)
    finding = only(folders.sockets())
    assert finding.fatal
    assert "export TMPDIR=" in finding.remedy


def test_sockets_elsewhere_than_wanted_are_said() -> None:
    where = Path("/tmp")
    for wanted in (None, "/tmp", "/tmp/"):
        assert folders.socket_folder_finding(where, wanted, "/tmp") == Finding("sockets", "ZeroMQ (ipc) works in /tmp")
    long = folders.socket_folder_finding(where, "/a/long/path", "/a/long/path")
    assert "too long" in long.text
    assert not long.remedy
    refused = folders.socket_folder_finding(where, "/nowhere", "/tmp")
    assert "TMPDIR (/nowhere) cannot be written" in refused.text
    assert refused.remedy == "`export TMPDIR=/tmp`"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/shm is Linux's own")
def test_shared_memory_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "SHARED", tmp_path)
    assert "NCCL" in only(folders.shared_memory()).text
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(folders, "SHARED", tmp_path / "none")
    finding = only(folders.shared_memory())
    assert not finding.fatal
    assert "--shm-size" in finding.remedy


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/shm is Linux's own")
@pytest.mark.parametrize(
    ("size_gb", "no_gpu", "remedy"), [(0.06, True, ""), (1.0, False, ""), (0.06, False, "--shm-size=1g")]
)
def test_little_shared_memory_matters_where_there_is_a_gpu(
    size_gb: float, no_gpu: bool, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SHARED", tmp_path)
    monkeypatch.setattr(folders.gpus, "surely_none", lambda: no_gpu)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=size_gb * GB))
    found = only(folders.shared_memory()).remedy
    assert remedy in found if remedy else found == ""
