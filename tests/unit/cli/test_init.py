"""`ddptui init` and `ddptui new`: what they write, what they print, and what they refuse."""

import ast
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ddptui.cli import main
from ddptui.config.trial import Trial
from ddptui.store import presets
from tests.support.runner import ddptui
from tests.support.shown import REPO, shown_on

SCRIPT = "import torch.distributed as dist\n"


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals_given_back: None) -> None:
    """A folder of its own with a training script, no GPU, and torchrun on PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ddptui.host.gpus.surely_none", lambda: True)
    (tmp_path / "bin").mkdir()
    for program in ("torchrun", "python"):
        (tmp_path / "bin" / program).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "train.py").write_text(SCRIPT)


def init(*words: str) -> Result:
    return CliRunner().invoke(main, ("init", *words))


def only_trial(file: str) -> Trial:
    [trial] = presets.load(file).trials
    return trial


def test_it_prints_what_the_page_shows_and_the_page_names_the_trial() -> None:
    [shown] = [each for each in shown_on("docs/watch.md") if each.command.startswith("ddptui init")]
    result = init(*shlex.split(shown.command)[2:])
    assert (result.exit_code, result.stderr) == (0, "")
    assert tuple(result.stdout.splitlines()) == shown.output
    listed = CliRunner().invoke(main, ("presets", "train.toml"))
    assert (listed.exit_code, listed.stderr) == (0, "")
    assert "  torchrun --standalone --nproc_per_node=2 train.py --epochs 3\n" in listed.stdout
    init("train.py")
    page = (REPO / "docs" / "watch.md").read_text(encoding="utf-8")
    [name] = re.findall(r"has one trial, `(.+?)`", page)
    assert name == only_trial("train.toml").name


def test_a_command_is_taken_as_it_is_and_a_script_elsewhere_has_its_preset_here(tmp_path: Path) -> None:
    assert init("--", "python", "-m", "my.train", "--name", "x").exit_code == 0
    assert only_trial("my.train.toml").command == ("python", "-m", "my.train", "--name", "x")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "my net.py").write_text("import lightning")
    assert init("--name", "mine", "src/my net.py", "--name", "x").exit_code == 0
    assert only_trial("mine.toml").command == ("python", "src/my net.py", "--name", "x")


def test_without_torchrun_on_path_it_is_that_of_ddptuis_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python3"))
    assert init("train.py").exit_code == 0
    own = (str(tmp_path / "bin" / "python3"), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    assert only_trial("train.toml").command == (*own, "train.py")
    (tmp_path / "bin" / "torchrun").unlink()
    assert init("--name", "other", "train.py").exit_code == 0
    assert only_trial("other.toml").command[0] == "torchrun"


REFUSALS = {
    "nothing": ((), "name the script, e.g. `ddptui init train.py`"),
    "a script that is not there": (("trian.py",), "trian.py: no such file; did you mean 'train.py'?"),
    "a folder": (("bin.py",), "bin.py: it is a folder, not a file; name a Python file"),
    "no Python file": (("notes.txt",), "notes.txt: neither a Python file (.py) nor a program; e.g. `ddptui init train"),
    "arguments alone": (("--epochs", "3"), "--epochs: not an option of ddptui init; the script comes first"),
    "a name that is no file's": (("--name", "a/b", "train.py"), "--name a/b: use letters, digits and . _ + -"),
    "a preset that is there": (("--name", "kept", "train.py"), "kept.toml: already exists; remove it, or choose "),
}


@pytest.mark.parametrize(("words", "why"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_cannot_be_is_refused_and_nothing_is_written(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    (tmp_path / "bin.py").mkdir()
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "kept.toml").write_text("mine")
    (tmp_path / "link.toml").symlink_to("nowhere")
    before = {path: path.is_file() and path.read_text() for path in tmp_path.iterdir()}
    assert_refused(init(*words), why)
    assert {path: path.is_file() and path.read_text() for path in tmp_path.iterdir()} == before


def assert_refused(result: Result, why: str) -> None:
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout) == (2, "")
    [line] = result.stderr.splitlines()
    assert line.startswith(f"Error: {why}")


def test_a_folder_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    assert_refused(
        init("train.py"), "train.toml: cannot be written: Permission denied; go to a folder in which you may write"
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is full is /dev/full, of Linux")
def test_half_a_preset_is_not_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened = Path.open

    def full(path: Path, mode: str) -> object:
        opened(path, mode).close()
        return opened(Path("/dev/full"), "wb", buffering=0)

    monkeypatch.setattr(Path, "open", full)
    assert_refused(init("train.py"), "train.toml: cannot be written: No space left on device; the disk is full: free")
    assert not [*tmp_path.glob("train.toml*")]


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("average.py", "ddptui run own-average"),
        ("mine.py", "ddptui run own-average --set yours:strategy=mine.py:average"),
    ],
)
def test_new_writes_a_function_and_how_to_grade_it(
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
