"""What every test of the console wants: no variable that changes its look, no settings but its own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MOST_ROUNDS = 50  # a message goes from widget to widget in each; what is closing keeps its own

for name in ("NO_COLOR", "TEXTUAL_THEME", "COLORFGBG"):
    os.environ.pop(name, None)  # before textual is imported


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
    """Textual's own ends once this process takes little processor time: beside other programs that is at once, when a
    message has reached only some of the widgets that it goes through."""
    from textual.pilot import Pilot

    wait = Pilot._wait_for_screen

    async def wait_for_all(pilot: Pilot[Any], timeout: float = 30.0) -> bool:
        for _ in range(MOST_ROUNDS):
            if not await wait(pilot, timeout):
                return False
            app = pilot.app
            screen = app.screen_stack[-1] if app.screen_stack else None
            if screen is None or not (
                app._resize_event
                or screen._layout_required
                or screen._callbacks
                or any(widget.message_queue_size for widget in (app, *app._registry) if widget.is_running)
            ):
                return True
            screen._on_timer_update()
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pilot, "_wait_for_screen", wait_for_all)
        yield


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
