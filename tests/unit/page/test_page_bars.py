"""Stacked bars: train times from 0, differences from the baseline, and sums that add up."""

import pytest

from ddptui.analysis.breakdown import breakdown, difference
from ddptui.page.bars import differences, train_times
from ddptui.page.picture import picture
from ddptui.page.training import training_page
from ddptui.report.differences import Part, Stretch, parts, signed, stacked
from tests.support.builders import beside, failure, journal, preset_of, results_for, two_trials
from tests.unit.page.pages import Found, Told, a_run


def at(percent: str) -> float:
    return float(percent.removesuffix("%"))


def test_parts_that_save_time_lie_left_of_0() -> None:
    one, other, saved = Part("work", "own work", 2.0), Part("wait", "waiting", 1.0), Part("transfer", "transfer", -0.5)
    assert stacked([one, saved, other]) == [
        Stretch(one, 0.0, 2.0), Stretch(saved, -0.5, 0.0), Stretch(other, 2.0, 3.0)
    ]  # fmt: skip


def test_a_bar_of_a_train_time_is_as_long_as_the_time() -> None:
    _, _, results = a_run()
    view = train_times(results)
    ends = [max(at(piece.x) + at(piece.width) for piece in bar.pieces) for bar in view.bars]
    times = [trial.summary.train_time_s.median for trial in results.trials if trial.summary]
    assert not view.zero
    assert max(ends) == pytest.approx(100, abs=0.1)
    assert ends[0] / ends[1] == pytest.approx(times[0] / times[1], abs=0.01)
    assert [bar.is_baseline for bar in view.bars] == [True, False]
    assert set(view.kinds) >= {"work", "wait", "transfer"}


def test_a_bar_of_a_difference_ends_at_its_sum() -> None:
    _, _, results = a_run()
    view = differences(results)
    assert view
    [bar] = view.bars
    apart = difference(results.trials[1], results.trials[0])
    assert apart
    added = sum(part.s for part in parts(apart, results.trials[1]) if part.s > 0)
    scale = (at(bar.total) - at(view.zero)) / apart.total
    assert max(at(piece.x) + at(piece.width) for piece in bar.pieces) - at(view.zero) == pytest.approx(
        added * scale, abs=0.2
    )
    assert bar.said.startswith(f"{signed(apart.total)} s = ")
    assert bar.figure == f"{signed(apart.total)} s"


def test_a_trial_without_figures_has_words_in_place_of_a_bar() -> None:
    results = results_for(two_trials(repeats=1), journal("a"), failure("b"))
    view = train_times(results)
    assert (view.bars[1].pieces, view.bars[1].figure) == ([], "failed")
    assert breakdown(results.trials[1]) is None
    assert differences(results) is None


def test_what_is_drawn_of_a_disturbed_trial_is_marked() -> None:
    preset = two_trials(repeats=1)
    results = results_for(preset, beside(journal("a")), journal("b", step_ms=20))
    assert [bar.figure for bar in train_times(results).bars] == ["0.03 s ⚠", "0.06 s"]
    apart = differences(results)
    assert apart
    assert apart.bars[0].figure == "+0.03 s ⚠"
    drawn = picture(preset, results)
    assert "0.03 s &#9888;" in drawn
    assert "2.00 &#9888;" in drawn
    assert "&#9888; disturbed, so inexact. " in drawn
    assert "a: ⚠ disturbed, so inexact" in Found(training_page(Told(journal()), preset, results)).text


def test_without_differences_the_page_says_why() -> None:
    preset = two_trials(repeats=1)
    results = results_for(preset, failure("a"), journal("b"))
    assert differences(results) is None
    page = training_page(Told(journal()), preset, results)
    why = "No differences to the baseline: a, the baseline, failed (rank 1 was killed by SIGKILL)."
    assert why in Found(page).text
    alone = preset_of({"title": "?", "repeats": 1, "trial": [{"name": "a"}]})
    page = training_page(Told(journal()), alone, results_for(alone, beside(journal("a"))))
    assert "No differences" not in Found(page).text


def test_nothing_has_no_minus_sign() -> None:
    assert [signed(s) for s in (0.0, -0.001, -0.01, 1.0)] == ["0.00", "0.00", "-0.01", "+1.00"]
