"""The line of keys: what it shows follows the focus, and its keys can be clicked."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from ddptui.tui.widgets.frame import Keys
from tests.tui.opened import seen


class Many(Static, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "app.did('a')", "First", tooltip="what it does"),
        Binding("b", "app.did('b')", "Second"),
        Binding("c,d", "app.did('c')", "Third"),
        Binding("h", "app.did('h')", "Hidden", show=False),
    ]


class Few(Static, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("z", "app.did('z')", "Only one")]


class WithKeys(App[None]):
    """Two widgets that have keys of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.rung = 0
        self.disabled = ""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Many("many")
            yield Few("few")
        yield Keys()

    def action_did(self, what: str) -> None:
        self.done.append(what)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return None if parameters == (self.disabled,) else True

    def bell(self) -> None:
        self.rung += 1


async def shown(pilot: Pilot[None]) -> str:
    await pilot.pause()
    return seen(pilot.app).splitlines()[-1]


async def test_it_shows_the_keys_that_act_now_once_each() -> None:
    async with WithKeys().run_test(size=(80, 5)) as pilot:
        line = await shown(pilot)
        assert all(words in line for words in ("a First", "b Second", "c Third"))
        assert line.count("Third") == 1
        assert "Hidden" not in line
        assert line.endswith("^p palette")
        await pilot.press("tab")
        line = await shown(pilot)
        assert "z Only one" in line
        assert not [words for words in ("First", "Second", "Third") if words in line]
        assert line.endswith("^p palette")
        await pilot.press("tab")
        assert "a First  b Second  c Third" in await shown(pilot)


class Spare(Screen[None]):
    SPARE_KEYS: ClassVar[Sequence[str]] = ("app.did('long')", "app.did('short')")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "app.did('a')", "First"),
        Binding("s", "app.did('short')", "Short", show=False),
        Binding("l", "app.did('long')", "A long description", show=False),
        Binding("h", "app.did('h')", "Hidden", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield Keys()


async def test_keys_that_may_be_spared_show_where_there_is_room() -> None:
    app = WithKeys()
    async with app.run_test(size=(80, 5)) as pilot:
        await app.push_screen(Spare())
        for width, words in ((80, "a First  l A long description  s Short"), (40, "a First  s Short"), (24, "a First")):
            await pilot.resize_terminal(width, 5)
            line = await shown(pilot)
            assert line.split("▏")[0].strip() == words
            assert line.endswith("^p palette")


async def test_a_click_presses_the_key_a_disabled_one_rings_and_the_mouse_shows_what_a_key_is_for() -> None:
    app = WithKeys()
    async with app.run_test(size=(80, 5)) as pilot:
        line, keys = await shown(pilot), app.query_one(Keys)
        for words, tooltip in (("First", "what it does"), ("palette", "Open the command palette"), ("Second", None)):
            await pilot.hover(Keys, offset=(line.index(words), 0))
            assert keys.tooltip == tooltip
        await pilot.hover(Many)
        assert keys.tooltip is None
        at = (line.index("Second"), 0)
        await pilot.click(Keys, offset=at)
        assert app.done == ["b"]
        app.disabled = "b"
        app.refresh_bindings()
        await pilot.pause()
        await pilot.pause()
        await pilot.click(Keys, offset=at)
        assert (app.done, app.rung) == (["b"], 1)


async def test_a_screen_may_be_left_before_its_keys_were_shown() -> None:
    async with WithKeys().run_test(size=(80, 5)) as pilot:
        await pilot.pause()
        keys = Keys()
        await pilot.app.screen.mount(keys)
        leaving = keys.remove()
        keys._show_keys()  # it was to be called after the next picture, which came as the screen was being left
        await leaving
        assert (await shown(pilot)).endswith("^p palette")
