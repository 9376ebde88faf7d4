"""Lines of source files: which are read, and which are not."""

import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ddptui.host.folders import lab_root
from ddptui.host.source import LONGEST, source_line

HERE = socket.gethostname()


def at(s: float) -> str:
    return datetime.fromtimestamp(s, UTC).isoformat("T", "seconds")


NOW = at(time.time() + 86_400)  # the tests may run long after they were collected


def line(file: str | Path, number: int = 1, host: str = HERE, started: str = NOW, *, lab: bool = False) -> str:
    return source_line(str(file), number, host, started, lab)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_bytes(b"import torch\r\n\n\tx = 1\t# \x0cone\rdef f():\n    pass")
    return path


def test_a_line_is_numbered_as_python_does(script: Path) -> None:
    assert [line(script, number) for number in (1, 2, 4, 5)] == ["import torch", "", "def f():", "pass"]
    assert line(script, 3) == r"x = 1   # \x0cone"
    assert line("train.py", 5) == "pass"
    assert {line(script, number) for number in (-1, 0, 6, 10**9)} == {""}
    assert line(script, host=f"{HERE}-2") == line(script, host="") == ""  # which has other files


def test_a_line_that_may_have_changed_since_the_run_is_not_shown(script: Path) -> None:
    os.utime(script, (1e9, 1e9))
    assert line(script, started=at(1e9)) == "import torch"
    assert line(script, started=at(1e9 - 1)) == ""
    assert line(script, started="") == line(script, started="yesterday") == ""


def test_a_file_is_read_once_and_again_when_it_has_changed(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert line(script) == "import torch"
    with monkeypatch.context() as patch:
        patch.setattr("ddptui.host.source.read_plain", lambda *_: pytest.fail("read again"))
        assert line(script, 5) == "pass"
    script.write_text("import jax\n")
    os.utime(script, (1e9, 1e9))
    assert line(script) == "import jax"


def test_files_that_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "terminal.py").symlink_to("/dev/tty")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "key").write_text("secret")
    (tmp_path / "loop.py").symlink_to("loop.py")
    with (tmp_path / "huge.py").open("wb") as huge:
        huge.truncate(2**20 + 1)
    names = [path.name for path in tmp_path.iterdir()] + ["missing.py", "a\0.py"]
    assert [line(tmp_path / name) for name in names] == [""] * 9


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"x" * 2**20, "x" * (LONGEST - 1) + "…"),
        (b"\xff\x00\x1b[2J\xe2\x80\xae = 1\n", r"�\x00\x1b[2J\u202e = 1"),
    ],
    ids=["a megabyte", "no text"],
)
def test_a_line_is_cut_and_made_printable(content: bytes, shown: str, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_bytes(content)
    assert line(tmp_path / "file.py") == shown


def test_the_labs_own_files_are_beside_its_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = (lab_root() / "workers/train.py").read_text("utf-8").splitlines()[0]
    assert line("workers/train.py", lab=True) == first.expandtabs()[:LONGEST]
    assert line("workers/train.py") == ""
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers/train.py").write_text("mine\n")
    assert line("workers/train.py") == "mine"
    assert line("workers/train.py", lab=True) != "mine"
