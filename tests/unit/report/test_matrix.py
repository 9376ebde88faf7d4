"""Who waited for whom, as text."""

import re

import pytest

from ddptui.analysis.breakdown import WaitMatrix, wait_matrix
from ddptui.analysis.results import RankResult
from ddptui.report import matrix
from ddptui.report.matrix import MOST_ROWS, describe, grid, largest, shade
from tests.support.builders import journal, results_for, two_trials
from tests.unit.report.edited import edited


def made(waited: dict[int, dict[int, float]], most: int | None = None) -> WaitMatrix:
    """Of these ranks: by rank, by late rank, how long the one waited for the other."""
    results = results_for(two_trials(repeats=1), journal("a"))
    ranks = [
        RankResult(
            rank=rank, host="here", pid=1, device="cpu", bottleneck_fired=0, bottleneck_s=0.0,
            wait_s=sum(late.values()), waited_for_s=late,
        )
        for rank, late in waited.items()
    ]  # fmt: skip
    return wait_matrix(edited(results, repeat=lambda *_: {"ranks": ranks}).base, most)


# Rank 2 is late: rank 0 waits for it in the gather, and only then can it scatter to rank 1.
GATHER_SCATTER = made({0: {2: 1.24, 1: 0.01}, 1: {0: 1.26}, 2: {0: 0.4}})
WAITS = {rank: {(rank + 33) % 64: 0.5, 7: 2.0} for rank in range(64) if rank != 7} | {7: {40: 0.5}}
MANY = made(WAITS, MOST_ROWS)


def lines(matrix: WaitMatrix, width: int) -> list[str]:
    return grid(matrix, width).lines


def test_a_few_ranks_have_numbers_beside_shades() -> None:
    assert lines(GATHER_SCATTER, 60) == [
        "waited, s   for 0   for 1   for 2",
        "rank 0          ·    0.01  █ 1.24",
        "rank 1     █ 1.26       ·       –",
        "rank 2     ▒ 0.40       –       ·",
    ]


def test_who_waits_directly_is_told_and_a_rank_beside_itself_has_its_whole_waiting() -> None:
    assert describe(GATHER_SCATTER, *largest(GATHER_SCATTER)) == "rank 1 waited 1.26 s for rank 0 (100% of its waiting)"
    assert describe(GATHER_SCATTER, 0, 2) == "rank 0 waited 1.24 s for rank 2 (99% of its waiting)"
    assert describe(GATHER_SCATTER, 1, 2) == "rank 1 did not wait for rank 2"
    assert describe(GATHER_SCATTER, 0, 0) == "rank 0 waited 1.25 s in all"
    assert describe(made({0: {1: 1.0}, 1: {}}), 1, 1) == "rank 1 waited for no rank"


def test_short_waits_are_in_ms_and_no_wait_has_no_shade() -> None:
    assert lines(made({0: {1: 0.0123}, 1: {}}), 60) == [
        "waited, ms   for 0   for 1",
        "rank 0           ·  █ 12.3",
        "rank 1           –       ·",
    ]
    assert lines(made({0: {}, 1: {}}), 60)[1:] == ["rank 0          ·      –", "rank 1          –      ·"]


def test_ranks_without_room_for_numbers_are_shades_of_blocks() -> None:
    assert [len(ranks) for ranks in MANY.ranks] == [2] * 32
    unit, columns, *rows = lines(MANY, 80)
    assert unit == f"waited; █ up to 1.12 s, {matrix.MEANS}"
    assert columns == "for   0   4   8   12  16  20  24  28  32  36  40  44  48  52  56  60"
    assert rows[0].startswith("0–1   ")
    assert {row[12:14] for row in rows if len(row) > 12} == {"██"}  # all wait for rank 7, which is in the fourth block
    assert describe(MANY, 0, 3) == "ranks 0–1 waited 4 s for ranks 6–7 (80% of their waiting), summed over them"
    few = made({rank: {(rank + 1) % 8: 1.0} for rank in range(8)})
    assert lines(few, 80)[0].startswith("waited, s   for 0")
    shown = lines(few, 60)
    assert shown[:2] == ["waited; █ up to 1 s", "for 0 1 2 3 4 5 6 7"]
    assert shown[2] == "0   · ██"
    assert shown[9] == "7   ██            ·"


def test_blocks_are_summed_but_their_shades_are_for_a_pair() -> None:
    shown = lines(made({rank: {(rank + 1) % 64: 0.5} for rank in range(64)}, 4), 80)
    assert shown[:2] == [
        f"{matrix.SUMMED}; shades: {matrix.MEANS}",
        "waited, s     for 0–15  for 16–31  for 32–47  for 48–63",
    ]
    assert shown[2] == "ranks 0–15      █ 7.50     ░ 0.50          –          –"
    alike = made({rank: {other: 0.5 for other in range(5) if other != rank} for rank in range(5)}, 3)
    assert [len(ranks) for ranks in alike.ranks] == [2, 2, 1]
    assert alike.per_pair_s == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), (0.5, 0.5, 0.0))
    assert alike.waited_s[0] == (1.0, 2.0, 1.0)
    assert {cell.strip()[0] for row in grid(alike, 80).cells for cell in row} == {"█", matrix.ITSELF}


@pytest.mark.parametrize("ranks", [31, 33, 1000])
@pytest.mark.parametrize("width", [20, 120])
def test_each_column_that_has_a_name_stands_below_it(ranks: int, width: int) -> None:
    """Each rank waits for the first rank of a block with a name, and for no other: its shade is below the name."""
    most = min(MOST_ROWS, width - 12)
    unit, names, *_ = lines(made({rank: {0: 1.0} for rank in range(ranks)}, most), width)
    assert unit.startswith("waited; █ up to ")
    told = re.findall(r"\d+", names)
    assert len(told) > 1
    for late in told:
        _, _, *rows = lines(made({rank: {int(late): 1.0} for rank in range(ranks)}, most), width)
        place = re.search(rf"\b{late}\b", names).start()
        assert all(row[place] in "░▒▓█·" for row in rows)
        assert {row[place - 1 : place] for row in rows} <= {" ", "·"}


@pytest.mark.parametrize("ranks", [2, 9, 32, 1000])
@pytest.mark.parametrize("width", [60, 200])
def test_no_line_is_wider_than_it_may_be(ranks: int, width: int) -> None:
    wide = made({rank: {(rank + 1) % ranks: 123.4} for rank in range(ranks)}, MOST_ROWS)
    assert max(map(len, lines(wide, width))) <= width
    assert len(lines(wide, width)) <= MOST_ROWS + 2
    shown = grid(wide, width)
    assert {len(cell) for row in shown.cells for cell in row} == {len(shown.cells[0][0])}
    assert {len(label) for label in shown.labels} == {len(shown.labels[0])}


def test_shades_are_quarters_of_the_longest_wait() -> None:
    assert [shade(s, 1.0) for s in (0.0, 0.04, 0.06, 0.24, 0.26, 0.51, 0.76, 1.0)] == [*"  ░░▒▓██"]
