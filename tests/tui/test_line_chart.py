"""Curves: seen whole, named, with words for what cannot be drawn."""

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.theme import BUILTIN_THEMES

from ddptui.text.drawing import SERIES, Line, series_kind
from ddptui.tui.widgets.charts import Canvas, LineChart, Series
from tests.tui.drawn import SIZES, Alone, kinds_of, text_of
from tests.tui.opened import seen


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
    many = chart(*[rising(f"rank {number}", number) for number in range(20)])
    assert text_of(many, 40, 6)[-1] == "━ rank 0 2.5  ━ rank 1 2.5  + 18"


@pytest.mark.parametrize("value", [None, nan, inf])
def test_what_is_not_finite_is_said_in_words(value: float | None) -> None:
    assert text_of(chart(of(1.0, 2.0, value, value)), 60, 8)[-1] == "━ rank 0 not finite from step 2 on"
    assert text_of(chart(of(1.0, value, 2.0)), 60, 8)[-1] == "━ rank 0 2"
    assert text_of(chart(of(value, value)), 60, 8) == ["no finite value", "━ rank 0 not finite from step 0 on"]
    assert text_of(chart(), 60, 8) == ["nothing to draw yet"]


def test_logarithmic_figures_go_by_powers_of_ten() -> None:
    seen = chart(of(*(10.0**power for power in range(-2, 4))))
    seen.logarithmic = True
    lines = text_of(seen, 40, 20)
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == ["1000", "100", "10", "1", "0.1", "0.01"]
    assert "log scale" in lines[-2]
    below = chart(of(0.0, -1.0))
    below.logarithmic = True
    assert text_of(below, 40, 8) == ["nothing above 0", "━ rank 0 -1"]


@pytest.mark.parametrize("logarithmic", [True, False])
@pytest.mark.parametrize(
    "values", [(2.0, 2.0, 2.0), (0.0, 0.0), (1e-300, 1e269), (1e299,), (-1e269, 1e269), (0.4, 0.4 + 1e-12)]
)
def test_it_fits_whatever_is_drawn(values: tuple[float, ...], logarithmic: bool) -> None:
    seen = chart(of(*values))
    seen.logarithmic = logarithmic
    for width, height in SIZES:
        lines = text_of(seen, width, height)
        assert len(lines) <= max(2, height)
        assert width < 40 or max(map(len, lines)) <= width


# Many lines


def marked(*series: Series, top: int | None = None) -> LineChart:
    made = chart(*(line._replace(mark=str(number)) for number, line in enumerate(series, start=1)))
    made._top = top
    return made


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


class Picture(Canvas):
    drawn = 0

    def draw(self, width: int, height: int) -> Sequence[Line]:
        self.drawn += 1
        return [[("wait", "wait"), ("x" * width, "")], [("short", "")]] * 50


def strips_of(app: Alone) -> list[str]:
    return [app.canvas.render_line(y).text for y in range(app.canvas.size.height)]


async def times_drawn(pilot: Pilot[Any], canvas: Picture) -> int:
    """After the screen was read, which draws all that is new on it."""
    await pilot.pause()
    seen(pilot.app)
    return canvas.drawn


async def test_it_is_drawn_once_until_something_changes() -> None:
    canvas = Picture()
    async with Alone(canvas).run_test(size=(10, 3)) as pilot:
        before = await times_drawn(pilot, canvas)
        canvas.refresh()
        assert await times_drawn(pilot, canvas) == before
        canvas.redraw()
        assert await times_drawn(pilot, canvas) == before + 1


async def test_what_is_not_seen_is_not_drawn_until_it_is() -> None:
    canvas = Picture()
    canvas.display = False
    async with Alone(canvas).run_test(size=(10, 3)) as pilot:
        for _ in range(3):
            canvas.redraw()
            assert await times_drawn(pilot, canvas) == 0
        canvas.display = True
        assert await times_drawn(pilot, canvas) == 1


async def test_a_theme_brings_its_colours_at_once() -> None:
    app = Alone(Picture())
    async with app.run_test(size=(10, 3)) as pilot:
        seen = []
        for theme in BUILTIN_THEMES:
            app.theme = theme
            await pilot.pause()
            style = next(iter(app.canvas.render_line(0))).style
            assert style is not None
            assert style.color != style.bgcolor, theme
            seen.append((style.color, style.bgcolor))
        assert len(set(seen)) > len(BUILTIN_THEMES) // 2


async def test_it_survives_any_size() -> None:
    app = Alone(Picture())
    async with app.run_test(size=(10, 3)) as pilot:
        assert strips_of(app) == ["waitxxxxxx", "short     ", "waitxxxxxx"]  # cut and filled
        for size in [(1, 1), (200, 60), (2, 1), (1, 60), (10, 3)]:
            await pilot.resize_terminal(*size)
            assert {len(line) for line in strips_of(app)} == {size[0]}
            assert len(strips_of(app)) == size[1]
