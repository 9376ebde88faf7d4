"""A line about each run, and what earlier runs have left for lists and estimates."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ddptui.run.listing import every_run
from ddptui.store import overview as overviews
from ddptui.store.overview import TrialRecord, overview, recent_runs, record, results_of
from ddptui.store.runs import JOURNAL, Run, RunError
from tests.support.builders import ended, failure, journal, two_trials, write_run


def a_run(runs: Path, name: str = "") -> Run:
    run = write_run(runs, two_trials(), journal("a", step_ms=200), journal("b", step_ms=100))
    return Run(run.folder.rename(runs / (name or run.name)))


def test_a_run_has_a_day_a_status_and_its_times(tmp_path: Path) -> None:
    line = overview(a_run(tmp_path, "20261121-193818-made"))
    assert (line.when, line.preset, line.trials) == ("2026-11-21 19:38", "made", "2, 2 of 4 repeats")
    assert (line.baseline, line.fastest) == ("0.60", "0.30 b")
    assert line.problem is None


def test_which_trials_and_repeats_ended_well_is_counted_but_not_of_an_older_version(tmp_path: Path) -> None:
    line = overview(write_run(tmp_path, two_trials(), failure("a"), journal("b")))
    assert (line.trials, line.baseline, line.fastest) == ("1 of 2 done, 1 of 2 repeats", "–", "0.03 b")
    run = write_run(tmp_path, two_trials(), *(journal(name, number) for number in (1, 2) for name in "ab"))
    assert overview(run).trials == "2"
    run = a_run(tmp_path)
    results = msgspec.json.decode((run.folder / "results.json").read_bytes())
    del results["repeats"]
    (run.folder / "results.json").write_bytes(msgspec.json.encode(results))
    assert overview(run).trials == "2"


def test_what_was_skipped_is_counted_and_said_in_lists(tmp_path: Path) -> None:
    skipped = [*journal("b", 2)[:-3], ended("skipped")]
    run = write_run(tmp_path, two_trials(), journal("a"), journal("b"), journal("a", 2), skipped)
    assert (overview(run).status, overview(run).trials) == ("ok", "2, 3 of 4 repeats")
    assert every_run([run]) == f"{run.name}  ok  3 of 4 repeats finished\n"
    run = write_run(
        tmp_path / "other", two_trials(), journal("a"), [*journal("b")[:-3], ended("skipped")], journal("a", 2)
    )
    assert (overview(run).outcome, overview(run).status) == ("ok", "trials skipped")
    assert every_run([run]) == f"{run.name}  trials skipped  1 of 2 trials finished\n"


def test_a_run_without_results_was_interrupted_and_its_preset_is_recorded(tmp_path: Path) -> None:
    line = overview(Run.create(tmp_path, two_trials(), {}))
    assert (line.status, line.trials, line.fastest, line.problem) == ("interrupted", "2", "–", None)
    told = record(Run.create(tmp_path, two_trials(), {}))
    assert (told.status, told.fastest) == ("interrupted", None)
    assert told.trials == [TrialRecord("a"), TrialRecord("b")]


def test_a_run_is_recorded_for_scripts_with_the_same_figures(tmp_path: Path) -> None:
    run = a_run(tmp_path, "20261121-193818-made")
    told = record(run)
    assert (told.name, told.folder, told.started) == (run.name, str(run.folder), "2026-11-21T19:38:18")
    assert (told.status, told.preset, told.repeats, told.baseline, told.fastest) == ("interrupted", "made", 2, "a", "b")
    assert told.trials == [TrialRecord("a", "ok", 1, 0.6), TrialRecord("b", "ok", 1, 0.3)]
    assert (told.under_way, told.problem) == (False, None)
    with run.held():
        assert record(run).under_way


def test_what_cannot_be_read_is_recorded_with_the_reason(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run.folder / "results.json").write_text("{")
    told = record(run)
    assert (told.status, told.preset, [trial.status for trial in told.trials]) == ("unreadable", "made", [None, None])
    assert "results.json: cannot be read" in str(told.problem)
    (run.folder / "preset.toml").write_text("tittle = 1")
    told = record(run)
    assert (told.status, told.preset, told.trials) == ("unreadable", None, [])
    assert "did you mean 'title'?" in str(told.problem)


Content = bytes | Callable[[Path], None]


def put(path: Path, content: Content) -> None:
    """Replace a file by one with this content, or by what a call makes there."""
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)


def sparse(path: Path, size: int = 3 * 2**30) -> None:
    path.touch()
    os.truncate(path, size)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


NO_FILE = {"a pipe": os.mkfifo, "a folder": os.mkdir, "a device": device, "3 GB": sparse}
NO_RESULTS = {"cut": b"{", "a wrong type": b'{"status": 1}', "nested": b"[" * 200_000, **NO_FILE}
NO_ENVIRONMENT = {
    "nested": b'{"a":' + b"[" * 200_000,
    "packages": b'{"packages": [1]}',
    "a long name": b'{"preset": "' + b"x" * 300 + b'"}',
    **NO_FILE,
}
NO_JOURNAL = {**NO_FILE, "3 GB": lambda path: sparse(path, 20 * 2**30)}


@pytest.mark.parametrize("content", NO_RESULTS.values(), ids=NO_RESULTS)
def test_results_that_cannot_be_read_hide_no_run(tmp_path: Path, content: Content) -> None:
    run, other = a_run(tmp_path), a_run(tmp_path)
    put(run.folder / "results.json", content)
    line = overview(run)
    assert (line.status, line.problem) == ("results.json cannot be read", None)
    assert line.damage is not None
    assert line.damage.startswith(f"{run.folder / 'results.json'}: cannot be read: ")
    assert every_run([run]) == f"{run.name}  {line.damage}\n"
    lines, results = recent_runs(tmp_path)
    assert [each.run.name for each in lines] == [other.name, run.name]
    assert [each.run for each in results] == [other.name]


@pytest.mark.parametrize("content", NO_ENVIRONMENT.values(), ids=NO_ENVIRONMENT)
def test_an_unreadable_environment_is_said_in_every_list(tmp_path: Path, content: Content) -> None:
    run = a_run(tmp_path)
    put(run.folder / "environment.json", content)
    line = overview(run)
    assert line.problem is not None
    assert line.problem.startswith(f"{run.folder / 'environment.json'}: cannot be read: ")
    assert every_run([run]) == f"{run.name}  {line.problem}\n"
    assert [each.preset for each in recent_runs(tmp_path)[0]] == [run.name]


@pytest.mark.parametrize("content", NO_JOURNAL.values(), ids=NO_JOURNAL)
def test_an_unreadable_journal_is_said_before_the_run_is_opened(
    tmp_path: Path, content: Callable[[Path], None]
) -> None:
    run = a_run(tmp_path)
    path = run.repeat_folder("b", 1) / JOURNAL
    put(path, content)
    problem = overview(run).problem
    assert problem is not None
    assert problem.startswith(f"{path}: cannot be read: it is ")
    with pytest.raises(RunError, match="cannot be read: it is "):
        results_of(run, two_trials())


def test_a_folder_of_another_name_has_no_day_and_no_folder_no_past(tmp_path: Path) -> None:
    for name in ("copied", "99999999-999999-x"):
        assert overview(a_run(tmp_path, name)).when == "–"
    assert recent_runs(tmp_path / "none") == ([], [])


def test_a_filter_wants_all_its_words(tmp_path: Path) -> None:
    line = overview(a_run(tmp_path))
    assert line.fits("")
    assert line.fits("MADE interr")
    assert not line.fits("made ok")


def test_a_list_begins_with_the_newest_and_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overviews, "MOST_LINES", 1)
    monkeypatch.setattr(overviews, "MOST_RUNS", 2)
    for day in (1, 2, 3):
        a_run(tmp_path, f"2026010{day}-101500-made")
    lines, results = recent_runs(tmp_path)
    assert [line.run.name for line in lines] == ["20260103-101500-made"]
    assert len(results) == 2
