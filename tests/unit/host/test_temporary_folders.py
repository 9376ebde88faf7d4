"""What processes share in whatever container they run: a clock; and temporary folders, which go with their process."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddptui.host import machine
from ddptui.host.folders import TemporaryFolder
from ddptui.host.machine import own_clock

OTHER_PROCESSES = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]  # where no process of this test has an id
MAKE = "import os, sys; from pathlib import Path; from ddptui.host.folders import TemporaryFolder; "
MAKE += "folder = TemporaryFolder('kind', Path(sys.argv[1])); print(folder.path, flush=True); "


def make(parent: Path, then: str, *container: str) -> tuple[Path, int]:
    """Another process makes a folder, and does something then. Returns the folder and the exit code."""
    command = [*container, sys.executable, "-c", MAKE + then, str(parent)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return Path(done.stdout.strip()), done.returncode


@pytest.mark.skipif(
    subprocess.run([*OTHER_PROCESSES, "true"], capture_output=True, check=False).returncode != 0,
    reason="this machine allows no namespaces",
)
def test_another_container_with_the_same_folder_leaves_what_is_in_use(tmp_path: Path) -> None:
    folder = TemporaryFolder("kind", tmp_path)
    (folder.path / "socket").touch()
    _, code = make(tmp_path, "folder.remove()", *OTHER_PROCESSES)
    assert code == 0
    assert (folder.path / "socket").exists()
    folder.remove()
    assert not any(tmp_path.iterdir())


def test_what_a_killed_process_has_left_is_removed_though_its_process_id_is_in_use(tmp_path: Path) -> None:
    left, code = make(tmp_path, "os.kill(os.getpid(), 9)")
    assert code == -9
    left = left.rename(tmp_path / f"kind-{os.getpid()}-x")
    others = [tmp_path / "kind-without-lock", tmp_path / "mine"]
    for other in others:
        other.mkdir()
    folder = TemporaryFolder("kind", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([folder.path, *others])
    folder.remove()


# Which clock a process tells the time by


TELL = "from ddptui.host.machine import own_clock; print(own_clock())"


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
    monkeypatch.setattr(machine, "TIME_NAMESPACE", tmp_path / "none")
    assert own_clock().endswith("/0")
    monkeypatch.setattr(machine, "BOOT", tmp_path / "none")
    assert own_clock() == platform.node()
