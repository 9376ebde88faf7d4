"""Charts of a page: curves with gaps, marks and ticks; stacked bars whose sums add up."""

import re

import pytest

from ddptui.analysis.breakdown import breakdown, difference
from ddptui.page.formats import picture
from ddptui.page.pages import page
from ddptui.page.panes import differences, times
from ddptui.page.render import UNITS_X, UNITS_Y, Axis, Chart, CurveSeries, Shape, curves, percent
from ddptui.report.bars import BarSegment, Part, parts, signed, stacked
from tests.support.builders import beside, failure, journal, results_for, two_trials
from tests.unit.page.pages import Found, Told, a_run, shapes, texts

NO_TICKS = Axis("", lambda *_: ())


def drawn(*series: CurveSeries, x: Axis = NO_TICKS, y: Axis = NO_TICKS) -> Chart:
    [found] = curves("A chart", series, x, y)
    return found


def path(chart: Chart) -> str:
    [line] = shapes(chart, "path")
    return str(line.attributes["d"])


def test_a_line_goes_from_corner_to_corner_with_gaps_for_what_is_not_finite() -> None:
    d = path(drawn(CurveSeries("a", [(0, 0.0), (10, 5.0)])))
    assert d == f"M29 981L{UNITS_X - 29} {UNITS_Y - 981}"
    assert path(drawn(CurveSeries("a", [(0, 0.0), (1, 1.0), (2, None), (3, 1.0), (4, 0.0)]))).count("M") == 2
    d = path(drawn(CurveSeries("a", [(0, 0.0), (1, float("nan")), (2, 1.0)])))
    assert re.fullmatch(r"M\d+ \d+h1M\d+ \d+h1", d)
    assert curves("", [CurveSeries("a", []), CurveSeries("b", [(0, None)])], NO_TICKS, NO_TICKS) == []


def test_many_lines_look_different_and_marks_and_ticks_have_places() -> None:
    up = Axis("y", lambda *_: [(0, "0"), (5, "5"), (11, "11")])
    across = Axis("x", lambda *_: [(0, "0"), (11, "11")])
    found = drawn(CurveSeries("a", [(0, 0.0), (10, 10.0)], marks=[(5, 5.0)]), x=across, y=up)
    [mark] = shapes(found, "circle")
    assert (mark.attributes["cx"], mark.text) == ("50%", "a")
    assert [text for _, text in found.left] == ["y", "0", "5"]
    assert found.left[2][0] == mark.attributes["cy"] + 4  # the label's base line is below the middle of its tick
    assert texts(found) == ["x", "0"]
    found = drawn(*(CurveSeries(str(n), [(0, 0.0), (1, 1.0 * n)], "1.0") for n in range(24)))
    assert len({line.attributes["class"] for line in shapes(found, "path")}) == len(dict(found.key)) == 24
    assert found.key[3][1] == "3: 1.0"


def test_percent_is_short_and_nothing_has_no_minus_sign() -> None:
    assert [percent(part) for part in (0, 50, 33.3333, -0.001)] == ["0%", "50%", "33.33%", "0%"]
    assert [signed(s) for s in (0.0, -0.001, -0.01, 1.0)] == ["0.00", "0.00", "-0.01", "+1.00"]


def at(shape: Shape, *names: str) -> float:
    return sum(float(str(shape.attributes[name]).removesuffix("%")) for name in names)


def ends(chart: Chart) -> list[float]:
    """Where the pieces of each bar end, from the top bar to the last one."""
    tops: dict[object, float] = {}
    for rect in shapes(chart, "rect"):
        tops[rect.attributes["y"]] = max(tops.get(rect.attributes["y"], 0.0), at(rect, "x", "width"))
    return [*tops.values()]


def test_parts_that_save_time_lie_left_of_0() -> None:
    one, other, saved = Part("work", "own work", 2.0), Part("wait", "waiting", 1.0), Part("transfer", "transfer", -0.5)
    assert stacked([one, saved, other]) == [
        BarSegment(one, 0.0, 2.0), BarSegment(saved, -0.5, 0.0), BarSegment(other, 2.0, 3.0)
    ]  # fmt: skip


def test_a_bar_of_a_train_time_is_as_long_as_the_time() -> None:
    _, _, results = a_run()
    [view] = times(results)
    first, last = ends(view)
    trained = [trial.summary.train_time_s.median for trial in results.trials if trial.summary]
    assert not shapes(view, "line")
    assert max(first, last) == pytest.approx(100, abs=0.1)
    assert first / last == pytest.approx(trained[0] / trained[1], abs=0.01)
    assert [text for text in texts(view) if "s" not in text] == ["b"]
    assert "a, baseline" in texts(view)
    assert {kind for kind, _ in view.key} >= {"work", "wait", "transfer"}


def test_a_bar_of_a_difference_ends_at_its_sum() -> None:
    _, _, results = a_run()
    [view] = differences(results)
    apart = difference(results.trials[1], results.trials[0])
    assert apart
    zero = next((at(line, "x1") for line in shapes(view, "line", "zero")), 0.0)
    [total] = shapes(view, "line", "total")
    added = sum(part.s for part in parts(apart, results.trials[1]) if part.s > 0)
    scale = (at(total, "x1") - zero) / apart.total
    assert ends(view) == [pytest.approx(zero + added * scale, abs=0.2)]
    assert view.notes[0].startswith(f"b: {signed(apart.total)} s = ")
    assert texts(view) == ["a, baseline", "", "b", f"{signed(apart.total)} s"]


def test_a_trial_without_figures_has_words_and_no_difference() -> None:
    results = results_for(two_trials(repeats=1), journal("a"), failure("b"))
    [view] = times(results)
    assert (len(ends(view)), texts(view)[-2:]) == (1, ["b", "failed"])
    assert breakdown(results.trials[1]) is None
    assert differences(results) == []
    preset = two_trials(repeats=1)
    results = results_for(preset, failure("a"), journal("b"))
    assert differences(results) == []
    text = Found(page(Told(journal()), preset, results)).text
    assert "a, the baseline, failed (rank 1 was killed by SIGKILL)" in text


def test_what_is_drawn_of_a_disturbed_trial_is_marked() -> None:
    preset = two_trials(repeats=1)
    results = results_for(preset, beside(journal("a")), journal("b", step_ms=20))
    assert texts(times(results)[0])[1::2] == ["0.03 s ⚠  × 1.00 ⚠", "0.06 s  × 2.00 ⚠"]
    [apart] = differences(results)
    assert texts(apart)[2:] == ["b", "+0.03 s ⚠"]
    assert apart.notes[0].endswith(" ⚠")
    drawn = picture(Told([]), preset, results)
    assert "0.03 s &#9888;" in drawn
    assert "2.00 &#9888;" in drawn
    assert ">&#9888; disturbed, so inexact<" in drawn
    assert "a: ⚠ disturbed, so inexact" in Found(page(Told(journal()), preset, results)).text
