"""What earlier runs have left, for a list and for estimates."""

from datetime import date
from pathlib import Path

import pytest

from ddptui.store import overview
from ddptui.store.runs import Run
from tests.support.builders import journal, two_trials, write_run


def a_run(runs: Path, name: str) -> Run:
    run = write_run(runs, two_trials(), journal("a"), journal("b"))
    return Run(run.folder.rename(runs / name))


def test_without_a_folder_there_is_no_past(tmp_path: Path) -> None:
    assert overview.recent_runs(tmp_path / "none", date(2026, 1, 2)) == overview.RecentRuns([], [])


def test_runs_are_newest_first_with_the_time_of_todays(tmp_path: Path) -> None:
    for name in ("20260101-101500-made", "20260102-081500-made", "renamed"):
        a_run(tmp_path, name)
    found = overview.recent_runs(tmp_path, date(2026, 1, 2))
    assert [(line.when, line.preset) for line in found.lines] == [("–", "made"), ("08:15", "made"), ("01-01", "made")]
    assert [results.preset for results in found.results] == ["made"] * 3


def test_a_list_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "MOST_LINES", 1)
    monkeypatch.setattr(overview, "MOST_RUNS", 2)
    for day in (1, 2, 3):
        a_run(tmp_path, f"2026010{day}-101500-made")
    found = overview.recent_runs(tmp_path, date(2026, 1, 2))
    assert [line.run.name for line in found.lines] == ["20260103-101500-made"]
    assert len(found.results) == 2


def test_what_cannot_be_read_is_said_or_left_out(tmp_path: Path) -> None:
    run = a_run(tmp_path, "20260101-101500-made")
    (run.folder / "environment.json").write_text("{")
    (run.folder / "results.json").write_text('{"status": 1}')
    found = overview.recent_runs(tmp_path, date(2026, 1, 2))
    assert found.lines[0][1:4] == ("01-01", "20260101-101500-made", "results.json cannot be read")
    assert found.results == []
