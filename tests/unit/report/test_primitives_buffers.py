"""A primitive on a page: whose each number is, in every view of a recorded run, and where there is little room."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ddptui.analysis.primitive_results import BufferView, RankView, View
from ddptui.report.primitive_tables import (
    description,
    legend,
    number_kind,
    number_text,
    owners,
    page_lines,
    rank_kind,
    view_title,
)
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from ddptui.text.drawing import Line

RECORDED = Run(Path(__file__).parents[2] / "tui" / "recorded_primitives" / "run")
SEEN = {
    view_title(view): view
    for trial in results_of(RECORDED, RECORDED.preset()).trials
    for launch in trial.primitives
    for view in launch.views
}
WIDE = 100


def text(lines: Sequence[Line]) -> list[str]:
    return ["".join(words for words, _ in line).rstrip() for line in lines]


def kinds(lines: Sequence[Line], name: str) -> list[list[tuple[str, str]]]:
    """Of the lines that show a buffer of this name: its numbers, each with its kind."""
    shown = [line for line in lines if len(line) > 1 and line[1][0].strip() == name]
    return [[(words, kind) for words, kind in line[2:] if words.strip(" →│") and kind != "muted"] for line in shown]


def buffer(
    name: str, before: list[float | None] | None, after: list[float | None] | None, parts: int = 1
) -> BufferView:
    return BufferView(name=name, parts=parts, before=before, after=after, undefined=False)


def crowd(ranks: int) -> View:
    """An all_gather of one number a rank."""
    base = 10 ** len(str(ranks))
    numbers: list[float | None] = [float(base * rank + 1) for rank in range(ranks)]
    parts = buffer("parts", [0.0] * ranks, numbers, ranks)
    owns = [buffer("tensor", [number], [number]) for number in numbers]
    views = [
        RankView(rank=rank, call="dist.all_gather(parts, tensor)", buffers=[own, parts])
        for rank, own in enumerate(owns)
    ]
    return View(operation="all_gather", reduce_op=None, root=None, ranks=views)


def test_a_number_keeps_the_colour_of_its_rank_wherever_it_goes() -> None:
    broadcast = page_lines(SEEN["broadcast"], WIDE, after=True)
    mine = [(str(number), "rank-0") for number in (1, 2, 3, 4)]
    ones = [(str(number), "rank-1") for number in (11, 12, 13, 14)]
    assert kinds(broadcast, "tensor")[:2] == [mine + mine, ones + mine]
    swapped = kinds(page_lines(SEEN["all_to_all"], WIDE, after=True), "incoming")
    assert [kind for _, kind in swapped[2]] == [f"rank-{rank}" for rank in range(4) for _ in range(2)]
    assert [words for words, _ in swapped[2]] == ["5", "6", "15", "16", "25", "26", "35", "36"]


def test_what_all_come_to_is_nobodys_and_what_was_only_given_still_is() -> None:
    lines = page_lines(SEEN["reduce_scatter SUM"], WIDE, after=True)
    assert kinds(lines, "tensor")[0] == [("64", "reduced"), ("68", "reduced")]
    assert {kind for _, kind in kinds(lines, "parts")[3]} == {"rank-3"}
    smallest = kinds(page_lines(SEEN["all_reduce MIN"], WIDE, after=True), "tensor")
    assert smallest[0][:4] == [(str(number), "rank-0") for number in (1, 2, 3, 4)]
    assert {kind for _, kind in smallest[0][4:]} == {"reduced"}


def test_what_is_undefined_is_marked_number_by_number_and_said() -> None:
    view = SEEN["reduce SUM"]
    numbers = kinds(page_lines(view, WIDE, after=True), "tensor")
    assert {kind for _, kind in numbers[0][4:]} == {"reduced"}
    for rank in (1, 2, 3):
        assert all(words.endswith("?") and kind == "undefined" for words, kind in numbers[rank][4:])
    assert "Undefined on ranks 1, 2 and 3: do not use these values." in [*description(view)]
    assert "9? undefined" in text(legend(view))
    assert not any(
        "ndefined" in line for line in [*description(SEEN["all_reduce SUM"]), *text(legend(SEEN["all_reduce SUM"]))]
    )


@pytest.mark.parametrize("name", SEEN)
def test_before_the_call_nothing_is_given_away(name: str) -> None:
    """Not even by where things are: the page after it has the same lines."""
    before, after = (page_lines(SEEN[name], 50, after=each) for each in (False, True))
    assert len(before) == len(after)
    begin = next(number for number, line in enumerate(text(before)) if " dist." in line)
    assert not {kind for line in before[begin:] for _, kind in line} & {"reduced", "undefined"}
    own = {number_text(value) for value in owners(SEEN[name])}
    shown = {words for line in before[begin:] for words, kind in line if kind.startswith("rank-")}
    assert {words for words in shown if not words.startswith("rank ") and words.strip()} <= own


def test_before_and_after_are_beside_each_other_where_there_is_room_for_both() -> None:
    assert text(page_lines(SEEN["all_to_all"], 90, after=True))[2:5] == [
        "every rank: dist.all_to_all(incoming, outgoing)",
        "rank 0  outgoing   1  2 │  3  4 │  5  6 │  7  8 →  1  2 │  3  4 │  5  6 │  7  8",
        "        incoming   0  0 │  0  0 │  0  0 │  0  0 →  1  2 │ 11 12 │ 21 22 │ 31 32",
    ]
    hidden = text(page_lines(SEEN["all_to_all"], 90, after=False))
    assert hidden[4] == "        incoming   0  0 │  0  0 │  0  0 │  0  0 →  ·  · │  ·  · │  ·  · │  ·  ·"
    narrow = [text(page_lines(SEEN["all_to_all"], 50, after=each))[4] for each in (False, True)]
    assert narrow == [
        "        incoming      0  0 │  0  0 │  0  0 │  0  0",
        "        incoming   →  1  2 │ 11 12 │ 21 22 │ 31 32",
    ]


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("width", [50, 90])
def test_no_line_is_longer_than_there_is_room_for(name: str, width: int) -> None:
    lines = text(page_lines(SEEN[name], width, after=True))
    assert max(map(len, lines)) <= width


def test_the_numbers_of_many_ranks_are_folded_between_parts_and_the_hundreds_tell_whose_they_are() -> None:
    lines = text(page_lines(crowd(16), 50, after=True))
    assert lines[1] == "101: rank 1's first"
    assert lines[4:6] == [
        "         parts    →    1 │  101 │  201 │  301",
        "                     401 │  501 │  601 │  701",
    ]
    assert max(map(len, lines)) <= 50
    assert rank_kind(9) == rank_kind(1)


def test_what_has_no_numbers_says_so() -> None:
    view = View(operation="reduce", reduce_op="avg", root=0, ranks=[], error="ReduceOp.AVG is only for NCCL " * 3)
    lines = page_lines(view, 50, after=False)
    assert text(lines)[2].startswith("The backend cannot: ReduceOp.AVG is only for NCCL")
    assert {kind for _, kind in lines[2]} == {"wrong"}
    assert len(lines) == 5
    lines = text(page_lines(SEEN["barrier"], WIDE, after=True))
    assert lines == ["Every rank waits until all ranks have arrived; no data moves.", "", "every rank: dist.barrier()"]


@pytest.mark.parametrize(
    ("value", "after", "expected"),
    [(11.0, True, "rank-1"), (0.0, True, "muted"), (None, True, "wrong"), (7.5, True, ""), (11.0, False, "rank-1")],
)
def test_a_number_that_nobody_had_has_no_colour(value: float | None, after: bool, expected: str) -> None:
    view = crowd(2)
    assert number_kind(value, view.ranks[0].buffers[1], view, {1.0: 0, 11.0: 1}, after=after) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(4.0, "4"), (15.75, "15.75"), (153216.0, "153216"), (1.5e9, "1.50e+09"), (None, "nan"), (-3.0, "-3")],
)
def test_numbers_are_as_short_as_they_can_be(value: float | None, expected: str) -> None:
    assert number_text(value) == expected
