"""Which clock a process tells the time by."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddptui.host import clock
from ddptui.host.clock import own_clock

TELL = "from ddptui.host.clock import own_clock; print(own_clock())"


def told_by(*prefix: str) -> str:
    command = [*prefix, sys.executable, "-c", TELL]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_all_processes_of_a_host_have_one() -> None:
    assert told_by() == own_clock() != ""


def test_in_a_time_namespace_it_is_another_one() -> None:
    elsewhere = ("unshare", "-T", "--monotonic=1000", "--fork", "--kill-child")
    if not shutil.which("unshare") or subprocess.run([*elsewhere, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a time namespace needs unshare (util-linux), root, and a kernel that has them")
    assert told_by(*elsewhere) != own_clock()


def test_where_the_system_does_not_tell_it_is_the_hosts_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(clock, "TIME_NAMESPACE", tmp_path / "none")
    assert own_clock().endswith("/0")
    monkeypatch.setattr(clock, "BOOT", tmp_path / "none")
    assert own_clock() == platform.node()
