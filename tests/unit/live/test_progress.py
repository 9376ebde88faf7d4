"""How far a run has come, and how long it may still take."""

import pytest
from msgspec.structs import replace

from ddptui.config.preset import Preset
from ddptui.live import headline
from ddptui.live.fold import RATE_OVER, fold
from ddptui.live.state import Live
from ddptui.wire.messages import Position
from ddptui.wire.records import Message
from tests.support.builders import (
    LAUNCHED_MS,
    MS,
    ended,
    failure,
    heartbeat,
    hello,
    journal,
    launched,
    preset_of,
    ready,
    step,
    two_trials,
)

FOUR = two_trials()  # launches, where all goes well
AFTER_10_S = (LAUNCHED_MS + 10_000) * MS


def live_of(*messages: Message) -> Live:
    return fold(Live(), messages)


def running(steps: int = 0) -> list[Message]:
    """A launch of which so many of 4 steps are over."""
    told: list[Message] = [step(rank, number) for number in range(steps) for rank in (0, 1)]
    return [launched("b"), hello(0), hello(1), ready(0), ready(1), *told]


def test_how_far_an_epoch_is_stands_for_steps_whose_number_is_not_known() -> None:
    assert headline.steps(live_of(*running(2))) == "step 2 of 4"
    unknown = [launched("b"), hello(0), hello(1), *(replace(ready(rank), steps=None) for rank in (0, 1))]
    assert headline.steps(live_of(*unknown)) == ""
    made = [step(rank, number) for number in range(2) for rank in (0, 1)]
    assert headline.steps(live_of(*unknown, *made)) == "step 2"
    places = (Position(epoch=3, batch=8, batches=32), Position(epoch=4, batch=1, batches=32))  # one is ahead
    beats = [replace(heartbeat(rank), position=place) for rank, place in enumerate(places)]
    assert headline.steps(live_of(*unknown, *made, *beats)) == "step 2 · 25% of epoch 3"


def left(live: Live, preset: Preset = FOUR, now_ns: int = AFTER_10_S) -> float | None:
    return headline.left_s(preset, live, now_ns)


def test_there_are_as_many_launches_as_trials_times_repeats() -> None:
    assert headline.launches(FOUR, live_of()) == 4
    assert headline.launches(FOUR, live_of(*journal("a"), *journal("b"))) == 4


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_a_trial_that_is_over_early_is_spared_its_other_repeats(status: str) -> None:
    preset = two_trials(repeats=5)
    first = live_of(*journal("a"), launched("b"), ended(status))
    assert headline.launches(preset, first) == 5 + 1
    third = live_of(*journal("a"), launched("b", 3), ended(status), launched("a", 4))
    assert headline.launches(preset, third) == 5 + 3


def test_before_anything_is_known_nobody_knows() -> None:
    assert left(live_of()) is None
    assert left(live_of(launched("a"))) is None
    assert left(live_of(*running(steps=0))) is None


def test_what_is_left_takes_as_long_as_what_was() -> None:
    assert left(live_of(*journal("a"))) == pytest.approx(30)  # 1 of 4 in 10 s
    assert left(live_of(*journal("a"), *journal("b"), *journal("a", 2))) == pytest.approx(10 / 3)


def test_a_launch_that_has_just_begun_will_take_as_long_as_those_before_it() -> None:
    begun = live_of(*journal("a"), launched("b", at_ms=LAUNCHED_MS + 8_000))
    assert left(begun) == pytest.approx(6 + 2 * 8)  # it has run for 2 of 8 s
    assert left(begun, now_ns=AFTER_10_S + 1_000 * MS) == pytest.approx(5 + 2 * 8)  # and a second later
    assert left(begun, now_ns=AFTER_10_S + 60_000 * MS) == pytest.approx(2 * 8)


def test_of_the_launch_that_runs_its_steps_tell_once_they_have_found_their_pace() -> None:
    """One of 100 steps, 10 ms each."""

    def going(steps: int) -> Live:
        told = [step(rank, number, end_ms=3_000 + 10 * number) for number in range(steps) for rank in (0, 1)]
        return live_of(launched("a"), hello(0), hello(1), ready(0, 100), ready(1, 100), *told)

    alone = preset_of({"trial": [{"name": "a"}]})
    assert left(going(RATE_OVER - 1), alone) is None
    assert left(going(40), alone) == pytest.approx(0.6)
    assert left(going(80), alone) == pytest.approx(0.2)
    assert left(going(80)) == pytest.approx(0.2 + 3 * 10.2)  # the others as long as this one, all in all


def test_of_a_launch_that_has_ended_its_steps_are_not_counted_again() -> None:
    after = live_of(*journal("a"), *running(steps=2), ended("failed"))
    assert headline.launches(FOUR, after) == 3
    assert left(after) == pytest.approx(10 / 2 * 1)


def test_the_clock_begins_with_the_first_launch() -> None:
    late = live_of(*journal("a"), *journal("b", launched_ms=LAUNCHED_MS + 9_000))  # both in 10 s
    assert left(late) == pytest.approx(10)


def test_when_all_is_over_nothing_is_left() -> None:
    journals = [*journal("a"), *journal("b"), *journal("a", 2), *journal("b", 2)]
    assert left(live_of(*journals)) is None
    assert left(live_of(*journal("a"), *failure("b"), *journal("a", 2))) is None
    assert left(live_of(*journal("a")), preset_of({"trial": [{"name": "a"}]})) is None


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (0.9, "0:00"), (9, "0:09"), (59.99, "0:59"), (60, "1:00"), (605, "10:05"), (3600, "60:00")],
)
def test_time_is_shown_as_on_a_stopwatch(seconds: float, shown: str) -> None:
    assert headline.clock(seconds) == shown


def test_how_much_of_a_run_is_over() -> None:
    preset = preset_of({"repeats": 2, "trial": [{"name": "a", "world_size": 2}, {"name": "b", "world_size": 2}]})

    def part(*messages: Message) -> float:
        return headline.part_done(preset, fold(Live(), messages))

    assert part() == 0.0
    assert part(launched("a"), hello(0), hello(1)) == 0.0
    half = [launched("a"), *(hello(rank) for rank in (0, 1)), *(ready(rank, steps=4) for rank in (0, 1))]
    half += [step(number, rank) for number in (0, 1) for rank in (0, 1)]
    assert part(*half) == 0.5 / 4
    assert part(*half, ended()) == 1 / 4
    assert part(*half, ended("skipped")) == 1 / 3  # its second repeat is spared
    assert part(*half, ended(), *[launched("b"), ended()] * 3) == 1.0
