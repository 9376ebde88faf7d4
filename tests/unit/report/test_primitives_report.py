"""What is said of primitives as text, Markdown and CSV; and that no line of a table is wider than it may be."""

import csv
import io
import re
from itertools import takewhile
from typing import Any

import msgspec
import pytest

from ddptui.analysis.primitive_results import BufferView, NcclUse, PrimitivesResult, RankView, TimeUs
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.primitive_report import primitives_as_csv
from ddptui.report.primitive_tables import LEGEND, buffer_lines
from ddptui.report.table import markdown, text
from ddptui.text.tables import DIM, END, RED, Filled, Table, as_markdown, as_text, fit, telling
from ddptui.text.words import digits, duration, percent, size
from tests.support.measured_cells import KB, MB, SIZES, cell, cells, of_primitives, result, view

MARKS = re.compile("[\ud900-\ud96b]")  # of styles
RULE = re.compile(r"─+")


def linear(start: float, per_mb: float) -> Any:
    return lambda size: start + size / MB * per_mb


def everything(**changes: Any) -> PrimitivesResult:
    """What a message takes, adding, a barrier, and three ways to a mean, of which one is overtaken."""
    return result(
        cells("isend_irecv", linear(50, 300)),
        cells("all_reduce", linear(200, 400)),
        [cell("barrier", 0, 100)],
        cells("local_sum", linear(1, 20)),
        cells("all_reduce", linear(210, 420), composite=True),
        cells("gather_scatter", linear(100, 1700), composite=True),
        cells("ring", linear(210, 425), composite=True),
        **changes,
    )


def ran() -> tuple[Results, Preset]:
    return of_primitives({"a": [everything()]})


def tables_of(shown: str) -> list[list[str]]:
    """Every table's lines, from its header to what comes after it."""
    lines = shown.splitlines()
    rules = [at for at, line in enumerate(lines) if RULE.fullmatch(line) and at + 1 < len(lines) and lines[at + 1]]
    ends = [next(end for end in range(at, len(lines)) if not lines[end]) for at in rules]
    return [lines[at - 1 : end] for at, end in zip(rules, ends, strict=True)]


def rows_of(shown: str, heading: str) -> list[dict[str, str]]:
    """Of the Markdown table below a heading, a row each, by header."""
    below = shown.split(f"{heading}\n\n", 1)[1].splitlines()
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in takewhile(lambda line: line.startswith("|"), below)
    ]
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("width", [60, 77, 100, 145])
def test_no_line_of_a_table_is_wider_than_it_may_be(width: int, color: bool) -> None:
    found = tables_of(MARKS.sub("", text(*ran(), width, color=color)))
    assert len(found) == 7
    assert max(len(line) for table in found for line in table) <= width


def test_a_row_is_what_was_measured_and_a_barrier_has_no_size() -> None:
    [*_, row] = rows_of(markdown(*ran()), "#### all_reduce: every rank gets the reduced tensor")
    assert row == {
        "size": "64 MB", "calls": "100", "min": "24.5 ms", "median": "25.8 ms", "p90": "27.1 ms",
        "p99": "28.4 ms", "CV": "5%", "mean": "26.1 ms", "algbw": "2.58", "busbw": "2.58", "slowest": "rank 1",
        "#wrong": "0",
    }  # fmt: skip
    [row] = rows_of(markdown(*ran()), "#### barrier: every rank waits until all ranks have arrived; no data moves")
    assert not {"size", "algbw", "busbw"} & set(row)
    assert row["median"] == "100 µs"


def test_several_launches_are_one_row_and_what_was_wrong_adds_up() -> None:
    launches = [result([cell("all_reduce", KB, median, wrong=wrong)]) for median, wrong in ((1, 2), (9, 0), (3, 1))]
    shown = markdown(*of_primitives({"a": launches}))
    [row] = rows_of(shown, "#### all_reduce: every rank gets the reduced tensor")
    assert (row["median"], row["#wrong"], row["calls"]) == ("3.00 µs", "3", "300")
    assert "and of 3 launches" in shown


