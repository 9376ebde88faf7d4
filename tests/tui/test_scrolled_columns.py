"""The table of ranks of the Result screen, scrolled: on GPUs that are made up, it is wider than its room."""

import asyncio
import re
from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from ddptui.store.outcomes import results_of
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.widgets.tables import RankDetail
from tests.support.gpu_figures import on_gpus
from tests.tui.gpu_recordings import made_up
from tests.tui.opened import opened, until

ENOUGH = 30  # presses, for every column there is


def lines(table: RankDetail) -> list[str]:
    return [table.render_line(y).text for y in range(table.row_count + 1)]


def cells(table: RankDetail) -> set[str]:
    return {cell for line in lines(table) for cell in re.split(r"\s{2,}", line.strip())}


def whole_cells(table: RankDetail) -> set[str]:
    """What cells hold, headers included, as the screen has it between gaps of two spaces."""
    rows = [table.get_row_at(place) for place in range(table.row_count)]
    headers = [column.label for column in table.ordered_columns]
    return {"", *(text.plain for row in [headers, *rows] for text in row)}


@pytest.mark.parametrize("width", [80, 120])
def test_each_press_brings_whole_columns_until_all_were_seen(tmp_path: Path, width: int) -> None:
    async def scenario() -> None:
        run = made_up(tmp_path)
        screen = ResultScreen(run, run.preset(), on_gpus(results_of(run, run.preset())))
        async with opened(tmp_path, screen, (width, 40)) as (_, pilot):
            table = screen.query_one(RankDetail)
            await pilot.press("4")
            await until(pilot, lambda: screen.focused is table and table.max_scroll_x)
            whole, first = whole_cells(table), lines(table)
            seen: set[str] = set()
            presses = 0
            while presses < ENOUGH:
                assert cells(table) <= whole
                seen |= cells(table)
                if table.scroll_offset.x == table.max_scroll_x:
                    break
                before = table.scroll_offset.x
                await pilot.press("right")
                await until(pilot, lambda before=before: table.scroll_offset.x > before)
                presses += 1
            assert seen | {""} == whole
            assert presses < len(table.columns)
            await pilot.press(*["left"] * len(table.columns))
            await until(pilot, lambda: lines(table) == first)

    asyncio.run(scenario())


@pytest.mark.parametrize(("width", "presses"), [(80, 3), (120, 0)])
def test_what_a_gpu_reached_is_in_sight_after_few_presses(tmp_path: Path, width: int, presses: int) -> None:
    async def scenario() -> None:
        run = made_up(tmp_path)
        screen = ResultScreen(run, run.preset(), on_gpus(results_of(run, run.preset())))
        async with opened(tmp_path, screen, (width, 40)) as (_, pilot):
            table = screen.query_one(RankDetail)
            await pilot.press("4", *["right"] * presses)
            await until(pilot, lambda: {"gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s"} <= cells(table))

    asyncio.run(scenario())


def test_a_column_wider_than_the_room_is_seen_part_by_part(tmp_path: Path) -> None:
    async def scenario() -> None:
        run = made_up(tmp_path)
        results = on_gpus(results_of(run, run.preset()))
        for rank in (rank for trial in results.trials for repeat in trial.repeats for rank in repeat.ranks):
            force_setattr(rank, "host", f"begins{30 * '-'}ends")
        screen = ResultScreen(run, run.preset(), results)
        async with opened(tmp_path, screen, (24, 40)) as (_, pilot):
            table = screen.query_one(RankDetail)
            await pilot.press("4")
            await until(pilot, lambda: screen.focused is table and table.max_scroll_x)
            parts = set()
            for _ in range(ENOUGH):
                await pilot.press("right")
                await pilot.pause()
                parts |= {part for part in ("begins", "ends") if any(part in line for line in lines(table))}
            assert parts == {"begins", "ends"}

    asyncio.run(scenario())
