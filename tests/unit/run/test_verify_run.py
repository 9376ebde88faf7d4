"""What is read of a run that is over: its ranks compared, and the curves of its trials."""

from itertools import repeat
from pathlib import Path

import pytest

from ddptui.analysis.results import Results
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.run import verify
from ddptui.run.compare import curves_of, repeats_shown
from ddptui.store.overview import results_of
from ddptui.store.runs import Run, RunError
from tests.support.builders import (
    beside,
    done,
    failure,
    hello,
    journal,
    launched,
    ready,
    step,
    trained,
    two_trials,
    with_done,
    write_run,
)
from tests.support.failing import failing


def test_equal_ranks_are_told_by_kind_and_a_failed_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_who_dies_over_a_file_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Child, "ask", failing(NoAnswer("killed by SIGSEGV")))
    assert verify.checkpoints("a.pth", "b.pth") == 2
    assert capsys.readouterr().err == "a.pth, b.pth: not compared: killed by SIGSEGV\n"


def test_checkpoints_are_found_by_rank_and_other_files_passed_over(tmp_path: Path) -> None:
    run = write_run(tmp_path, two_trials(repeats=1), journal("a"))
    folder = run.folder / "trial-a" / "repeat-1"
    for name in ("model-rank-10.pth", "model-rank-2.pth", "model-rank-x.pth", "other.pth"):
        (folder / name).touch()
    assert [path.name for path in run.checkpoints("a", 1)] == ["model-rank-2.pth", "model-rank-10.pth"]


# The curves of a trial


def read(run: Run) -> Results:
    return results_of(run, run.preset())


def test_all_repeats_that_count_are_read(tmp_path: Path) -> None:
    disturbed = beside(journal("a", 2, step_ms=90))
    first, last = journal("a", 1, step_ms=10), journal("a", 3, step_ms=30)
    run = write_run(tmp_path, two_trials(repeats=3), first, disturbed, last)
    [trial, other] = read(run).trials
    assert repeats_shown(trial) == [1, 3]
    curves = curves_of(run, trial)
    assert curves.repeats == 2
    assert curves.step_ms == [(1, 20.0), (2, 20.0), (3, 20.0)]
    assert curves.loss == [(0, 9.0), (1, 2.0), (2, 1.0), (3, 2 / 3)]
    assert curves_of(run, other).repeats == 0  # it was never launched


def test_a_trial_that_failed_shows_how_far_it_came(tmp_path: Path) -> None:
    *begun, end = failure("a")
    one_step = [*begun, step(0, 0, loss=5.0), step(1, 0, loss=7.0), end]
    without_instruments = [launched("b"), hello(), ready(), trained(), *journal("b")[-3:]]
    run = write_run(tmp_path, two_trials(), one_step, without_instruments)
    [trial, other] = read(run).trials
    assert trial.status == "failed"
    assert curves_of(run, trial).loss == [(0, 6.0)]
    assert curves_of(run, other).repeats == 0


def test_reading_ends_once_it_is_not_wanted_any_more(tmp_path: Path) -> None:
    run = write_run(tmp_path, two_trials(repeats=1), journal("a", steps=50))
    trial = read(run).trials[0]
    wanted = iter([*repeat(True, 20), *repeat(False, 1000)])
    assert 0 < len(curves_of(run, trial, lambda: next(wanted)).loss) < 50


def test_a_journal_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path, two_trials(repeats=1), journal("a"))
    trial = read(run).trials[0]
    journal_of_a = run.repeat_folder("a", 1) / "messages.jsonl"
    journal_of_a.unlink()
    journal_of_a.mkdir()
    with pytest.raises(RunError, match="cannot be read"):
        curves_of(run, trial)
