"""Processes keys strictly one after the other, even if many arrive at once, e.g. over a slow connection or by a paste.

Textual sends each key to the widget that has the focus when the key arrives, and looks up its binding only after the
surrounding widgets have seen it. So keys typed right after one that opens a dialog or a field would miss it.
"""

import asyncio
from collections import deque
from contextlib import suppress

from textual.app import App, ScreenError
from textual.dom import DOMNode
from textual.events import Key, Paste

LONGEST_WAIT_S = 5.0  # timeout for a busy widget; after it, the next key is processed anyway

Typed = Key | Paste


class Keyboard:
    """Delays each key until all effects of the key before it are complete."""

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self._waiting: deque[Typed] = deque()
        self._next: Typed | None = None  # a delayed key that was posted to the app, and is next
        self._settling: asyncio.Task[None] | None = None  # waits for the effects of a key; None: no key is pending

    def may_act(self, key: Typed) -> bool:
        """Return whether the app may process a key now. If not, the key is kept, and posted again in its turn."""
        if self._settling is None or key is self._next:
            return True
        self._waiting.append(key)
        return False

    def way(self) -> list[DOMNode]:
        """Return the nodes that a key passes now, from the focused widget up to the app."""
        return (self._app.focused or self._app.screen).ancestors_with_self

    def settle(self, way: list[DOMNode]) -> None:
        """Delay all further keys until the one that passes these nodes has had its effects."""
        self._settling = asyncio.create_task(self._settle(way))

    async def _settle(self, way: list[DOMNode]) -> None:
        with suppress(TimeoutError, ScreenError):  # ScreenError: the console is closing
            async with asyncio.timeout(LONGEST_WAIT_S):
                await _empty(way)
                before: list[DOMNode] = []
                while (way := self.way()) != before:  # a screen has opened, or the focus has moved
                    before = way
                    await _empty(way)
        self._next = self._waiting.popleft() if self._waiting else None
        if self._next is None:
            self._settling = None
        else:
            self._app.post_message(self._next)


async def _empty(way: list[DOMNode]) -> None:
    """Wait until each of these nodes has handled its pending messages; new nodes are mounted first."""
    for node in way:  # in this order, since messages bubble up
        handled = asyncio.Event()
        if node.call_later(handled.set):  # False if the node is being removed
            await handled.wait()
