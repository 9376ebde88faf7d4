"""The text of a preset, which is laid out anew for each preset that the cursor rests on."""

import asyncio

import pytest
from textual.app import App, ComposeResult

from ddptui.tui.widgets import texts
from ddptui.tui.widgets.texts import About
from tests.tui.opened import seen, until

LONG = "\n\n".join(f"Paragraph {number} with `code` in it." for number in range(8))


class WithText(App[None]):
    def compose(self) -> ComposeResult:
        yield About()


def test_the_next_text_may_come_at_any_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout that is broken off must leave no widget that never ends: the screen would wait for it."""
    monkeypatch.setattr(texts, "REST_S", 0)

    async def check() -> None:
        async with WithText().run_test(size=(80, 20)) as pilot:
            about = pilot.app.query_one(About)
            for turns in range(0, 30, 2):  # of the event loop, between two texts
                about.show("long", LONG)
                await until(pilot, lambda: "Paragraph 7" in seen(pilot.app))
                about.show("long", LONG)
                for _ in range(turns):
                    await asyncio.sleep(0)
                about.show("short", "The last text.")
                await until(pilot, lambda: "The last text." in seen(pilot.app) and "Paragraph" not in seen(pilot.app))

    asyncio.run(check())
