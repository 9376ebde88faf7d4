"""How often ranks look at their lines: more often while one of them is late, on all alike."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from ddptui.run import sampling
from ddptui.run.sampling import HOLDS_S, PER_S, SamplingPace
from ddptui.run.sampling import PER_S_IF_LATE as FASTER
from ddptui.text.units import MS
from ddptui.wire.messages import Collective, Step
from tests.support.builders import step


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(sampling, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def idle(rank: int, number: int, ms: float) -> Step:
    """A step of 10 ms in which the rank waits so long."""
    made = step(rank, number, end_ms=3_010)
    begin, end = made.end_ns - round(ms * MS), made.end_ns
    return replace(made, collectives=(Collective("all_reduce", 0, 8, begin, begin, begin, end),))


@pytest.mark.parametrize(
    ("of_0", "of_1", "per_s"), [(5.0, 0.1, FASTER), (5.0, 4.8, PER_S), (0.0, 0.0, PER_S), (0.5, 2.0, FASTER)]
)
def test_a_rank_that_waits_less_than_another_is_late(
    clock: SimpleNamespace, of_0: float, of_1: float, per_s: int
) -> None:
    pace = SamplingPace()
    changes = [pace.add([idle(0, number, of_0), idle(1, number, of_1)]) for number in range(30)]
    assert pace.per_s == per_s
    assert sum(changes) == (per_s != PER_S)
    alone = SamplingPace()
    alone.add([idle(0, number, of_0) for number in range(30)])
    assert alone.per_s == PER_S


def test_the_higher_rate_lasts_a_while_and_ends(clock: SimpleNamespace) -> None:
    pace = SamplingPace()
    for number in range(30):
        pace.add([idle(0, number, 5.0), idle(1, number, 0.1)])
    for number in range(30, 200):
        pace.add([idle(0, number, 1.0), idle(1, number, 1.0)])
    clock.now += HOLDS_S - 1
    pace.add([])
    assert pace.per_s == FASTER
    clock.now += 2
    pace.add([])
    assert pace.per_s == PER_S
