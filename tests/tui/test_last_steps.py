"""Who came when, seen: the late rank stands out in shape and word, whatever the room."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.live.timeline import ArrivalsSummary, RankArrivals, summary
from ddptui.text.drawing import large
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.panes import Panes
from ddptui.tui.widgets.rank_panes import Arrivals, LargeArrivals, Timeline
from ddptui.wire.messages import Slept
from tests.support.traces import MS, all_reduce, delayed, trace, works_of
from tests.tui.drawn import SIZES, text_of
from tests.tui.opened import on, seen
from tests.tui.recordings import ToldAsItGoes, at

PROMPT = RankArrivals(0, 5.0, 10.0, 4.0, 1.0, 0, [0.0] * 4)
LATE = RankArrivals(1, 15.0, 0.0, 4.0, 1.0, 4, [10.0, 5.0, 10.0, 1.0])


def pane(found: ArrivalsSummary | None, culprit: int | None = None) -> Arrivals:
    made = Arrivals()
    made._summary, made._culprit = found, culprit
    return made


def of_two(culprit: int | None = 1) -> Arrivals:
    return pane(ArrivalsSummary(4, [PROMPT, LATE]), culprit)


def of_many(ranks: int, culprit: int) -> Arrivals:
    works, _ = delayed(works_of(1, ranks=ranks, steps=24), ranks - 2, "data", lambda _: 5)
    return pane(summary(align_steps(trace(works)).steps), culprit)


def test_bars_show_who_waited_for_whom() -> None:
    assert not any("◀" in line for line in text_of(of_two(culprit=None), 70, 9))  # the judgement names none
    assert text_of(of_two(), 70, 9) == [
        "rank 0 ━━━━━━━━━┫░░░░░░░░░░░░░░░░░░▓▓▓▓▓▓▓▓──",
        "rank 1 ━━━━━━━━━━━━━━━━━━━━━━━━━━━┫▓▓▓▓▓▓▓▓── last in 4 of 4 ◀ culprit",
        "       0 ms──────5────────10───────15────────",
        "       ━ work  ┫ arrival  ░ wait  ▓ transfer  ─ rest",
        "How late, step by step (█ 10 ms)",
        "rank 0 ····                                   median 0 ms",
        "rank 1 █▄█▁                                   median 7.5 ms",
    ]


def test_where_devices_may_be_behind_the_times_no_rank_is_late() -> None:
    works, _ = delayed(works_of(1, steps=24), 1, "data", lambda _: 5)
    found = summary(align_steps(trace(works), devices={0: "xpu:0", 1: "xpu:1"}).steps)
    words = "times are host times, and devices may be behind: the order of arrival is unknown"
    assert text_of(pane(found), 90, 9) == [words]


def test_a_delay_that_was_put_in_is_not_drawn_as_work() -> None:
    found = pane(ArrivalsSummary(4, [PROMPT, LATE._replace(delay=10.0)]))
    lines = text_of(found, 70, 9)
    assert lines[1].startswith("rank 1 " + 10 * "━" + 17 * "╳" + "┫" + 8 * "▓" + "──")
    assert "╳ delay" in lines[3]


def test_where_there_is_little_room_the_mark_and_the_bars_stay() -> None:
    assert text_of(of_two(), 30, 4)[:2] == ["0 ━━━┫░░░░░░░░░░▓▓▓─", "1 ━━━━━━━━━━━━━┫▓▓▓─ ◀ culprit"]
    assert len(text_of(of_two(), 70, 6)) == 4
    assert [line[:6] for line in text_of(of_two(), 70, 2)[:2]] == ["rank 0", "rank 1"]
    assert text_of(of_two(), 70, 1)[0].startswith("rank 1")


def test_with_too_many_ranks_the_late_one_is_seen_and_the_others_are_counted() -> None:
    lines = text_of(of_many(64, culprit=3), 100, 8)
    marked = [line.split("◀")[1].strip() for line in lines if "◀" in line]
    assert marked == ["culprit"]
    assert [line for line in lines if line.startswith("and")] == ["and 59 ranks more"]
    assert len(lines) == 8


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "waiting for the first steps"),
        (ArrivalsSummary(9, [PROMPT]), "no operation of several ranks in these steps, so no rank waits"),
        (ArrivalsSummary(0, [PROMPT, LATE]), "no operation of several ranks in these steps, so no rank waits"),
    ],
)
def test_where_there_is_nothing_to_see_it_says_why(found: ArrivalsSummary | None, words: str) -> None:
    assert text_of(pane(found), 70, 9) == [words]


@pytest.mark.parametrize("ranks", [2, 64])
def test_it_fits_where_there_is_room_for_anything(ranks: int) -> None:
    for width, height in SIZES:
        lines = text_of(of_many(ranks, ranks - 2), width, height)[:height]
        assert any(line.endswith("◀ culprit") for line in lines)
        assert width < 50 or max(map(len, lines)) <= width
    nothing = RankArrivals(0, 0.0, 0.0, 0.0, 0.0, 0, [0.0])  # took any time
    assert len(text_of(pane(ArrivalsSummary(1, [nothing, nothing._replace(rank=1)])), 70, 9)) == 7


ALONE_MS = (2.0, 4.0, 6.0, 0.0, 2.0, 1.0)  # data, forward, backward, aggregate, optimizer, between


def steps(number: int = 1, ranks: int = 2, late: int = 1) -> list[AlignedStep]:
    """Rank 1 is put to sleep for 8 ms before it aggregates."""
    works = [{rank: [round(part * MS) for part in ALONE_MS] for rank in range(ranks)} for _ in range(number)]
    works, _ = delayed(works, late, "aggregate", lambda _: 8)
    told = trace(works, all_reduce, MS)
    begins = [step.begin_ns + 12 * MS for step in told[late]]
    told[late] = [
        msgspec.structs.replace(step, slept=(Slept("aggregate", begin, begin + 8 * MS),))
        for step, begin in zip(told[late], begins, strict=True)
    ]
    return align_steps(told).steps


def timeline(joined: list[AlignedStep]) -> Timeline:
    made = Timeline()
    made._steps = joined
    return made


def test_a_step_of_two_ranks() -> None:
    assert text_of(timeline(steps()), 50, 7) == [
        "0 ▏d┈┈forward─backward════░░░░░░░░░░░░░░░░▓▓▓▓o╍╍╍",
        "   2.0 4.0     6.0         8.0             2.0 2.0",
        "1 ▏d┈┈forward─backward════╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳▓▓▓▓o╍╍╍",
        "   2.0 4.0     6.0         8.0             2.0 2.0",
        "  0 ms──────5─────────10────────15────────20──────",
        "░ wait  ▓ transfer  ╳ injected delay  d┈ data",
        "f─ forward  b═ backward  a┅ aggregate  + 1",
    ]
    # where a device may be behind its times, they are marked
    marked = [step._replace(host_time=True) for step in steps()]
    assert text_of(timeline(marked), 50, 7)[4] == "  0 ms*─────5─────────10────────15────────20──────"


def test_without_height_nothing_is_said_of_lengths_nor_of_steps_before_the_first() -> None:
    assert text_of(timeline([]), 60, 9) == ["waiting for the first steps"]
    lines = text_of(timeline(steps()), 50, 5)
    assert [line[0] for line in lines[:2]] == ["0", "1"]
    assert "6.0" not in " ".join(lines)


@pytest.mark.parametrize(("width", "shown"), [(40, 2), (200, 4)])
def test_more_steps_are_shown_where_there_is_more_width(width: int, shown: int) -> None:
    assert text_of(timeline(steps(9)), width, 5)[0].count("▏") == shown


def test_with_too_many_ranks_the_one_that_the_others_waited_for_is_seen() -> None:
    lines = text_of(timeline(steps(ranks=64, late=40)), 80, 8)
    assert any(line.startswith("40") and "╳" in line for line in lines)
    assert "and 59 ranks more" in lines


@pytest.mark.parametrize("ranks", [1, 64])
def test_a_timeline_fits_where_there_is_room_for_anything(ranks: int) -> None:
    told = timeline(align_steps(trace(works_of(2, ranks=ranks, steps=5))).steps)
    for width, height in SIZES:
        lines = text_of(told, width, height)
        assert len(lines) <= max(4, height)
        assert width < 30 or max(map(len, lines)) <= width


@asynccontextmanager
async def on_run(
    size: tuple[int, int] = (120, 40), *, is_replay: bool = False
) -> AsyncIterator[tuple[RunScreen, Pilot[Any]]]:
    told = at("late", 60)
    async with on(RunScreen(told if is_replay else ToldAsItGoes(told)), size) as (_, pilot, screen):
        yield screen, pilot


@pytest.mark.parametrize(
    ("size", "pixel", "bars", "is_replay"), [((80, 24), 1, 3, True), ((120, 40), 1, 7, False), ((200, 60), 2, 12, True)]
)
async def test_the_headline_and_the_arrivals_fill_the_terminal(
    size: tuple[int, int], pixel: int, bars: int, is_replay: bool
) -> None:
    async with on_run(size, is_replay=is_replay) as (_, pilot):
        before = seen(pilot.app)
        await pilot.press("P")
        text = seen(pilot.app)
        lines = text.splitlines()
        assert large("Rank 1", 23 * pixel, 3 * pixel)[0].strip() in text
        assert "Ranks" not in text.replace("Ranks idle", "")
        waits, works = ([line for line in lines if 3 * glyph in line] for glyph in ("░░░", "╳╳╳"))
        assert abs(len(waits) - bars) <= 1
        assert abs(len(works) - bars) <= 1
        assert sum(" waits 1" in line for line in waits) == sum("◀ culprit" in line for line in works) == 1
        await pilot.press("P")
        assert seen(pilot.app) == before


async def test_the_keys_of_the_delays_work_as_before_a_zoomed_pane_gives_way_and_it_follows_the_size() -> None:
    async with on_run() as (screen, pilot):
        await pilot.press("P", "B", "down", "+", "b", "3", "z")
        sent = screen.feed.controls.requests(screen.watched.live.launched_ns)  # type: ignore[union-attr]
        assert [[(each.ranks, each.sleep_ms) for each in delays or ()] for delays in sent] == [[], [((1,), 50)]]
        assert "backward 50 ms on 1" in seen(pilot.app)
        assert screen.maximized is None
        assert screen.query_one(Panes).chosen == "ranks"
        await pilot.press("P")
        await pilot.press("4", "z", "P")
        assert "◀ culprit" in seen(pilot.app)
        assert screen.maximized is None
        bars = []
        for size in ((200, 60), (60, 16), (120, 40)):
            await pilot.resize_terminal(*size)
            bars.append(sum("░░░" in line for line in seen(pilot.app).splitlines()))
        assert bars[0] > bars[2] > bars[1] >= 2


def bars_of(ranks: int) -> LargeArrivals:
    made = LargeArrivals()
    others = [PROMPT._replace(rank=rank) for rank in range(2, ranks)]
    made._summary, made._culprit = ArrivalsSummary(4, [PROMPT, LATE._replace(lateness=[10.0] * 4), *others], None), 1
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


@pytest.mark.parametrize("ranks", [2, 8, 1024])
def test_it_fits_any_room(ranks: int) -> None:
    for width, height in SIZES:
        lines = text_of(bars_of(ranks), width, height)
        if height > 4 and width > 30:
            assert len(lines) <= height
            assert max(map(len, lines)) <= width
            assert any("◀ culprit" in line for line in lines)
