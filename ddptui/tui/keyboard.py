"""Keys one after the other, however fast they come: over a slow line or from a paste, many come at once.

Textual sends each key to the widget that has the focus when the key arrives, and looks for its binding only after the
widgets around that one have seen it. So the keys behind one that opens a dialog or a field would miss it.
"""

import asyncio
from collections import deque
from contextlib import suppress

from textual.app import App, ScreenError
from textual.dom import DOMNode
from textual.events import Key, Paste

LONGEST_WAIT_S = 5.0  # for a widget that is busy; then the next key acts all the same

Typed = Key | Paste


class Keyboard:
    """Lets a key act only when all that the key before it has brought about is done."""

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self._waiting: deque[Typed] = deque()
        self._next: Typed | None = None  # posted to the app, which may now act on it
        self._settling: asyncio.Task[None] | None = None  # None: no key is under way

    def may_act(self, key: Typed) -> bool:
        """Return whether the app may act on a key now. If not, the keyboard keeps it, and posts it in its turn."""
        if self._settling is None or key is self._next:
            return True
        self._waiting.append(key)
        return False

    def way(self) -> list[DOMNode]:
        """Return what a key goes through now: from the widget with the focus up to the app."""
        return (self._app.focused or self._app.screen).ancestors_with_self

    def settle(self, way: list[DOMNode]) -> None:
        """Keep all further keys until the one that was sent this way has had its effect."""
        self._settling = asyncio.create_task(self._settle(way))

    async def _settle(self, way: list[DOMNode]) -> None:
        with suppress(TimeoutError, ScreenError):  # ScreenError: the console closes
            async with asyncio.timeout(LONGEST_WAIT_S):
                await _empty(way)
                before: list[DOMNode] = []
                while (way := self.way()) != before:  # a screen was opened, or the focus has moved
                    before = way
                    await _empty(way)
        self._next = self._waiting.popleft() if self._waiting else None
        if self._next is None:
            self._settling = None
        else:
            self._app.post_message(self._next)


async def _empty(way: list[DOMNode]) -> None:
    """Wait until each of these nodes has handled what it has received so far. A new one is first mounted."""
    for node in way:  # one after the other: a message goes up in this order
        handled = asyncio.Event()
        if node.call_later(handled.set):  # not if it is being removed
            await handled.wait()
