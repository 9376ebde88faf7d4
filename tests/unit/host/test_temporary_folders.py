"""Temporary folders go with their process, and only with it, in whatever container it runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddptui.host.folders import TemporaryFolder

ELSEWHERE = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]  # where no process of this test has an id
MAKE = "import os, sys; from pathlib import Path; from ddptui.host.folders import TemporaryFolder; "
MAKE += "folder = TemporaryFolder('kind', Path(sys.argv[1])); print(folder.path, flush=True); "


def make(parent: Path, then: str, *container: str) -> tuple[Path, int]:
    """Another process makes a folder, and does something then. Returns the folder and the exit code."""
    command = [*container, sys.executable, "-c", MAKE + then, str(parent)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return Path(done.stdout.strip()), done.returncode


@pytest.mark.skipif(
    subprocess.run([*ELSEWHERE, "true"], capture_output=True, check=False).returncode != 0,
    reason="this machine allows no namespaces",
)
def test_another_container_with_the_same_folder_leaves_what_is_in_use(tmp_path: Path) -> None:
    folder = TemporaryFolder("kind", tmp_path)
    (folder.path / "socket").touch()
    _, code = make(tmp_path, "folder.remove()", *ELSEWHERE)
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
