"""The check before a launch: in a thread beside the screen, shown in its title, cancelled by escape or by leaving."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ddptui.tui.screens.base import LabScreen
from ddptui.tui.widgets.frame import TitleBar

CHECKING = "checking this launch … esc cancels"

Answer = TypeVar("Answer")


class LaunchCheck:
    """Runs at most one check at a time."""

    def __init__(self) -> None:
        self._check: asyncio.Future[Any] | None = None
        self._screen: LabScreen | None = None  # that the check was started from

    @property
    def is_pending(self) -> bool:
        """Whether a check is under way."""
        return self._check is not None

    async def run(self, prepare: Callable[[], Answer], screen: LabScreen) -> Answer | None:
        """Return what `prepare` returns, or None if the check was cancelled. Raises what `prepare` raises."""
        self._screen = screen
        self._check = check = in_background(prepare)
        _show(screen, CHECKING)
        try:
            await asyncio.wait({check})
        finally:
            self._check = None
            check.cancel()  # the worker itself may have been; no effect on a check that is done
            _show(screen, "")
        return None if check.cancelled() else check.result()

    def cancel(self) -> None:
        """Discard the answer. A thread cannot be stopped: it runs on, unseen."""
        if self._check is not None:
            self._check.cancel()

    def cancel_unless_on(self, screen: LabScreen) -> None:
        """Cancel if the user has gone to another screen than the one that the check was started from."""
        if screen is not self._screen:
            self.cancel()


def _show(screen: LabScreen, activity: str) -> None:
    for bar in screen.query(TitleBar):  # none while the first screen is being made, nor when the console closes
        bar.show_activity(activity)


def in_background(call: Callable[[], Answer]) -> "asyncio.Future[Answer]":
    """Run a call in a daemon thread. Return its result as a future; to cancel that discards the result.

    A thread of a pool would do, were it not joined when the console closes: a check that hangs would hold it open.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def settle(error: Exception | None, answer: Answer | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer)  # type: ignore[arg-type]  # Answer may itself be None

    def run() -> None:
        error, answer = None, None
        try:
            answer = call()
        except Exception as raised:  # the caller gets it from the future
            error = raised
        with suppress(RuntimeError):  # the loop was closed meanwhile: the console has ended
            loop.call_soon_threadsafe(settle, error, answer)

    threading.Thread(target=run, name="check", daemon=True).start()
    return future
