"""Lines of a chart: gaps, bands, marks and ticks."""

import re

from ddptui.page.charts import UNITS, Axis, Series, chart, frame_of, percent

NO_TICKS = Axis("", ())


def drawn(*series: Series, x: Axis = NO_TICKS, y: Axis = NO_TICKS):  # type: ignore[no-untyped-def]
    within = frame_of(series)
    assert within is not None
    return chart("A chart", "", series, within, x, y)


def numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", path)]


def test_a_line_goes_from_corner_to_corner_with_some_room() -> None:
    [line] = drawn(Series("a", [(0, 0.0), (10, 5.0)])).lines
    x, y, across, down = numbers(line.path)
    assert (x, y) == (19, 981)
    assert (x + across, y + down) == (UNITS - 19, 19)


def test_a_value_that_is_not_finite_is_a_gap() -> None:
    [line] = drawn(Series("a", [(0, 0.0), (1, 1.0), (2, None), (3, 1.0), (4, 0.0)])).lines
    assert line.path.count("M") == 2
    [line] = drawn(Series("a", [(0, 0.0), (1, float("nan")), (2, 1.0)])).lines
    assert re.fullmatch(r"M\d+ \d+h1M\d+ \d+h1", line.path)


def test_marks_and_ticks_are_in_percent_and_those_outside_are_left_out() -> None:
    found = drawn(Series("a", [(0, 0.0), (10, 10.0)], marks=[(5, 5.0)]), y=Axis("y", [(0, "0"), (5, "5"), (11, "11")]))
    assert found.lines[0].marks == [("50%", "50%")]
    assert [tick.label for tick in found.y_ticks] == ["0", "5"]
    assert found.y_ticks[1].at == "50%"


def test_many_lines_look_different() -> None:
    looks = [line.look for line in drawn(*(Series(str(n), [(0, 0.0), (1, 1.0 * n)]) for n in range(24))).lines]
    assert len(set(looks)) == 24


def test_nothing_to_draw_has_no_frame() -> None:
    assert frame_of([Series("a", []), Series("b", [(0, None)])]) is None


def test_percent_is_short() -> None:
    assert [percent(part) for part in (0, 50, 33.3333, -0.001)] == ["0%", "50%", "33.33%", "0%"]
