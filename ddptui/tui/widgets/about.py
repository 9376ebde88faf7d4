"""The text of a preset: what it asks, and what to look at."""

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content

from ddptui.text.printable import printable
from ddptui.tui.widgets.keys import SCROLL_KEYS

if TYPE_CHECKING:
    from textual.widgets import Markdown

REST_S = 0.06  # the text is laid out when the cursor has rested on a preset for so long: that costs more than a frame


class About(VerticalScroll):
    """Shows the title and the text of a preset."""

    BINDINGS: ClassVar[list[BindingType]] = [*SCROLL_KEYS]
    DEFAULT_CSS = """
    About Markdown { padding: 0; }
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._text: Markdown | None = None

    def show(self, title: str, text: str) -> None:
        """Show a title and a text in Markdown."""
        self.border_title = Content(printable(title))
        self.scroll_home(animate=False)
        self._lay_out("\n".join(map(printable, text.splitlines())))

    @work(exclusive=True)
    async def _lay_out(self, text: str) -> None:
        from textual.widgets import Markdown  # which the first frame need not wait for

        await asyncio.sleep(REST_S)
        if not self.is_attached:  # the console has ended meanwhile
            return
        if self._text is None:
            self._text = Markdown()
            await self.mount(self._text)
        await self._text.update(text)
