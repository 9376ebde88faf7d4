"""Who quits while a screen is still being laid out gets his terminal back, and no traceback."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Select

from ddptui.tui.screens.lab import Lab
from ddptui.tui.widgets.trial_form import Field, TrialForm
from tests.tui.opened import PATIENCE_S, Opened


def quits_before(method: Callable[..., Any]) -> Callable[..., Any]:
    def quitting(self: Any, *args: Any) -> Any:
        self.app.exit(0)
        return method(self, *args)

    return quitting


@pytest.mark.parametrize(
    ("widget", "method"),
    [(Lab, "compose_content"), (Lab, "on_mount"), (TrialForm, "_add_fields"), (Field, "compose"), (Select, "compose")],
)
def test_quitting_while_the_lab_is_laid_out_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, widget: type, method: str
) -> None:
    monkeypatch.setattr(widget, method, quits_before(getattr(widget, method)))
    app = Opened(tmp_path)

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await app.run_async(headless=True)

    asyncio.run(run())
    assert app.return_code == 0


def test_a_test_that_ends_while_the_lab_is_laid_out_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textual's run_test closes the console without an exit."""

    async def check() -> None:
        begun = asyncio.Event()
        compose = Select.compose
        monkeypatch.setattr(Select, "compose", lambda select: begun.set() or compose(select))
        async with Opened(tmp_path, Screen()).run_test() as pilot:
            pilot.app.push_screen(Lab())
            await begun.wait()

    asyncio.run(check())
