"""What every test of the console wants: no variable that changes its look, no settings but its own."""

import asyncio
import inspect
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TURNS, MOMENT_S, MOMENTS = 5, 0.001, 20
ROUND_S = 2.0
MOST_ROUNDS = 50  # a message goes from widget to widget in each; what is closing keeps its own

for name in ("NO_COLOR", "TEXTUAL_THEME", "COLORFGBG"):
    os.environ.pop(name, None)  # before textual is imported


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine has an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    names = inspect.signature(pyfuncitem.function).parameters
    asyncio.run(pyfuncitem.function(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's own presets, and no settings that a test could overwrite."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture(autouse=True)
def toasts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than a toast stays before a test reads it."""
    from textual.notifications import Notification

    monkeypatch.setattr(Notification, "has_expired", property(lambda notification: False))


@pytest.fixture(scope="session", autouse=True)
def a_pause_lasts_until_no_message_waits() -> Iterator[None]:
    """Textual's own ends once this process takes little processor time for 20 ms, twice for each key: too early beside
    other programs, when a message has reached only some of the widgets that it goes through, and else too late."""
    from textual import app, pilot
    from textual.message_pump import MessagePump
    from textual.pilot import Pilot, WaitForScreenTimeout

    wait, press, dispatch = Pilot._wait_for_screen, Pilot.press, MessagePump._dispatch_message
    under_way: set[object] = set()  # messages that a widget works at, and may send on

    async def noted(pump: MessagePump, message: Any) -> None:
        under_way.add(this := object())
        try:
            await dispatch(pump, message)
        finally:
            under_way.discard(this)

    async def wait_for_all(pilot: Pilot[Any], timeout: float = 30.0) -> bool:
        for _ in range(MOST_ROUNDS):
            try:
                if not await wait(pilot, ROUND_S):
                    return False
            except WaitForScreenTimeout:  # a widget that was leaving took along what it was asked
                continue
            app = pilot.app
            screen = app.screen_stack[-1] if app.screen_stack else None
            if screen is None or not (
                app._resize_event
                or screen._layout_required
                or screen._callbacks
                or under_way
                or any(widget.message_queue_size for widget in (app, *app._registry) if widget.is_running)
            ):
                return True
            screen._on_timer_update()
        return True

    async def press_each(pilot: Pilot[Any], *keys: str) -> None:
        for key in keys:
            await press(pilot, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pilot, "_wait_for_screen", wait_for_all)
        patch.setattr(Pilot, "press", press_each)
        patch.setattr(MessagePump, "_dispatch_message", noted)
        patch.setattr(app, "wait_for_idle", wait_for_threads)
        patch.setattr(pilot, "wait_for_idle", wait_for_threads)
        yield


async def wait_for_threads(*_: float) -> None:
    """Give those a moment that read or write beside the screen."""
    for _ in range(TURNS):  # until the key that a test presses is with the console
        await asyncio.sleep(0)
    for _ in range(MOMENTS):
        await asyncio.sleep(MOMENT_S)
        if not any(thread.name == "background" for thread in threading.enumerate()):
            return


@pytest.fixture(scope="session", autouse=True)
def style_sheets_are_parsed_once() -> Iterator[None]:
    """Each test has a console of its own, which would parse all of them anew: a tenth of what opening it takes."""
    from textual.css.stylesheet import Stylesheet

    parse = Stylesheet._parse_rules
    parsed: dict[object, Any] = {}

    def parsed_once(sheet: Stylesheet, css: str, *where: object, **more: object) -> Any:
        key = (css, *where, *more.items(), *sheet._variables.items())  # variables: the theme's colors
        if key not in parsed:
            parsed[key] = parse(sheet, css, *where, **more)  # type: ignore[arg-type]
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parsed_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def parts_of_the_screen_are_drawn_when_they_are_read() -> Iterator[None]:
    """Without a terminal, Textual draws each change and throws it away: a fifth of what a test takes. The whole screen
    is still drawn whenever it has a new size."""
    from textual._compositor import Compositor

    def forget(compositor: Compositor) -> None:
        compositor._dirty_regions.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compositor, "render_partial_update", forget)
        yield
