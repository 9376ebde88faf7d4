"""Curves: seen whole, named, with words for what cannot be drawn."""

import asyncio
from math import inf, nan

import pytest

from ddptui.text.drawing import SERIES, series_kind
from ddptui.tui.widgets.line_chart import LineChart, Series
from tests.tui.drawn import SIZES, Alone, kinds_of, text_of


def chart(*series: Series) -> LineChart:
    made = LineChart()
    made._series = series
    return made


def rising(name: str = "rank 0", number: int = 0) -> Series:
    return Series(name, [(step, 0.5 + step / 10) for step in range(21)], series_kind(number))


def of(*values: float | None, name: str = "rank 0") -> Series:
    return Series(name, list(enumerate(values)), series_kind(0))


def test_a_curve_has_its_figures_beside_it() -> None:
    assert text_of(chart(rising()), 30, 8) == [
        " │                       ⢀⡠⠤⠒⠉",
        "2┤                   ⣀⠤⠔⠊⠁",
        " │              ⣀⠤⠒⠊⠉",
        " │         ⣀⡠⠤⠒⠉",
        "1┤    ⢀⡠⠔⠒⠉",
        " │⣀⠤⠔⠒⠁",
        "  step 0                    20",
        "━ rank 0 2.5",
    ]


def test_every_series_is_named_with_its_latest_value_and_its_colour() -> None:
    seen = chart(rising("rank 0", 0), rising("rank 1", 1), Series("mean", [(0, 1.0), (20, 3.0)], "mean"))
    assert text_of(seen, 60, 12)[-1] == "━ rank 0 2.5  ━ rank 1 2.5  ━ mean 3"
    assert {SERIES[0], SERIES[1], "mean"} <= kinds_of(seen, 60, 12)


def test_with_too_many_series_the_rest_is_counted() -> None:
    seen = chart(*[rising(f"rank {number}", number) for number in range(20)])
    assert text_of(seen, 40, 6)[-1] == "━ rank 0 2.5  ━ rank 1 2.5  + 18"


@pytest.mark.parametrize("value", [None, nan, inf])
def test_what_is_not_finite_is_said_in_words(value: float | None) -> None:
    assert text_of(chart(of(1.0, 2.0, value, value)), 60, 8)[-1] == "━ rank 0 not finite from step 2 on"
    assert text_of(chart(of(1.0, value, 2.0)), 60, 8)[-1] == "━ rank 0 2"
    assert text_of(chart(of(value, value)), 60, 8) == ["no finite value", "━ rank 0 not finite from step 0 on"]


def test_logarithmic_figures_go_by_powers_of_ten() -> None:
    seen = chart(of(*(10.0**power for power in range(-2, 4))))
    seen.logarithmic = True
    lines = text_of(seen, 40, 20)
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == ["1000", "100", "10", "1", "0.1", "0.01"]
    assert "log scale" in lines[-2]


def test_a_logarithm_of_nothing_above_0_says_so() -> None:
    seen = chart(of(0.0, -1.0))
    seen.logarithmic = True
    assert text_of(seen, 40, 8) == ["nothing above 0", "━ rank 0 -1"]


def test_before_the_first_step_it_says_so() -> None:
    assert text_of(chart(), 40, 8) == text_of(chart(of()), 40, 8) == ["nothing to draw yet"]


@pytest.mark.parametrize("logarithmic", [True, False])
@pytest.mark.parametrize(
    "values",
    [(3.0,), (2.0, 2.0, 2.0), (0.0, 0.0), (1e-300, 1e269), (1e299,), (-1e269, 1e269), (0.4, 0.4 + 1e-12), (1e15, 2e15)],
)
@pytest.mark.parametrize("size", SIZES)
def test_it_fits_whatever_is_drawn_where_there_is_room_for_anything(
    size: tuple[int, int], values: tuple[float, ...], logarithmic: bool
) -> None:
    width, height = size
    seen = chart(of(*values))
    seen.logarithmic = logarithmic
    lines = text_of(seen, width, height)
    assert len(lines) <= max(2, height)
    assert width < 40 or max(map(len, lines)) <= width


def test_linear_or_logarithmic_is_seen_at_once() -> None:
    async def scenario() -> None:
        seen = LineChart()
        app = Alone(seen)
        async with app.run_test(size=(40, 10)) as pilot:
            seen.show([of(1.0, 1000.0)])
            await pilot.pause()
            assert "log scale" not in app.export_screenshot()
            seen.logarithmic = True
            seen.redraw()
            await pilot.pause()
            assert "log&#160;scale" in app.export_screenshot()

    asyncio.run(scenario())


# Many lines


def marked(*series: Series, top: int | None = None) -> LineChart:
    made = chart(*(line._replace(mark=str(number)) for number, line in enumerate(series, start=1)))
    made._top = top
    return made


def test_marks_tell_lines_apart_without_colors_and_stand_on_their_lines() -> None:
    level = [Series(f"trial {height}", [(step, height) for step in range(20)], series_kind(0)) for height in (1.0, 3.0)]
    lines = text_of(marked(*level), 40, 10)
    [first] = [line for line in lines[:-1] if "1" in line.partition("┤")[2]]
    [second] = [line for line in lines[:-1] if "2" in line.partition("┤")[2]]
    assert lines.index(second) < lines.index(first)
    assert lines[-1] == "1━ trial 1.0 1  2━ trial 3.0 3"


def test_marks_of_lines_that_are_equal_do_not_hide_each_other() -> None:
    lines = text_of(marked(*[of(1.0, 2.0, 1.0, 2.0, 1.0)] * 3), 60, 9)[:-2]
    drawn = "".join(line[line.find("┤" if "┤" in line else "│") :] for line in lines)
    assert all(mark in drawn for mark in "123")


def test_the_chosen_line_lies_over_the_others_and_its_mark_stays_in_its_place() -> None:
    level = [Series("x", [(step, 1.0) for step in range(20)], series_kind(number)) for number in (0, 1)]

    def colors(top: int | None) -> list[str]:
        [line] = [line for line in marked(*level, top=top).draw(40, 6)[:-2] if len(line) > 1]
        return [kind for text, kind in line[1:] if not text.strip("⠀⠤⠒⠉⣀ ").isdigit()]

    assert set(colors(None)) == set(colors(1)) == {series_kind(1)}
    assert set(colors(0)) == {series_kind(0)}
    places = [[text.find("1") for text in text_of(marked(*level, top=top), 40, 6)[:-2]] for top in (0, 1)]
    assert places[0] == places[1]


def test_seconds_are_spelled_with_their_unit() -> None:
    seen = chart(Series("x", [(0.5, 1.0), (90.0, 2.0)], series_kind(0)))
    seen._across = "seconds"
    assert text_of(seen, 40, 8)[-2].split() == ["500", "ms", "90", "s"]


def test_a_chart_whose_legend_stands_beside_it_has_none() -> None:
    seen = chart(rising())
    seen.has_legend = False
    assert text_of(seen, 30, 8)[-1].split() == ["step", "0", "20"]


def test_what_is_said_in_the_legend_replaces_the_latest_value() -> None:
    assert text_of(chart(rising()._replace(said="0.619")), 30, 8)[-1] == "━ rank 0 0.619"
