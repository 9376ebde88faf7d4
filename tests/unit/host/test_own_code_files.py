"""The user's own code is found beside its preset, else in the current folder, and looked at without running it."""

import os
from pathlib import Path

import pytest

from ddptui.config.trial import Trial, own_codes, parsed
from ddptui.config.values import make_trial
from ddptui.host.source import located, problem_of, sources_of

WORKS = "from os import path as where\nif True:\n    late = print\nclass Mine: ...\nasync def average(tensors): ...\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a folder of presets in it."""
    (tmp_path / "presets").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named(value: str) -> Trial:
    return make_trial({"strategy": value})


def test_a_file_beside_the_preset_comes_before_one_in_the_current_folder(here: Path) -> None:
    (here / "mine.py").touch()
    assert located(named("mine.py:f"), here / "presets").strategy == f"{here}/mine.py:f"
    (here / "presets" / "mine.py").touch()
    assert located(named("mine.py:f"), here / "presets").strategy == f"{here}/presets/mine.py:f"
    for value in ("theirs.py:f", "package.module:f", "/nowhere/mine.py:f", f"{300 * 'x'}.py:f", "all_reduce"):
        assert located(named(value), here / "presets") == named(value)  # what is in neither keeps its name
    delay = {"at": "mine.py:late", "ranks": [1]}
    trial = make_trial({"model": "mine.py:net", "dataset": "mine.py:load", "bottleneck": [delay]})
    assert [own.source for own in own_codes(located(trial, here)).values()] == [f"{here}/mine.py"] * 3


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        (WORKS, "average", ""),
        (WORKS, "Mine", ""),
        (WORKS, "late", ""),
        (WORKS, "where", ""),
        ("from tools import *", "anything", ""),
        (WORKS, "avarage", "mine.py defines no 'avarage'; did you mean 'average'?"),
        ("", "average", "mine.py defines no 'average'; it defines nothing"),
        ("def f():\n    average = 1", "average", "mine.py defines no 'average'; it defines f"),
        ("\ndef f(:", "f", "mine.py:2 is not valid Python: invalid syntax"),
        ("x = '\0'", "x", "mine.py is not valid Python: source code string cannot contain null bytes"),
    ],
)
def test_a_file_is_read_and_not_run(here: Path, text: str, name: str, why: str) -> None:
    (here / "mine.py").write_text(f"{text}\nopen('ran', 'w')" if "(:" not in text else text)
    assert problem_of(parsed(f"mine.py:{name}")) == why
    assert not (here / "ran").exists()


def test_only_a_plain_file_is_read(here: Path) -> None:
    os.mkfifo(here / "mine.py")
    assert "not a regular file" in problem_of(parsed("mine.py:f"))
    missing = f"no file other.py beside the preset, or in {here}: give its path, or write one: "
    assert problem_of(parsed("other.py:f")) == missing + "`ddptui new strategy other.py`"


def test_sources_are_kept_by_name_and_two_of_one_name_stay_apart(here: Path) -> None:
    for folder in ("a", "b"):
        (here / folder).mkdir()
        (here / folder / "mine.py").write_text(folder)
    trials = [named(f"{here}/{folder}/mine.py:f") for folder in "aab"] + [named(f"{here}/gone.py:f")]
    assert sources_of(trials) == {"mine.py": b"a", "mine-2.py": b"b"}
