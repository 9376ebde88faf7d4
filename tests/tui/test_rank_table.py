"""Which columns the table of ranks has, with GPUs and without."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import force_setattr

from ddptui.diagnosis.positions import RankProgress
from ddptui.live.state import RankState, StepEnd
from ddptui.run.playback import Playback
from ddptui.text.drawing import shorten
from ddptui.text.tables import GAP, Filled, fill, fit
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.rank_panes import COLUMNS, SHORT_STATE, RankRow, RankTable, fitting, progress
from ddptui.tui.widgets.tables import RankDetail
from ddptui.wire.messages import Gpu, Position
from tests.support.gpu_figures import on_gpus
from tests.tui.gpu_recordings import made_up
from tests.tui.opened import on, seen, tick, until
from tests.tui.recordings import Clock, moment_s, over

GB = 2**30
ON_CPU = RankState(rank=0, device="cpu", cpu_percent=99.0)
FULL = Gpu(busy_percent=96.6, used_bytes=5 * GB, total_bytes=80 * GB, watts=251.4, celsius=71, sm_mhz=1979.6)
ON_GPU = msgspec.structs.replace(ON_CPU, device="cuda:0", gpu_bytes=3 * GB, gpu_reserved_bytes=17 * GB // 4, gpu=FULL)
OF_GPUS = ["gpu %", "gpu used", "W", "MHz", "gpu mem.", "°C"]
FIRST = ["gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s"]  # what one looks at first
COUNTED = msgspec.structs.replace(ON_GPU, flops=1e12, step=3, ends=[StepEnd(0, 0, 8), StepEnd(10**9, 2, 4)])
HOT = msgspec.structs.replace(FULL, sm_mhz=1410, held_back=True)
HELD_BACK = msgspec.structs.replace(ON_GPU, gpu=HOT)


OF_MACHINE = [*OF_GPUS, "cpu %"]


def columns(width: int, *ranks: RankState, state: str = "running", is_culprit: bool = False) -> list[Filled]:
    return fitting(
        [RankRow(rank, state, phases=None, wait_ms=None, is_culprit=is_culprit) for rank in ranks], width - GAP
    )


def headers(width: int, *ranks: RankState) -> list[str]:
    return [column.header for column in columns(width, *ranks)]


def cells(rank: RankState, state: str = "running") -> dict[str, str]:
    row = RankRow(rank, state, phases=None, wait_ms=None, is_culprit=False)
    return {column.header: column.cell(row) for column in COLUMNS if column.header in OF_MACHINE}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"step": 42, "steps": 60}, "███████░░░  70%"),
        ({"step": 42}, "step 42"),
        ({"step": 42, "progress": RankProgress(position=Position(epoch=3, batch=16, batches=32))}, "ep. 3 ██░░  50%"),
        ({"step": 42, "progress": RankProgress(position=Position(epoch=1234, batch=9, batches=3))}, "ep. 1234 █ 100%"),
    ],
)
def test_the_progress_is_of_all_steps_or_else_of_the_epoch(fields: dict[str, Any], shown: str) -> None:
    assert progress(msgspec.structs.replace(ON_CPU, **fields)) == shown
    assert len(shown) <= 16


@pytest.mark.parametrize("width", [76, 196])
def test_without_gpus_nothing_gives_way(width: int) -> None:
    row = RankRow(ON_CPU, "running", phases=None, wait_ms=None, is_culprit=False)
    plain = [column for column in fill(COLUMNS, [row]) if column.header not in (*OF_GPUS, "TFLOP/s")]
    assert headers(width, ON_CPU) == [column.header for column in fit(plain, width - GAP)]


def test_what_one_rank_tells_has_a_column_for_all() -> None:
    assert [header for header in headers(500, ON_CPU, ON_GPU) if header in OF_GPUS] == OF_GPUS


def test_a_figure_that_the_driver_withholds_takes_no_room() -> None:
    """As where a GPU is cut into several, or lent to a virtual machine."""
    busy = msgspec.structs.replace(ON_GPU, gpu=Gpu(used_bytes=GB))
    assert [header for header in headers(500, busy) if header in OF_GPUS] == ["gpu used", "gpu mem."]
    assert cells(busy)["gpu used"] == "1 GB"


@pytest.mark.parametrize(
    ("width", "others"),
    [
        (76, []),
        (116, ["loss", "wait", "cpu %"]),
        (196, ["loss", "wait", "progress", "data", "forward", "backward", "aggr.", "optim.", "gpu mem.", "°C"]),
    ],
)
def test_what_one_looks_at_first_stands_together_at_every_width(width: int, others: list[str]) -> None:
    chosen = headers(width, COUNTED)
    assert {*chosen} - {"rank", "state", *FIRST} >= {*others}
    assert chosen[:2] == ["rank", "state"]
    assert chosen[chosen.index("gpu %") :][: len(FIRST)] == FIRST
    assert sum(column.width + GAP for column in columns(width, COUNTED)) <= width


@pytest.mark.parametrize(
    ("state", "is_culprit", "shown"),
    [
        ("running", True, "running ◀"),
        ("waiting for rank 1023", True, "waits for 1023 ◀"),
        ("waiting for rank 1 (5 s)", False, "waits for 1"),
        ("stalled (1234 s)", False, "stalled"),
    ],
)
def test_beside_these_figures_a_state_is_short(state: str, is_culprit: bool, shown: str) -> None:
    _, narrow, *_ = columns(76, COUNTED, state=state, is_culprit=is_culprit)
    assert (narrow.cells, narrow.width) == ([shown], SHORT_STATE)
    _, wide, *_ = columns(116, COUNTED, state=state, is_culprit=is_culprit)
    assert wide.cells == [shorten(state + " ◀ culprit" * is_culprit, wide.width)]
    assert narrow.width < wide.width


def test_operations_are_those_of_a_sample_times_the_samples() -> None:
    told = {column.header: column.cell(RankRow(COUNTED, "running", None, None, is_culprit=False)) for column in COLUMNS}
    assert (told["samples/s"], told["TFLOP/s"]) == ("8", "8.00")  # two steps of four samples in a second


def test_what_nobody_counts_is_not_told_as_none() -> None:
    """As of a watched training: nobody counts its operations, and its samples only where a loader brings them."""
    watched = msgspec.structs.replace(COUNTED, flops=None, ends=[StepEnd(0, 0, 0), StepEnd(10**9, 2, 0)])
    told = {column.header: column.cell(RankRow(watched, "running", None, None, is_culprit=False)) for column in COLUMNS}
    assert (told["samples/s"], told["TFLOP/s"]) == ("–", "–")
    assert headers(76, watched) == ["rank", "state", *FIRST[:5]]


def test_what_a_gpu_is_at_is_told_in_whole_numbers() -> None:
    assert cells(ON_GPU) == {
        "cpu %": "99", "gpu %": "97", "gpu mem.": "3.0/4.2 GB", "gpu used": "5.0/80 GB", "W": "251", "°C": "71",
        "MHz": "1980",
    }  # fmt: skip
    assert cells(ON_CPU) == dict.fromkeys(OF_GPUS, "–") | {"cpu %": "99"}


@pytest.mark.parametrize(("device", "mark"), [("cpu", ""), ("cuda:0", ""), ("mps", "*"), ("xpu:1", "*")])
def test_phases_that_a_device_may_be_behind_are_marked(device: str, mark: str) -> None:
    rank = msgspec.structs.replace(ON_CPU, device=device)
    row = RankRow(rank, "running", phases=[1.04, 123.4, 999.9, 4.0, 5.0], wait_ms=None, is_culprit=False)
    told = {column.header: (*column.cells, max(column.wide, len(column.header))) for column in fill(COLUMNS, [row])}
    phases = [told[header] for header in ("data", "forward", "backward", "aggr.", "optim.")]
    assert [cell for cell, _ in phases] == [f"{ms}{mark}" for ms in ("1.0", "123.4", "999.9", "4.0", "5.0")]
    assert all(len(cell) <= width for cell, width in phases)


def test_a_clock_that_is_held_back_is_marked() -> None:
    assert cells(HELD_BACK)["MHz"] == "▼1410"
    of_an_older_version = msgspec.structs.replace(HOT, held_back=("power cap",))
    assert cells(msgspec.structs.replace(HELD_BACK, gpu=of_an_older_version))["MHz"] == "1410"


def test_of_a_silent_rank_nothing_is_known_of_its_gpu_either() -> None:
    told = cells(HELD_BACK, "stalled (5 s)")
    assert {told[header] for header in ("cpu %", "gpu %", "W", "°C", "MHz")} == {""}
    assert headers(500, HELD_BACK) == [column.header for column in columns(500, HELD_BACK, state="stalled (5 s)")]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_figures_stand_under_their_headers(size: tuple[int, int], tmp_path: Path) -> None:
    run = made_up(tmp_path)
    told = Playback(run, run.preset(), Clock())
    told.seek(moment_s(told, "late", 70))
    async with on(RunScreen(told), size) as (app, pilot, screen):
        await tick(pilot, screen)
        assert "watched training" in dict(screen.query_one(RankTable).explained)["TFLOP/s"]
        lines = seen(app).splitlines()
    [header] = [line for line in lines if "gpu %" in line]
    row, other = lines[lines.index(header) + 1 :][:2]
    figures = dict(zip(FIRST, ("97", "4.5/16 GB", "242", "▼1410", "1 985", "278"), strict=True))
    figures |= {"wait": "13.5"} if size[0] > 80 else {}
    for column, figure in figures.items():
        assert row[: header.index(column) + len(column)].endswith(f" {figure}"), column
    assert ("waits for 1 " in row, "running ◀  " in other) == (size[0] == 80,) * 2
    assert ("waiting for rank 1" in row, "◀ culprit" in other) == (size[0] > 80,) * 2


ENOUGH = 30  # presses, for every column there is


def lines_of(table: RankDetail) -> list[str]:
    return [table.render_line(y).text for y in range(table.row_count + 1)]


def whole(table: RankDetail) -> set[str]:
    return {cell for line in lines_of(table) for cell in re.split(r"\s{2,}", line.strip())}


def possible(table: RankDetail) -> set[str]:
    """What whole hold, headers included, as the screen has it between gaps of two spaces."""
    return {"", *(text for column in table._filled[0] for text in (column.header, *column.cells))}


@pytest.mark.parametrize("width", [80, 120])
async def test_each_press_brings_whole_columns_until_all_were_seen(tmp_path: Path, width: int) -> None:
    run = made_up(tmp_path)
    result = ResultScreen(run, run.preset(), on_gpus(over(run).results))
    async with on(result, (width, 40)) as (_, pilot, screen):
        table = screen.query_one(RankDetail)
        await pilot.press("4")
        await until(pilot, lambda: screen.focused is table and "← → more" in str(table.border_subtitle))
        first, seen = lines_of(table), whole(table)
        assert {"gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s"} <= seen
        presses = 1
        await pilot.press("right")
        while lines_of(table) != first:
            assert "rank" in whole(table)
            assert whole(table) <= possible(table)
            seen |= whole(table)
            presses += 1
            assert presses < ENOUGH
            await pilot.press("right")
        assert seen | {""} == possible(table)
        await pilot.press("left", "right")
        assert lines_of(table) == first


async def test_a_column_wider_than_the_room_is_beside_the_first(tmp_path: Path) -> None:
    run = made_up(tmp_path)
    results = on_gpus(over(run).results)
    for rank in (rank for trial in results.trials for repeat in trial.repeats for rank in repeat.ranks):
        force_setattr(rank, "host", f"begins{300 * '-'}ends")
    async with on(ResultScreen(run, run.preset(), results), (80, 40)) as (_, pilot, screen):
        table = screen.query_one(RankDetail)
        await pilot.press("4", "left")  # the last page
        await until(pilot, lambda: any("begins---" in line for line in lines_of(table)))
        assert all("rank" in line or "begins" in line for line in lines_of(table))
