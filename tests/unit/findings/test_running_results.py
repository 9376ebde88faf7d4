"""The results so far: what a run's messages come to while they come."""

from pathlib import Path

import pytest

from ddptui.analysis.results import Results
from ddptui.findings.compare import RunningResults
from ddptui.store.outcomes import results_of
from ddptui.wire.records import Message
from tests.support.builders import (
    ended,
    failure,
    heartbeat,
    hello,
    journal,
    launched,
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
    """A launch that somebody ended after its steps had begun."""
    return [*journal(trial, repeat)[:-3], ended(status)]


def shape(results: Results) -> list[tuple[str, int]]:
    return [(trial.status, len(trial.repeats)) for trial in results.trials]


def test_before_anything_was_heard_there_are_results_without_figures() -> None:
    assert running_results().results == results_for(two_trials())


def test_they_are_new_when_a_repeat_is_over_and_not_before() -> None:
    heard = running_results()
    *begun, last = journal("a")
    assert [heard.add(message) for message in begun] == [False] * len(begun)
    assert heard.results == results_for(two_trials())
    assert heard.add(last)
    assert heard.results == results_for(two_trials(), journal("a"))


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
    for message in run.replay(preset):
        heard.add(message)
    assert heard.results == results_of(run, preset)


def test_a_trial_that_was_skipped_does_not_interrupt_the_run() -> None:
    results = after(journal("a"), cut_short("b"), journal("a", 2))
    assert results.status == "ok"
    assert shape(results) == [("ok", 2), ("skipped", 0)]
    assert (results.trials[1].error, results.trials[1].summary) == (None, None)
    assert results.trials[1].command == ["python", "-m", "workers.spawn"]


def test_a_trial_that_is_skipped_later_keeps_what_it_has() -> None:
    results = after(journal("a"), journal("b"), journal("a", 2), cut_short("b", 2))
    assert results.status == "ok"
    assert shape(results) == [("ok", 2), ("ok", 1)]
    assert results.trials[1].summary is not None


def test_after_a_skip_the_run_still_has_to_go_to_its_end() -> None:
    assert after(journal("a"), cut_short("b")).status == "interrupted"
    assert after(cut_short("b"), journal("a"), cut_short("a", 2, "interrupted")).status == "interrupted"


def test_without_a_baseline_there_is_nothing_to_compare_with() -> None:
    results = after(cut_short("a"), journal("b"), journal("b", 2))
    assert shape(results) == [("skipped", 0), ("ok", 2)]
    summary = results.trials[1].summary
    assert (summary.ratio, summary.speedup) == (None, None)


def test_ratios_are_taken_of_the_repeats_that_both_have() -> None:
    results = after(journal("a"), journal("b", step_ms=20), cut_short("a", 2), journal("b", 2, step_ms=40))
    summary = results.trials[1].summary
    assert (summary.ratio.low, summary.ratio.high) == pytest.approx((2, 2))


def test_a_failure_outweighs_a_skip() -> None:
    results = after(cut_short("a"), failure("b", error="why"))
    assert results.status == "failed"
    assert shape(results) == [("skipped", 0), ("failed", 0)]
    assert results.trials[1].error == "why"


def test_what_a_launch_left_behind_is_not_counted_to_the_next() -> None:
    """Its last words are in its own repeat, and the next one's figures are as if it had come alone."""
    alone = after(journal("b"))
    results = after(cut_short("a"), journal("b"))
    assert results.trials[1].repeats == alone.trials[1].repeats


def test_an_end_without_a_beginning_is_nobodys() -> None:
    heard = running_results()
    assert heard.add(ended())
    assert heard.results == results_for(two_trials())


def test_words_of_a_rank_alone_change_nothing() -> None:
    heard = running_results()
    assert not any(heard.add(message) for message in (launched("a"), hello(), heartbeat(), step()))
    assert heard.results == results_for(two_trials())
