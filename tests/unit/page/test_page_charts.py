"""Curves: gaps, marks and ticks."""

import re

from ddptui.page.charts import UNITS_X, UNITS_Y, Axis, Chart, Series, curves, percent
from tests.unit.page.pages import shapes, texts

NO_TICKS = Axis("", lambda *_: ())


def drawn(*series: Series, x: Axis = NO_TICKS, y: Axis = NO_TICKS) -> Chart:
    [found] = curves("A chart", series, x, y)
    return found


def path(chart: Chart) -> str:
    [line] = shapes(chart, "path")
    return str(line.attributes["d"])


def test_a_line_goes_from_corner_to_corner_with_some_room() -> None:
    d = path(drawn(Series("a", [(0, 0.0), (10, 5.0)])))
    assert d == f"M29 981L{UNITS_X - 29} {UNITS_Y - 981}"


def test_a_value_that_is_not_finite_is_a_gap() -> None:
    assert path(drawn(Series("a", [(0, 0.0), (1, 1.0), (2, None), (3, 1.0), (4, 0.0)]))).count("M") == 2
    d = path(drawn(Series("a", [(0, 0.0), (1, float("nan")), (2, 1.0)])))
    assert re.fullmatch(r"M\d+ \d+h1M\d+ \d+h1", d)


def test_marks_and_ticks_have_places_and_those_outside_are_left_out() -> None:
    up = Axis("y", lambda *_: [(0, "0"), (5, "5"), (11, "11")])
    across = Axis("x", lambda *_: [(0, "0"), (11, "11")])
    found = drawn(Series("a", [(0, 0.0), (10, 10.0)], marks=[(5, 5.0)]), x=across, y=up)
    [mark] = shapes(found, "circle")
    assert (mark.attributes["cx"], mark.text) == ("50%", "a")
    assert [text for _, text in found.left] == ["y", "0", "5"]
    assert found.left[2][0] == mark.attributes["cy"] + 4  # the label's base line is below the middle of its tick
    assert texts(found) == ["x", "0"]


def test_many_lines_look_different() -> None:
    found = drawn(*(Series(str(n), [(0, 0.0), (1, 1.0 * n)], "1.0") for n in range(24)))
    assert len({line.attributes["class"] for line in shapes(found, "path")}) == len(dict(found.key)) == 24
    assert found.key[3][1] == "3: 1.0"


def test_nothing_to_draw_has_no_chart() -> None:
    assert curves("", [Series("a", []), Series("b", [(0, None)])], NO_TICKS, NO_TICKS) == []


def test_percent_is_short() -> None:
    assert [percent(part) for part in (0, 50, 33.3333, -0.001)] == ["0%", "50%", "33.33%", "0%"]