def test_what_is_wrong_is_red_and_what_could_not_be_done_says_why_once() -> None:
    results, preset = of_primitives({"a": [result([cell("all_reduce", KB, 1, wrong=1), cell("all_reduce", MB, 2)])]})
    red = [line for line in text(results, preset, 100, color=True).splitlines() if line.startswith(RED)]
    assert [MARKS.sub("", line).split()[:2] for line in red] == [["1", "KB"]]
    assert not MARKS.search(text(results, preset, 100))
    lost = [cell("all_to_all", size, 1, time_us=None, cv=None, error="not on gloo\nat line 3") for size in SIZES]
    shown = text(*of_primitives({"a": [result(lost)]}), 100)
    assert shown.count("not done: not on gloo") == 1
    assert "line 3" not in shown


def on_gpus(environment: dict[str, Any], **launch: Any) -> tuple[Results, Preset]:
    """A run on two GPUs in which an all_reduce of 64 MB reaches 66 GB/s."""
    timed = result([cell("all_reduce", 64 * MB, 1000.0), cell("local_sum", MB, 10.0)], **{"backend": "nccl"} | launch)
    results, preset = of_primitives({"a": [timed]})
    return msgspec.structs.replace(results, environment=environment), preset


def test_the_nccl_is_named_below_the_heading_and_the_gpus_among_the_notes() -> None:
    used = NcclUse(version="2.28.9", implementation="ProcessGroupNCCL")
    shown = markdown(*on_gpus({}, nccl=used))
    assert "### a: 2 ranks, nccl\n\n- NCCL 2.28.9 (ProcessGroupNCCL)\n" in shown
    assert "NCCL" not in markdown(*on_gpus({}))
    results, preset = on_gpus({"gpus": ["T4", "T4"], "gpu_links": ["PHB: 0-1"], "gpu_driver": "580.65.06"})
    line = "GPUs of the console's host: 2 × T4; PHB: 0-1; driver 580.65.06"
    assert f"- {line}\n" in markdown(results, preset)
    assert line in text(results, preset, 100)
    assert "GPUs of" not in markdown(*ran())


@pytest.mark.parametrize(
    ("changes", "marked"), [({}, False), ({"cv": 0.51}, True), ({"cv": 0.49}, False), ({"cv": None}, False)]
)
def test_calls_that_differ_much_are_marked_and_explained(changes: dict[str, Any], marked: bool) -> None:
    shown = text(*of_primitives({"a": [result([cell("all_reduce", KB, 100, **changes)])]}), 100)
    assert ("¹ 100 µs" in shown) == marked
    assert ("¹ the calls vary" in shown) == marked


@pytest.mark.parametrize(("batch", "why"), [(False, "sched_batch = true"), (True, "more ranks than cores")])
def test_the_remedy_is_not_what_was_done_already(batch: bool, why: str) -> None:
    found = of_primitives({"a": [result([cell("all_reduce", KB, 100, cv=1.0)])]}, sched_batch=batch)
    assert why in text(*found, 100)


@pytest.mark.parametrize(
    ("cadence", "words"),
    [
        ("back_to_back", "at once"),
        ("barrier", "the reduced tensor (after barriers)\n"),
        ("pipelined", "the reduced tensor (pipelined)\n"),
        ("pipelined", "an all_reduce among several in flight takes"),
    ],
)
def test_the_cadence_is_said(cadence: str, words: str) -> None:
    assert words in text(*of_primitives({"a": [everything(cadence=cadence)]}), 100)


def test_how_many_calls_are_in_flight_stands_beside_each_size() -> None:
    launch = everything(cadence="pipelined")
    several = [msgspec.structs.replace(cell, in_flight=2 if cell.bytes == 64 * MB else 8) for cell in launch.cells]
    shown = markdown(*of_primitives({"a": [msgspec.structs.replace(launch, cells=several)]}))
    rows = rows_of(shown, "#### all_reduce: every rank gets the reduced tensor (pipelined)")
    assert [row["in flight"] for row in rows] == ["8"] * (len(SIZES) - 1) + ["2"]


