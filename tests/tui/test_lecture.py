"""The Run screen for a lecture hall: headline and arrivals fill it, and all else is as it was."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from ddptui.live.arrivals import ArrivalsSummary, RankArrivals
from ddptui.text.letters import large
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.last_steps import LargeArrivals
from ddptui.tui.widgets.panes import Panes
from tests.tui.drawn import SIZES, text_of
from tests.tui.opened import opened, seen
from tests.tui.recordings import ToldAsItGoes, moment_s, playback

Scenario = Callable[[RunScreen, Pilot[Any]], Awaitable[None]]
PROMPT = RankArrivals(0, 5.0, 10.0, 4.0, 1.0, 0, [0.0] * 4)
LATE = RankArrivals(1, 15.0, 0.0, 4.0, 1.0, 4, [10.0] * 4)


def play(tmp_path: Path, scenario: Scenario, size: tuple[int, int] = (120, 40), *, is_replay: bool = False) -> None:
    async def played() -> None:
        told = playback()
        told.seek(moment_s(told, "late", 60))
        screen = RunScreen(told if is_replay else ToldAsItGoes(told))
        async with opened(tmp_path, screen, size) as (_, pilot):
            screen.tick()
            await pilot.pause()
            await scenario(screen, pilot)

    asyncio.run(played())


@pytest.mark.parametrize("is_replay", [False, True])
@pytest.mark.parametrize(("size", "pixel", "bars"), [((80, 24), 1, 3), ((120, 40), 1, 7), ((200, 60), 2, 12)])
def test_the_headline_and_the_arrivals_fill_the_terminal(
    size: tuple[int, int], pixel: int, bars: int, is_replay: bool, tmp_path: Path
) -> None:
    async def scenario(screen: RunScreen, pilot: Pilot[Any]) -> None:
        before = seen(pilot.app)
        await pilot.press("P")
        await pilot.pause()
        text = seen(pilot.app)
        lines = text.splitlines()
        assert large("Rank 1", 23 * pixel, 3 * pixel)[0].strip() in text
        assert "Ranks" not in text.replace("Ranks idle", "")
        waits, works = ([line for line in lines if 3 * glyph in line] for glyph in ("░░░", "╳╳╳"))
        assert abs(len(waits) - bars) <= 1
        assert abs(len(works) - bars) <= 1
        assert sum(" waits 1" in line for line in waits) == sum("◀ culprit" in line for line in works) == 1
        await pilot.press("P")
        await pilot.pause()
        assert seen(pilot.app) == before

    play(tmp_path, scenario, size, is_replay=is_replay)


def test_it_follows_the_size_of_the_terminal(tmp_path: Path) -> None:
    async def scenario(screen: RunScreen, pilot: Pilot[Any]) -> None:
        await pilot.press("P")
        bars = []
        for size in ((200, 60), (60, 16), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            bars.append(sum("░░░" in line for line in seen(pilot.app).splitlines()))
        assert bars[0] > bars[2] > bars[1] >= 2

    play(tmp_path, scenario)


def test_the_keys_of_the_delays_work_as_before_and_those_of_the_panes_rest(tmp_path: Path) -> None:
    async def scenario(screen: RunScreen, pilot: Pilot[Any]) -> None:
        await pilot.press("P", "B", "down", "+", "b", "3", "z")
        await pilot.pause()
        sent = screen.feed.controls.requests(screen.watched.live.launched_ns)  # type: ignore[union-attr]
        assert [[(each.ranks, each.sleep_ms) for each in delays or ()] for delays in sent] == [[], [((1,), 50)]]
        assert "backward 50 ms on 1" in seen(pilot.app)
        assert screen.maximized is None
        assert screen.query_one(Panes).chosen == "ranks"

    play(tmp_path, scenario)


def test_a_zoomed_pane_gives_way(tmp_path: Path) -> None:
    async def scenario(screen: RunScreen, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "z", "P")
        await pilot.pause()
        assert "◀ culprit" in seen(pilot.app)
        assert screen.maximized is None

    play(tmp_path, scenario)


def bars_of(ranks: int, culprit: int | None = 1) -> LargeArrivals:
    made = LargeArrivals()
    others = [PROMPT._replace(rank=rank) for rank in range(2, ranks)]
    made._summary, made._culprit = ArrivalsSummary(4, [PROMPT, LATE, *others], None), culprit
    return made


def test_the_middle_line_of_a_bar_says_how_long_the_rank_waits() -> None:
    assert text_of(bars_of(2), 60, 10) == [
        "█▀█  ██████████▌░░░░░░░░░░░░░░░░░░░░░░░▓▓▓▓▓▓▓▓▓──",
        "█ █  ██████████▌ waits 10 ms ░░░░░░░░░░▓▓▓▓▓▓▓▓▓──",
        "▀▀▀  ██████████▌░░░░░░░░░░░░░░░░░░░░░░░▓▓▓▓▓▓▓▓▓──",
        "",
        "▄█   █████████████████████████████████▌▓▓▓▓▓▓▓▓▓──",
        " █   █████████████████████████████████▌▓▓▓▓▓▓▓▓▓── ◀ culprit",
        "▀▀▀  █████████████████████████████████▌▓▓▓▓▓▓▓▓▓──",
        "",
        "     0 ms───────5──────────10──────────15─────────",
        "     █ work  ▌ arrival  ░ wait  ▓ transfer  ─ rest",
    ]


@pytest.mark.parametrize("ranks", [2, 3, 8, 1024])
@pytest.mark.parametrize("size", SIZES)
def test_it_fits_any_room(ranks: int, size: tuple[int, int]) -> None:
    lines = text_of(bars_of(ranks), *size)
    if size[1] > 4 and size[0] > 30:
        assert len(lines) <= size[1]
        assert max(map(len, lines)) <= size[0]
        assert any("◀ culprit" in line for line in lines)
