"""The curves of a trial are read from the journals of the repeats that count, and no further than they are wanted."""

from itertools import repeat
from pathlib import Path

import pytest

from ddptui.analysis.results import Results
from ddptui.run.curves import curves_of, repeats_shown
from ddptui.store.outcomes import results_of
from ddptui.store.runs import Run, RunError
from tests.support.builders import (
    beside,
    failure,
    hello,
    journal,
    launched,
    ready,
    step,
    trained,
    two_trials,
    write_run,
)


def read(run: Run) -> Results:
    return results_of(run, run.preset())


def test_all_repeats_that_count_are_read(tmp_path: Path) -> None:
    disturbed = beside(journal("a", 2, step_ms=90))
    run = write_run(
        tmp_path, two_trials(repeats=3), journal("a", 1, step_ms=10), disturbed, journal("a", 3, step_ms=30)
    )
    [trial, other] = read(run).trials
    assert repeats_shown(trial) == [1, 3]
    curves = curves_of(run, trial)
    assert curves.repeats == 2
    assert curves.step_ms == [(1, 20.0), (2, 20.0), (3, 20.0)]
    assert curves.loss == [(0, 9.0), (1, 2.0), (2, 1.0), (3, 2 / 3)]
    assert curves_of(run, other).repeats == 0  # it was never launched


def test_a_trial_that_failed_shows_how_far_it_came(tmp_path: Path) -> None:
    *begun, end = failure("a")
    without_instruments = [launched("b"), hello(), ready(), trained(), *journal("b")[-3:]]
    run = write_run(
        tmp_path, two_trials(), [*begun, step(0, 0, loss=5.0), step(1, 0, loss=7.0), end], without_instruments
    )
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
