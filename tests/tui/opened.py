"""The console with one of its screens open, and what is to be seen of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot
from textual.screen import Screen

from ddptui.tui.app import Console

PATIENCE_S = 60  # for a machine busy with other things; a test that passes waits no longer than it must


@asynccontextmanager
async def opened(
    runs: Path, screen: Screen[None] | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Console, Pilot[int]]]:
    app = Console(runs)
    async with app.run_test(size=size) as pilot:
        if screen is not None:
            await app.push_screen(screen)
        await pilot.pause()
        yield app, pilot


async def until(pilot: Pilot[int], happened: Callable[[], object]) -> None:
    """Wait for what a thread brings about."""
    async with asyncio.timeout(PATIENCE_S):
        while not happened():
            await pilot.pause()


def seen(app: Console) -> str:
    """The screen as text."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


def toasts(app: Console) -> list[str]:
    return [toast.message for toast in app._notifications]
