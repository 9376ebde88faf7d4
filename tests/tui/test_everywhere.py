"""What is the same on all screens: the palette's picture of a screen, and keys that other programs have."""

import asyncio
from pathlib import Path

import pytest

from tests.tui.opened import opened, toasts, until


def take_a_picture(runs: Path) -> str:
    """Return the toast that follows the palette's command."""

    async def check() -> str:
        async with opened(runs) as (app, pilot):
            await pilot.press("ctrl+p", *"screensho", "enter")
            await until(pilot, lambda: toasts(app))
            return toasts(app)[-1]

    return asyncio.run(check())


def test_a_picture_is_kept_where_exports_go_and_where_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "no-downloads-here"))
    monkeypatch.chdir(tmp_path)
    toast = take_a_picture(tmp_path / "runs")
    [picture] = tmp_path.glob("ddptui-*.svg")
    assert toast == str(picture)
    assert "playground" in picture.read_text(encoding="utf-8")


def test_why_no_picture_is_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "No such file or directory" in take_a_picture(tmp_path / "runs")


def test_ctrl_z_says_why_the_console_goes_on(tmp_path: Path) -> None:
    async def check() -> None:
        async with opened(tmp_path) as (app, pilot):
            await pilot.press("ctrl+z")
            await until(pilot, lambda: toasts(app))
            assert toasts(app) == [
                "While suspended, it could neither read from the ranks nor end them. Open another terminal."
            ]

    asyncio.run(check())
