"""Who quits while a screen is still being laid out gets his terminal back, and no traceback."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Select

from ddptui.tui.screens.lab import Lab
from ddptui.tui.widgets.fields import Field
from ddptui.tui.widgets.trial_form import TrialForm
from tests.tui.opened import PATIENCE_S, Opened


def quits_before(method: Callable[..., Any]) -> Callable[..., Any]:
    def quitting(self: Any, *args: Any) -> Any:
        self.app.exit(0)
        return method(self, *args)

    return quitting


@pytest.mark.parametrize(
    ("widget", "method"),
    [(Lab, "compose_content"), (Lab, "on_mount"), (TrialForm, "_build"), (Field, "compose"), (Select, "compose")],
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
