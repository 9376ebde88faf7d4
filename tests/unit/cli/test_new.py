"""`ddptui new strategy FILE` writes a start that runs as it is."""

import ast
from pathlib import Path

import pytest

from tests.support.runner import ddptui


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("average.py", "ddptui run own-average"),
        ("mine.py", "ddptui run own-average --set yours:strategy=mine.py:average"),
    ],
)
def test_it_writes_a_function_and_says_how_to_have_it_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = ddptui(tmp_path, "new", "strategy", file)
    assert (done.returncode, done.stdout.splitlines()[-1].strip()) == (0, command)
    text = (tmp_path / file).read_text()
    assert command in text
    assert [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)] == ["average"]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("taken.py", "taken.py: already exists; remove it, or choose another name"),
        ("mine.txt", "mine.txt: the name of a Python file ends in .py, e.g. average.py"),
        ("nowhere/mine.py", "nowhere/mine.py: cannot be written: No such file or directory; create the folder nowhere"),
    ],
)
def test_it_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, why: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.py").write_text("mine")
    done = ddptui(tmp_path, "new", "strategy", file)
    assert done.returncode == 2
    assert why in done.stderr
    assert (tmp_path / "taken.py").read_text() == "mine"
