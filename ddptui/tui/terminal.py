"""The console's terminal: sanitizes what is drawn, takes keys strictly one after the other, and may vanish.

Textual sends each key to the widget that has the focus when the key arrives, and looks up its binding only after the
surrounding widgets have seen it. So keys typed right after one that opens a dialog or a field would miss it.
"""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.app import App, ScreenError
from textual.color import Color
from textual.dom import DOMNode
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Paste
from textual.filter import LineFilter


class SanitizedFilter(LineFilter):
    """A line filter that replaces characters that are not printable with blanks, or removes them."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the sanitized segments of a line, with unchanged widths."""
        return [
            segment if segment.text.isprintable() else segment._replace(text=without_control(segment.text))
            for segment in segments
        ]


def without_control(text: str) -> str:
    """Return the text with blanks in place of unprintable characters, in the same number of cells. (Parts of an emoji
    may take more.)"""
    blanked = "".join(char if char.isprintable() else " " * cell_len(char) for char in text)
    return set_cell_size(blanked, cell_len(text))


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

    def nodes(self) -> list[DOMNode]:
        """Return the nodes that a key passes now, from the focused widget up to the app."""
        return (self._app.focused or self._app.screen).ancestors_with_self

    def settle(self, nodes: list[DOMNode]) -> None:
        """Delay all further keys until the one that passes these nodes has had its effects."""
        self._settling = asyncio.create_task(self._settle(nodes))

    async def _settle(self, nodes: list[DOMNode]) -> None:
        with suppress(TimeoutError, ScreenError):  # ScreenError: the console is closing
            async with asyncio.timeout(LONGEST_WAIT_S):
                await _empty(nodes)
                before: list[DOMNode] = []
                while (nodes := self.nodes()) != before:  # a screen has opened, or the focus has moved
                    before = nodes
                    await _empty(nodes)
        self._next = self._waiting.popleft() if self._waiting else None
        if self._next is None:
            self._settling = None
        else:
            self._app.post_message(self._next)


async def _empty(nodes: list[DOMNode]) -> None:
    """Wait until each of these nodes has handled its pending messages; new nodes are mounted first."""
    for node in nodes:  # in this order, since messages bubble up
        handled = asyncio.Event()
        if node.call_later(handled.set):  # False if the node is being removed
            await handled.wait()


class Output:
    """A terminal's output, which drops what can no longer be written, and then ends the console as SIGHUP does. (The
    thread of Textual that writes would end with the error, and the console wait for it forever, with its ranks.)"""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._is_gone = file, False
        self.fileno = file.fileno

    def write(self, text: str) -> None:
        """Write text, unless the terminal is gone."""
        with self._while_there():
            self._file.write(text)

    def flush(self) -> None:
        """Flush it, unless the terminal is gone."""
        with self._while_there():
            self._file.flush()

    @contextmanager
    def _while_there(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            if not self._is_gone:
                self._is_gone = True
                os.kill(os.getpid(), signal.SIGHUP)


class TerminalDriver(LinuxDriver):
    """Textual's driver, with an output that outlives the terminal, and a Ctrl-Z that waits its turn: its handler may
    interrupt the console while it holds the lock of the output's queue, to which stopping writes, too."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._file: Any = Output(self._file)

    def _sigtstp_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(super()._sigtstp_application)

    def _sigcont_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(super()._sigcont_application)
