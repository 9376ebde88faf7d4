"""The table of ranks of the Result screen: on GPUs that are made up, its columns take several pages."""

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
    return {"", *(text for column in table._filled[0] for text in (column.header, *column.cells))}


@pytest.mark.parametrize("width", [80, 120])
def test_each_press_brings_whole_columns_until_all_were_seen(tmp_path: Path, width: int) -> None:
    async def scenario() -> None:
        run = made_up(tmp_path)
        screen = ResultScreen(run, run.preset(), on_gpus(results_of(run, run.preset())))
        async with opened(tmp_path, screen, (width, 40)) as (_, pilot):
            table = screen.query_one(RankDetail)
            await pilot.press("4")
            await until(pilot, lambda: screen.focused is table and "← → more" in str(table.border_subtitle))
            first, seen = lines(table), cells(table)
            assert {"gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s"} <= seen
            presses = 1
            await pilot.press("right")
            while lines(table) != first:
                assert "rank" in cells(table)
                assert cells(table) <= whole_cells(table)
                seen |= cells(table)
                presses += 1
                assert presses < ENOUGH
                await pilot.press("right")
            assert seen | {""} == whole_cells(table)
            await pilot.press("left", "right")
            assert lines(table) == first

    asyncio.run(scenario())


def test_a_column_wider_than_the_room_is_beside_the_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        run = made_up(tmp_path)
        results = on_gpus(results_of(run, run.preset()))
        for rank in (rank for trial in results.trials for repeat in trial.repeats for rank in repeat.ranks):
            force_setattr(rank, "host", f"begins{300 * '-'}ends")
        screen = ResultScreen(run, run.preset(), results)
        async with opened(tmp_path, screen, (80, 40)) as (_, pilot):
            table = screen.query_one(RankDetail)
            await pilot.press("4", "left")  # the last page
            await until(pilot, lambda: any("begins---" in line for line in lines(table)))
            assert all("rank" in line or "begins" in line for line in lines(table))

    asyncio.run(scenario())
