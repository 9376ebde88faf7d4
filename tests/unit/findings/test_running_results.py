"""The results so far: what a run's messages come to while they come."""

from pathlib import Path

from ddptui.findings.compare import RunningResults
from ddptui.store.overview import results_of
from tests.support.builders import (
    ended,
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
    run = write_run(
        tmp_path, preset, journal("a"), journal("b"), [*journal("a", 2)[:-3], ended("skipped")], journal("b", 2)
    )
    heard = RunningResults(preset, run.name, run.environment())
    for message in replayed(run, preset):
        heard.add(message)
    assert heard.results == results_of(run, preset)