def test_what_it_means_is_said_in_figures_if_they_tell() -> None:
    shown = " ".join(text(*ran(), 250).split())
    assert (
        "For small tensors the call takes the time, for large ones their bytes: an all_reduce takes 200 µs for 1 "
        "KB and at most twice that for 256 KB, so smaller gradients are better sent together, in a bucket."
    ) in shown
    assert "On 2 ranks the fastest way to average is gather + scatter up to 64 KB." in shown
    time = TimeUs(min=80.0, median=100.0, mean=900.0, p90=4000.0, p99=4100.0)
    ticking = cell("ring", KB, 100, composite=True, time_us=time)
    other, slower = (cell(name, KB, us, composite=True) for name, us in (("all_gather", 300), ("all_reduce", 9000)))
    assert UNTOLD in text(*of_primitives({"a": [result([ticking, other, slower])]}), 250)


def ways(*starts: float, sizes: tuple[int, ...] = SIZES) -> PrimitivesResult:
    """As many ways to average, with these times in µs for the smallest tensor."""
    names = ("all_reduce", "ring", "all_gather")
    return result(
        *(cells(name, linear(us, 400), sizes, composite=True) for name, us in zip(names, starts, strict=False))
    )


UNTOLD = "Cannot tell which way to average is fastest on 2 ranks."


@pytest.mark.parametrize(
    ("launches", "words"),
    [
        ([ways(100, 105)], UNTOLD),
        ([ways(100, 300, sizes=(KB,))], "is all_reduce + divide at 1 KB."),
        ([ways(100, 300), ways(310, 300)], UNTOLD),
        ([ways(100, 300), ways(120, 290)], "is all_reduce + divide up to 1 MB."),
    ],
)
def test_the_fastest_way_is_read_from_the_table_of_all_launches(launches: list[PrimitivesResult], words: str) -> None:
    assert words in text(*of_primitives({"a": launches}), 250)


@pytest.mark.parametrize("seen", [linear(200, 0), linear(0, 400)])
def test_without_a_latency_or_without_a_bandwidth_there_is_no_half_way(seen: Any) -> None:
    shown = text(*of_primitives({"a": [result(cells("all_reduce", seen))]}), 100)
    assert "On 2 ranks a call takes " in shown
    assert "twice that" not in shown


def lines_of(width: int, **changes: Any) -> list[str]:
    return ["".join(words for words, _ in line) for line in buffer_lines(view(**changes), width)]


def test_buffers_are_seen_before_and_after_with_their_parts_apart() -> None:
    assert lines_of(60) == [
        "every rank: dist.reduce(tensor, dst=0)",
        "rank 0  tensor  1 2 →  4  6",
        "rank 1  tensor  3 4 → 3? 4?",
    ]
    assert lines_of(24)[-4:-2] == ["rank 0  tensor     1 2", "                 →  4  6"]
    assert lines_of(80, ranks=[], error="no AVG with gloo\nmore") == ["The backend cannot: no AVG with gloo more"]
    calls = lines_of(30)[:2]
    assert calls == ["every rank:", "    dist.reduce(tensor, dst=0)"]
    parts = BufferView(name="gather_list", parts=2, before=[0, 0, 0, None], after=[1, 2.5, 3, 4], undefined=False)
    own = BufferView(name="tensor", parts=1, before=[1, 2], after=[1, 2], undefined=False)
    nothing = BufferView(name="gather_list", parts=0, before=None, after=None, undefined=False)
    ranks = [
        RankView(rank=0, call="dist.gather(tensor, gather_list)", buffers=[own, parts]),
        RankView(rank=1, call="dist.gather(tensor)", buffers=[own, nothing]),
    ]
    assert lines_of(80, operation="gather", ranks=ranks) == [
        "rank 0: dist.gather(tensor, gather_list)",
        "rank 1: dist.gather(tensor)",
        "rank 0  tensor         1   2           →   1   2",
        "        gather_list    0   0 │   0 nan →   1 2.5 │   3   4",
        "rank 1  tensor         1   2           →   1   2",
        "        gather_list  – not passed",
    ]


