"""What every test of the console wants: no variable that changes its look, no settings but its own."""

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import pytest

TURNS, MOMENT_S, MOMENTS = 5, 0.001, 20
PATIENCE = 20  # turns of the event loop, after which what is waited for may need time rather than a turn
LONGEST_S = 30.0  # what is closing keeps its messages

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
    other programs, when a message has reached only some of the widgets that it goes through, and else too late. It also
    sends a message to each widget, and waits for all: a fifth of what a test of the form takes."""
    from textual import app, pilot
    from textual.message_pump import MessagePump
    from textual.pilot import Pilot

    press, dispatch, flush = Pilot.press, MessagePump._dispatch_message, MessagePump._flush_next_callbacks
    under_way: set[object] = set()  # messages that a widget works at, and may send on

    async def noted(work: Awaitable[None]) -> None:
        under_way.add(work)
        try:
            await work
        finally:
            under_way.discard(work)

    def is_waited_for(console: Any) -> bool:
        screen = console.screen_stack[-1]
        pumps = [pump for pump in (console, *console._registry) if pump.is_running]
        keyboard = getattr(console, "_keyboard", None)  # delays a key until the one before it has had its effects
        return bool(
            under_way
            or (keyboard and keyboard._settling)
            or any(pump.message_queue_size or pump._next_callbacks for pump in pumps)
            or console._resize_event
            or screen._layout_required
            or screen._callbacks
        )

    async def wait_for_all(pilot: Pilot[Any], timeout: float = LONGEST_S) -> bool:
        console, until, turns, quiet = pilot.app, monotonic() + timeout, 0, 0
        while quiet < TURNS and monotonic() < until:
            turns += 1
            await asyncio.sleep(0 if turns % PATIENCE else MOMENT_S)
            if console._exception is not None or not console.screen_stack:
                return False
            quiet = 0 if is_waited_for(console) else quiet + 1
            if not quiet and not under_way:
                console.screen_stack[-1]._on_timer_update()
        return True

    async def press_each(pilot: Pilot[Any], *keys: str) -> None:
        for key in keys:
            await press(pilot, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pilot, "_wait_for_screen", wait_for_all)
        patch.setattr(Pilot, "press", press_each)
        patch.setattr(MessagePump, "_dispatch_message", lambda pump, message: noted(dispatch(pump, message)))
        patch.setattr(MessagePump, "_flush_next_callbacks", lambda pump: noted(flush(pump)))
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
def a_screen_is_drawn_when_it_is_read() -> Iterator[None]:
    """Without a terminal, Textual draws each change and throws it away: two fifths of what a test takes. A screen is
    still drawn once at each size that it has."""
    from textual._compositor import Compositor

    render = Compositor.render_update
    drawn: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by compositor, its size then

    def render_new(compositor: Any, full: bool = False, screen_stack: Any = None, simplify: bool = False) -> Any:
        if full or drawn.get(compositor) != compositor.size:
            drawn[compositor] = compositor.size
            return render(compositor, True, screen_stack, simplify)
        compositor._dirty_regions.clear()
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compositor, "render_update", render_new)
        yield
