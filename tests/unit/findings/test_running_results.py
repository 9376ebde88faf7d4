"""The results so far: what a run's messages come to while they come."""

from pathlib import Path

import pytest

from ddptui.analysis.results import Results
from ddptui.findings.compare import RunningResults
from ddptui.store.overview import results_of
from ddptui.wire.records import Message
from tests.support.builders import (
    ended,
    failure,
    heartbeat,
    hello,
    journal,
    launched,
    replayed,
    results_for,
    step,
    two_trials,
    write_run,
)


def running_results() -> RunningResults:
    return RunningResults(two_trials(), "the-run", {"host": "here"})


def after(*journals: list[Message]) -> Results:
    heard = running_results()
    for messages in journals:
        for message in messages:
            heard.add(message)
    return heard.results


def cut_short(trial: str, repeat: int = 1, status: str = "skipped") -> list[Message]:
    """A launch that ended with this status after its steps had begun."""
    return [*journal(trial, repeat)[:-3], ended(status)]


def shape(results: Results) -> list[tuple[str, int]]:
    return [(trial.status, len(trial.repeats)) for trial in results.trials]


def test_before_a_repeat_is_over_there_are_results_without_figures_and_an_end_without_a_beginning_is_nobodys() -> None:
    heard = running_results()
    assert heard.results == results_for(two_trials())
    assert heard.add(ended())
    assert not any(heard.add(message) for message in (launched("a"), hello(), heartbeat(), step()))
    assert heard.results == results_for(two_trials())


def test_at_any_time_they_are_those_of_the_repeats_that_are_over() -> None:
    heard, over = running_results(), []
    for messages in (journal("a"), journal("b", step_ms=20), journal("a", 2), journal("b", 2, step_ms=30)):
        over.append(messages)
        told = [heard.add(message) for message in messages]
        assert told == [False] * (len(messages) - 1) + [True]
        assert heard.results == results_for(two_trials(), *over)
    assert heard.results.status == "ok"


def test_what_is_replayed_comes_to_the_same(tmp_path: Path) -> None:
    preset = two_trials()
    run = write_run(tmp_path, preset, journal("a"), journal("b"), cut_short("a", 2), journal("b", 2))
    heard = RunningResults(preset, run.name, run.environment())
    for message in replayed(run, preset):
        heard.add(message)
    assert heard.results == results_of(run, preset)


@pytest.mark.parametrize(
    ("journals", "status", "trials"),
    [
        ([journal("a"), cut_short("b"), journal("a", 2)], "ok", [("ok", 2), ("skipped", 0)]),
        ([journal("a"), journal("b"), journal("a", 2), cut_short("b", 2)], "ok", [("ok", 2), ("ok", 1)]),
        ([journal("a"), cut_short("b")], "interrupted", [("ok", 1), ("skipped", 0)]),  # it has to go to its end
        ([cut_short("b"), journal("a"), cut_short("a", 2, "interrupted")], "interrupted", [("ok", 1), ("skipped", 0)]),
        ([cut_short("a"), failure("b", error="why")], "failed", [("skipped", 0), ("failed", 0)]),
    ],
)
def test_a_trial_that_was_skipped_does_not_interrupt_the_run_and_keeps_what_it_has(
    journals: list[list[Message]], status: str, trials: list[tuple[str, int]]
) -> None:
    results = after(*journals)
    assert (results.status, shape(results)) == (status, trials)
    second = results.trials[1]
    assert (second.summary is None) == (not second.repeats)
    assert second.error == ("why" if status == "failed" else None)
    assert second.command == ["python", "-m", "workers.spawn"]
