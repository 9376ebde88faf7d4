"""Our own drawings: drawn once, when they are seen, in the theme's colours, whatever the size."""

import asyncio
from collections.abc import Sequence

import pytest
from textual.app import App
from textual.theme import BUILTIN_THEMES

from ddptui.text.drawing import Line
from ddptui.tui.widgets.canvas import Canvas
from tests.tui.drawn import Alone


class Picture(Canvas):
    drawn = 0

    def draw(self, width: int, height: int) -> Sequence[Line]:
        self.drawn += 1
        return [[("wait", "wait"), ("x" * width, "")], [("short", "")]] * 50


def strips_of(app: Alone) -> list[str]:
    return [app.canvas.render_line(y).text for y in range(app.canvas.size.height)]


def test_lines_are_cut_and_filled_to_the_widgets_size() -> None:
    async def scenario() -> None:
        app = Alone(Picture())
        async with app.run_test(size=(10, 3)):
            assert strips_of(app) == ["waitxxxxxx", "short     ", "waitxxxxxx"]

    asyncio.run(scenario())


def test_it_is_drawn_once_until_something_changes() -> None:
    async def scenario() -> None:
        canvas = Picture()
        app = Alone(canvas)
        async with app.run_test(size=(10, 3)) as pilot:
            before = canvas.drawn
            canvas.refresh()
            await pilot.pause()
            assert canvas.drawn == before
            canvas.redraw()
            await pilot.pause()
            assert canvas.drawn == before + 1

    asyncio.run(scenario())


def test_what_is_not_seen_is_not_drawn_until_it_is() -> None:
    async def scenario() -> None:
        canvas = Picture()
        canvas.display = False
        async with Alone(canvas).run_test(size=(10, 3)) as pilot:
            for _ in range(3):
                canvas.redraw()
                await pilot.pause()
            assert canvas.drawn == 0
            canvas.display = True
            await pilot.pause()
            assert canvas.drawn == 1

    asyncio.run(scenario())


def colours_of(app: App[None], canvas: Canvas) -> tuple[object, object]:
    style = next(iter(canvas.render_line(0))).style
    assert style is not None
    return style.color, style.bgcolor


def test_a_theme_brings_its_colours_at_once() -> None:
    async def scenario() -> None:
        app = Alone(Picture())
        async with app.run_test(size=(10, 3)) as pilot:
            seen = []
            for theme in BUILTIN_THEMES:
                app.theme = theme
                await pilot.pause()
                colours = colours_of(app, app.canvas)
                assert colours[0] != colours[1], theme
                seen.append(colours)
            assert len(set(seen)) > len(BUILTIN_THEMES) // 2

    asyncio.run(scenario())


def test_it_lives_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scenario() -> None:
        app = Alone(Picture())
        async with app.run_test(size=(10, 3)) as pilot:
            await pilot.pause()
            assert "wait" in app.export_screenshot()

    asyncio.run(scenario())


def test_it_survives_any_size() -> None:
    async def scenario() -> None:
        app = Alone(Picture())
        async with app.run_test(size=(10, 3)) as pilot:
            for size in [(1, 1), (200, 60), (2, 1), (1, 60), (10, 3)]:
                await pilot.resize_terminal(*size)
                await pilot.pause()
                assert {len(line) for line in strips_of(app)} == {size[0]}
                assert len(strips_of(app)) == size[1]

    asyncio.run(scenario())
