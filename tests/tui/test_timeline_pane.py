"""The timeline, seen: it reads without colours."""

import msgspec
import pytest

from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.tui.widgets.last_steps import Timeline
from ddptui.wire.messages import Slept
from tests.support.traces import MS, all_reduce, delayed, trace, works_of
from tests.tui.drawn import SIZES, text_of

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


def pane(joined: list[AlignedStep]) -> Timeline:
    made = Timeline()
    made._steps = joined
    return made


def test_a_step_of_two_ranks() -> None:
    assert text_of(pane(steps()), 50, 7) == [
        "0 ▏d┈┈forward─backward════░░░░░░░░░░░░░░░░▓▓▓▓o╍╍╍",
        "   2.0 4.0     6.0         8.0             2.0 2.0",
        "1 ▏d┈┈forward─backward════╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳▓▓▓▓o╍╍╍",
        "   2.0 4.0     6.0         8.0             2.0 2.0",
        "  0 ms──────5─────────10────────15────────20──────",
        "░ wait  ▓ transfer  ╳ injected delay  d┈ data",
        "f─ forward  b═ backward  a┅ aggregate  + 1",
    ]


def test_times_that_a_device_may_be_behind_are_marked() -> None:
    marked = [step._replace(host_time=True) for step in steps()]
    assert text_of(pane(marked), 50, 7)[4] == "  0 ms*─────5─────────10────────15────────20──────"


def test_without_height_nothing_is_said_of_lengths() -> None:
    lines = text_of(pane(steps()), 50, 5)
    assert [line[0] for line in lines[:2]] == ["0", "1"]
    assert "6.0" not in " ".join(lines)


@pytest.mark.parametrize(("width", "shown"), [(40, 2), (80, 2), (100, 3), (200, 4)])
def test_more_steps_are_shown_where_there_is_more_width(width: int, shown: int) -> None:
    assert text_of(pane(steps(9)), width, 5)[0].count("▏") == shown


def test_with_too_many_ranks_the_one_that_the_others_waited_for_is_seen() -> None:
    lines = text_of(pane(steps(ranks=64, late=40)), 80, 8)
    assert any(line.startswith("40") and "╳" in line for line in lines)
    assert "and 59 ranks more" in lines


def test_before_the_first_step_it_says_so() -> None:
    assert text_of(pane([]), 60, 9) == ["waiting for the first steps"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ranks", [1, 2, 64])
def test_it_fits_where_there_is_room_for_anything(size: tuple[int, int], ranks: int) -> None:
    width, height = size
    works = works_of(2, ranks=ranks, steps=5)
    lines = text_of(pane(align_steps(trace(works)).steps), width, height)
    assert len(lines) <= max(4, height)
    assert width < 30 or max(map(len, lines)) <= width
