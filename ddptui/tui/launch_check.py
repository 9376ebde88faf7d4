"""The checks before a launch: in a thread beside the screen, shown in its title, cancelled by escape or by leaving."""

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
        self._screen: Screen[object] | None = None  # that the check was started from

    @property
    def is_pending(self) -> bool:
        """Whether a check is under way."""
        return self._check is not None

    async def run(self, prepare: Callable[[], Answer], screen: Screen[object]) -> Answer | None:
        """Return what `prepare` returns, or None if the check was cancelled, when that is dropped. Raises what
        `prepare` raises."""
        self._screen = screen
        self._check = check = in_background(prepare)
        _show(screen, CHECKING)
        try:
            await asyncio.wait({check})  # unlike `await check`, raises nothing if the check alone is cancelled
        finally:
            self._check = None
            check.cancel()  # the worker itself may have been; no effect on a check that is done
            _show(screen, "")
        return None if check.cancelled() else check.result()

    def cancel(self) -> None:
        """Discard the answer. A thread cannot be stopped: it runs on, unseen."""
        if self._check is not None:
            self._check.cancel()

    def cancel_unless_on(self, screen: Screen[object]) -> None:
        """Cancel if the user has gone to another screen than the one that the check was started from."""
        if screen is not self._screen:
            self.cancel()


def _show(screen: Screen[object], activity: str) -> None:
    for bar in screen.query(TitleBar):  # none while the first screen is being made, nor when the console closes
        bar.show_activity(activity)


def prepare_draft(preset: Preset) -> Preset:
    """Return a preset that can start here now. Asks its engine and the GPUs' driver: seconds. Raises PresetError."""
    try:
        return prepare(preset)
    except PresetError as error:
        if "--set" not in str(error):
            raise
        raise PresetError(f"{error}; the form has that field, too") from None
