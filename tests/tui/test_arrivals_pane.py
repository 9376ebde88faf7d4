"""Who came when, seen: the late rank stands out in shape and word, whatever the room."""

import pytest

from ddptui.analysis.waits import align_steps
from ddptui.live.arrivals import ArrivalsSummary, RankArrivals, summary
from ddptui.tui.widgets.last_steps import Arrivals
from tests.support.traces import delayed, trace, works_of
from tests.tui.drawn import SIZES, text_of

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


def test_long_waits_are_in_seconds() -> None:
    late = LATE._replace(lateness=[1000 * ms for ms in LATE.lateness])
    lines = text_of(pane(ArrivalsSummary(4, [PROMPT, late])), 70, 9)
    assert lines[4] == "How late, step by step (█ 10 s)"
    assert lines[6].endswith("median 7.5 s")


def test_a_delay_that_was_put_in_is_not_drawn_as_work() -> None:
    found = pane(ArrivalsSummary(4, [PROMPT, LATE._replace(delay=10.0)]))
    lines = text_of(found, 70, 9)
    assert lines[1].startswith("rank 1 " + 10 * "━" + 17 * "╳" + "┫" + 8 * "▓" + "──")
    assert "╳ delay" in lines[3]


def test_no_rank_is_marked_that_the_judgement_does_not_name() -> None:
    assert not any("◀" in line for line in text_of(of_two(culprit=None), 70, 9))


def test_where_there_is_little_width_the_mark_stays() -> None:
    assert text_of(of_two(), 30, 4)[:2] == ["0 ━━━┫░░░░░░░░░░▓▓▓─", "1 ━━━━━━━━━━━━━┫▓▓▓─ ◀ culprit"]


def test_where_there_is_little_height_the_bars_stay() -> None:
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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ranks", [2, 3, 64])
def test_it_fits_where_there_is_room_for_anything(size: tuple[int, int], ranks: int) -> None:
    width, height = size
    lines = text_of(of_many(ranks, ranks - 2), width, height)[:height]
    assert any(line.endswith("◀ culprit") for line in lines)
    assert width < 50 or max(map(len, lines)) <= width


def test_nothing_took_any_time() -> None:
    nothing = RankArrivals(0, 0.0, 0.0, 0.0, 0.0, 0, [0.0])
    assert len(text_of(pane(ArrivalsSummary(1, [nothing, nothing._replace(rank=1)])), 70, 9)) == 7