def test_the_grid_stands_under_what_moves_and_undefined_values_are_dim() -> None:
    results, preset = of_primitives({"a": [result(views=[view()])]})
    shown = text(results, preset, 80, color=True)
    assert "reduce SUM, root 0: the root gets the reduced tensor" in MARKS.sub("", shown)
    assert f"{DIM}3?{END} {DIM}4?{END}" in shown
    assert LEGEND in shown
    assert "```text" in markdown(results, preset)


def test_a_grid_is_cut_where_the_terminal_ends() -> None:
    width = 60
    wide = BufferView(name="tensor", parts=1, before=[1.25] * 40, after=[2.5] * 40, undefined=True)
    ranks = [RankView(rank=0, call="dist.reduce(tensor, dst=0)", buffers=[wide])]
    shown = text(*of_primitives({"a": [result(views=[view(ranks=ranks)])]}), width, color=True)
    grid_lines = [line for line in MARKS.sub("", shown).splitlines() if "1.25" in line or "2.5" in line]
    assert len(grid_lines) == 2
    assert all(len(line) == width and line.endswith("…") for line in grid_lines)


def test_a_trial_that_failed_says_why_and_one_that_was_not_reached_that_it_was_not() -> None:
    results, preset = of_primitives({"a": [everything()], "b": [], "c": []})
    a, b, c = results.trials
    lost = msgspec.structs.replace(b, status="failed", error="rank 1 killed\nthe log's end")
    results = msgspec.structs.replace(results, status="interrupted", trials=[a, lost, c])
    assert text(results, preset, 100).splitlines()[-4:] == [
        "c was not reached",
        "",
        "trial b failed: rank 1 killed",
        "  the log's end",
    ]
    found = list(csv.DictReader(io.StringIO(primitives_as_csv(results))))
    assert [(row["trial"], row["status"], row["error"]) for row in found[-2:]] == [
        ("b", "failed", "rank 1 killed\nthe log's end"),
        ("c", "skipped", ""),
    ]


# Tables and units by themselves


def test_the_least_telling_column_goes_first_and_what_says_nothing_before() -> None:
    table = Table((Filled("a", ["1"], 2), Filled("bb", ["22"], 3), Filled("c", ["–"], 9), Filled("d", ["|"], 1)))
    assert [column.header for column in fit(telling(table.columns), 100)] == ["a", "bb", "d"]
    assert [column.header for column in fit(telling(table.columns), 5)] == ["a", "bb"]
    assert [column.header for column in fit(telling(table.columns), 4)] == ["bb"]
    assert as_text(table, 1, color=False) == ["bb", "─", "22"] or len(as_text(table, 2, color=False)[0]) == 2
    assert as_markdown(table) == ["| a | bb | d |", "| --: | --: | --: |", "| 1 | 22 | \\| |"]


@pytest.mark.parametrize(
    ("bytes", "shown"),
    [(0, "0 B"), (1020, "1020 B"), (1024, "1 KB"), (1536, "1.50 KB"), (MB - 1, "1.00 MB"), (2**53, "8192 TB")],
)  # fmt: skip
def test_sizes_are_read_in_1024s(bytes: float, shown: str) -> None:
    assert size(bytes) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "–"), (0, "0 ns"), (5e-9, "5.00 ns"), (151e-6, "151 µs"), (999.6e-6, "1.00 ms"), (27.007e-3, "27.0 ms"),
     (1.5, "1.50 s"), (99.96, "100 s"), (12345, "3.4 h")],
)  # fmt: skip
def test_times_have_three_digits(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


def test_other_figures() -> None:
    assert [digits(each) for each in (0.0123456, 9.999, 123.4)] == ["0.0123", "10.0", "123"]
    assert [percent(each) for each in (None, 0.123, 1e9)] == ["–", "12%", "> 9999%"]
