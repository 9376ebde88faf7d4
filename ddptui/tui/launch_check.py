"""Checks a launch in a thread before it starts. The title bar shows this; escape, or leaving the screen, cancels it."""

import asyncio
from collections.abc import Callable
from typing import Any

from textual.screen import Screen

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.engines.preflight import prepare
from ddptui.tui.background import Answer, in_background
from ddptui.tui.widgets.frame import TitleBar

CHECKING = "checking this launch … esc cancels"


class LaunchCheck:
    """Runs at most one check at a time."""

    def __init__(self) -> None:
        self._check: asyncio.Future[Any] | None = None
        self._screen: Screen[object] | None = None  # where the check was started

    @property
    def is_pending(self) -> bool:
        """Whether a check is running."""
        return self._check is not None

    async def run(self, prepare: Callable[[], Answer], screen: Screen[object]) -> Answer | None:
        """Call `prepare` in a thread and return its result, or None if the check was canceled. Raises what `prepare`
        raises."""
        self._screen = screen
        self._check = check = in_background(prepare)
        _show(screen, CHECKING)
        try:
            await asyncio.wait({check})  # unlike `await check`, raises nothing if only the check is canceled
        finally:
            self._check = None
            check.cancel()  # in case the worker was canceled; no effect on a finished check
            _show(screen, "")
        return None if check.cancelled() else check.result()

    def cancel(self) -> None:
        """Cancel the check: its result is discarded. The thread itself cannot be stopped."""
        if self._check is not None:
            self._check.cancel()

    def cancel_unless_on(self, screen: Screen[object]) -> None:
        """Cancel the check if the user has left the screen where it was started."""
        if screen is not self._screen:
            self.cancel()


def _show(screen: Screen[object], activity: str) -> None:
    for bar in screen.query(TitleBar):  # there is none before the first screen is ready, or when the console closes
        bar.show_activity(activity)


def prepare_draft(preset: Preset) -> Preset:
    """Return the preset if it can start here now. Asks its engine and the GPU driver, which takes seconds. Raises
    PresetError."""
    try:
        return prepare(preset)
    except PresetError as error:
        if "--set" not in str(error):
            raise
        raise PresetError(f"{error}; the form has this field, too") from None
