"""`verify RUN`: the ranks of every repeat compared by what its journals hold, and what could not be compared said."""

from pathlib import Path

import pytest

from ddptui.host.rank_side import Child, NoAnswer
from ddptui.run import verify
from ddptui.store.runs import RunError
from tests.support.builders import done, failure, journal, two_trials, with_done, write_run
from tests.support.failing import failing


def test_equal_ranks_are_told_tensor_by_kind_and_a_failed_trial_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path, two_trials(repeats=1), journal("a"), failure("b"))
    assert verify.ranks_of(run) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a, repeat 1, 2 ranks",
        "parameters: all 2 equal",
        "buffers: all 1 equal",
        "b, repeat 1, 0 ranks of 2 ended well: not compared",
    ]
    with pytest.raises(RunError, match="no trial ended with two copies"):
        verify.ranks_of(write_run(tmp_path / "other", two_trials(repeats=1), failure("a")))


def test_what_differs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = with_done(journal("a"), done(1, parameters={"weight": "abc", "bias": "other"}))
    assert verify.ranks_of(write_run(tmp_path, two_trials(repeats=1), messages)) == 1
    assert "parameters: 1 of 2 differ\n  bias\n" in capsys.readouterr().out


def test_a_process_that_dies_over_a_file_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Child, "ask", failing(NoAnswer("killed by SIGSEGV")))
    assert verify.checkpoints("a.pth", "b.pth") == 2
    assert capsys.readouterr().err == "a.pth, b.pth: not compared: killed by SIGSEGV\n"


def test_checkpoints_are_found_by_rank_and_other_files_passed_over(tmp_path: Path) -> None:
    run = write_run(tmp_path, two_trials(repeats=1), journal("a"))
    folder = run.folder / "trial-a" / "repeat-1"
    for name in ("model-rank-10.pth", "model-rank-2.pth", "model-rank-x.pth", "other.pth"):
        (folder / name).touch()
    assert [path.name for path in run.checkpoints("a", 1)] == ["model-rank-2.pth", "model-rank-10.pth"]
