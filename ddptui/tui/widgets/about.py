"""What a preset asks, and what to look at."""

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content

from ddptui.text.printable import printable

if TYPE_CHECKING:
    from textual.widgets import Markdown

REST_S = 0.06  # the text is laid out when the cursor has rested on a preset for so long: that costs more than a frame


class About(VerticalScroll):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Scroll down", show=False),
        Binding("k", "scroll_up", "Scroll up", show=False),
        Binding("g", "scroll_home", "To the top", show=False),
        Binding("G", "scroll_end", "To the end", show=False),
    ]
    DEFAULT_CSS = """
    About Markdown { padding: 0; }
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._text: Markdown | None = None

    def show(self, title: str, text: str) -> None:
        """`text` is Markdown."""
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
