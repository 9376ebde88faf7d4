"""Which columns the table of ranks has, with GPUs and without."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ddptui.live.state import RankState, StepEnd
from ddptui.run.playback import Playback
from ddptui.text.drawing import shorten
from ddptui.text.tables import GAP, Filled, fill, fit
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.rank_table import COLUMNS, SHORT_STATE, Row, fitting, progress
from ddptui.wire.messages import Gpu, Position
from tests.tui.gpu_recordings import made_up
from tests.tui.opened import opened, seen
from tests.tui.recordings import Clock, moment_s

GB = 2**30
ON_CPU = RankState(rank=0, pid=1, device="cpu", cpu_percent=99.0)
FULL = Gpu(busy_percent=96.6, used_bytes=5 * GB, total_bytes=80 * GB, watts=251.4, celsius=71, sm_mhz=1979.6)
ON_GPU = msgspec.structs.replace(ON_CPU, device="cuda:0", gpu_bytes=3 * GB, gpu_reserved_bytes=17 * GB // 4, gpu=FULL)
OF_GPUS = ["gpu %", "gpu used", "W", "MHz", "gpu mem.", "°C"]
FIRST = ["gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s"]  # what one looks at first
COUNTED = msgspec.structs.replace(ON_GPU, flops=1e12, step=3, ends=[StepEnd(0, 0, 8), StepEnd(10**9, 2, 4)])
HOT = msgspec.structs.replace(FULL, sm_mhz=1410, held_back=True)
HELD_BACK = msgspec.structs.replace(ON_GPU, gpu=HOT)


OF_MACHINE = [*OF_GPUS, "cpu %"]


def columns(width: int, *ranks: RankState, state: str = "running", is_culprit: bool = False) -> list[Filled]:
    return fitting([Row(rank, state, phases=None, wait_ms=None, is_culprit=is_culprit) for rank in ranks], width - GAP)


def headers(width: int, *ranks: RankState) -> list[str]:
    return [column.header for column in columns(width, *ranks)]


def cells(rank: RankState, state: str = "running") -> dict[str, str]:
    row = Row(rank, state, phases=None, wait_ms=None, is_culprit=False)
    return {column.header: column.cell(row) for column in COLUMNS if column.header in OF_MACHINE}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"step": 42, "steps": 60}, "███████░░░  70%"),
        ({"step": 42}, "step 42"),
        ({"step": 42, "position": Position(epoch=3, batch=16, batches=32)}, "ep. 3 ██░░  50%"),
        ({"step": 42, "position": Position(epoch=1234, batch=99, batches=32)}, "ep. 1234 █ 100%"),
    ],
)
def test_the_progress_is_of_all_steps_or_else_of_the_epoch(fields: dict[str, Any], shown: str) -> None:
    assert progress(msgspec.structs.replace(ON_CPU, **fields)) == shown
    assert len(shown) <= 16


def test_where_no_rank_tells_of_a_gpu_there_is_no_column_for_it() -> None:
    assert not {*headers(500)} & {*OF_GPUS}
    assert not {*headers(500, ON_CPU)} & {*OF_GPUS}


@pytest.mark.parametrize("width", [76, 116, 196, 500])
def test_without_gpus_nothing_gives_way(width: int) -> None:
    row = Row(ON_CPU, "running", phases=None, wait_ms=None, is_culprit=False)
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
        (
            196,
            ["loss", "wait", "progress", "data", "forward", "backward", "aggr.", "optim.", "cpu %", "gpu mem.", "°C"],
        ),
    ],
    ids=["80", "120", "200"],
)
def test_what_one_looks_at_first_stands_together_at_every_width(width: int, others: list[str]) -> None:
    chosen = headers(width, COUNTED)
    assert {*chosen} - {"rank", "state", *FIRST} >= {*others}
    assert chosen[:2] == ["rank", "state"]
    assert chosen[chosen.index("gpu %") :][: len(FIRST)] == FIRST
    assert sum(column.width + GAP for column in columns(width, COUNTED)) <= width


def test_beside_a_scroll_bar_and_in_the_smallest_terminal_the_most_of_it_is_left() -> None:
    assert headers(74, COUNTED) == ["rank", "state", *FIRST]
    assert headers(56, COUNTED) == ["rank", "state", *FIRST[:4]]


@pytest.mark.parametrize(
    ("state", "is_culprit", "shown"),
    [
        ("running", True, "running ◀"),
        ("waiting for rank 12", False, "waits for 12"),
        ("waiting for rank 1023", True, "waits for 1023 ◀"),
        ("waiting for rank 1 (5 s)", False, "waits for 1"),
        ("stalled (12 s)", False, "stalled (12 s)"),
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
    told = {column.header: column.cell(Row(COUNTED, "running", None, None, is_culprit=False)) for column in COLUMNS}
    assert (told["samples/s"], told["TFLOP/s"]) == ("8", "8.00")  # two steps of four samples in a second


def test_what_nobody_counts_is_not_told_as_none() -> None:
    """As of a watched training: nobody counts its operations, and its samples only where a loader brings them."""
    watched = msgspec.structs.replace(COUNTED, flops=None, ends=[StepEnd(0, 0, 0), StepEnd(10**9, 2, 0)])
    told = {column.header: column.cell(Row(watched, "running", None, None, is_culprit=False)) for column in COLUMNS}
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
    row = Row(rank, "running", phases=[1.04, 123.4, 999.9, 4.0, 5.0], wait_ms=None, is_culprit=False)
    told = {column.header: (*column.cells, max(column.wide, len(column.header))) for column in fill(COLUMNS, [row])}
    phases = [told[header] for header in ("data", "forward", "backward", "aggr.", "optim.")]
    assert [cell for cell, _ in phases] == [f"{ms}{mark}" for ms in ("1.0", "123.4", "999.9", "4.0", "5.0")]
    assert all(len(cell) <= width for cell, width in phases)


def test_memory_of_which_only_the_tensors_are_known_is_told_as_such() -> None:
    """As of a run that was recorded by an older version."""
    assert cells(msgspec.structs.replace(ON_GPU, gpu_reserved_bytes=None))["gpu mem."] == "3 GB"


def test_a_clock_that_is_held_back_is_marked() -> None:
    assert cells(HELD_BACK)["MHz"] == "▼1410"
    of_an_older_version = msgspec.structs.replace(HOT, held_back=("power cap",))
    assert cells(msgspec.structs.replace(HELD_BACK, gpu=of_an_older_version))["MHz"] == "1410"


def test_of_a_silent_rank_nothing_is_known_of_its_gpu_either() -> None:
    told = cells(HELD_BACK, "stalled (5 s)")
    assert {told[header] for header in ("cpu %", "gpu %", "W", "°C", "MHz")} == {""}
    assert headers(500, HELD_BACK) == [column.header for column in columns(500, HELD_BACK, state="stalled (5 s)")]


def test_only_rare_figures_are_wider_than_their_column() -> None:
    most = Gpu(busy_percent=100, used_bytes=999 * GB, total_bytes=999 * GB, watts=1999, celsius=110, sm_mhz=3105)
    most = msgspec.structs.replace(most, held_back=True)
    held = {"gpu_bytes": 999 * GB, "gpu_reserved_bytes": 999 * GB}
    told = cells(msgspec.structs.replace(ON_GPU, gpu=most, **held))
    room = {column.header: max(column.wide, len(column.header)) for column in COLUMNS}
    assert {header for header, cell in told.items() if len(cell) > room[header]} == {"gpu used", "W"}


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_the_figures_stand_under_their_headers(size: tuple[int, int], tmp_path: Path) -> None:
    async def shown() -> list[str]:
        run = made_up(tmp_path)
        told = Playback(run, run.preset(), Clock())
        told.seek(moment_s(told, "late", 70))
        screen = RunScreen(told)
        async with opened(tmp_path, screen, size) as (app, pilot):
            screen.tick()
            await pilot.pause()
            assert "watched training" in dict(screen.explained["Columns of the ranks"])["TFLOP/s"]
            return seen(app).splitlines()

    lines = asyncio.run(shown())
    [header] = [line for line in lines if "gpu %" in line]
    row, other = lines[lines.index(header) + 1 :][:2]
    figures = dict(zip(FIRST, ("97", "4.5/16 GB", "242", "▼1410", "1 985", "278"), strict=True))
    figures |= {"wait": "13.5"} if size[0] > 80 else {}
    for column, figure in figures.items():
        assert row[: header.index(column) + len(column)].endswith(f" {figure}"), column
    assert ("waits for 1 " in row, "running ◀  " in other) == (size[0] == 80,) * 2
    assert ("waiting for rank 1" in row, "◀ culprit" in other) == (size[0] > 80,) * 2
