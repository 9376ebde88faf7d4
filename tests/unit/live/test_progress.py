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
ALONE = preset_of({"trial": [{"name": "a"}]})
AFTER_10_S = (LAUNCHED_MS + 10_000) * MS


def live_of(*messages: Message) -> Live:
    return fold(Live(), messages)


def running(steps: int = 0, of: int | None = 4) -> list[Message]:
    """A launch of which so many steps are over."""
    told: list[Message] = [step(rank, number) for number in range(steps) for rank in (0, 1)]
    return [launched("b"), hello(0), hello(1), *(replace(ready(rank), steps=of) for rank in (0, 1)), *told]


def left(live: Live, preset: Preset = FOUR, now_ns: int = AFTER_10_S) -> float | None:
    return headline.left_s(preset, live, now_ns)


def test_how_far_an_epoch_is_stands_for_steps_whose_number_is_not_known() -> None:
    assert headline.steps(live_of(*running(2))) == "step 2 of 4"
    assert headline.steps(live_of(*running(of=None))) == ""
    assert headline.steps(live_of(*running(2, of=None))) == "step 2"
    places = (Position(epoch=3, batch=8, batches=32), Position(epoch=4, batch=1, batches=32))  # one is ahead
    beats = [replace(heartbeat(rank), position=place) for rank, place in enumerate(places)]
    assert headline.steps(live_of(*running(2, of=None), *beats)) == "step 2 · 25% of epoch 3"


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


@pytest.mark.parametrize(
    ("messages", "left_s"),
    [
        ([], None),
        ([launched("a")], None),
        (running(steps=0), None),
        (journal("a"), 30),  # 1 of 4 in 10 s
        ([*journal("a"), *journal("b"), *journal("a", 2)], 10 / 3),
        ([*journal("a"), *running(steps=2), ended("failed")], 10 / 2 * 1),  # its steps are not counted again
        ([*journal("a"), *journal("b", launched_ms=LAUNCHED_MS + 9_000)], 10),  # the clock begins with the first
        ([*journal("a"), *journal("b"), *journal("a", 2), *journal("b", 2)], None),
        ([*journal("a"), *failure("b"), *journal("a", 2)], None),
    ],
)
def test_what_is_left_takes_as_long_as_what_was(messages: list[Message], left_s: float | None) -> None:
    assert left(live_of(*messages)) == (left_s and pytest.approx(left_s))


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

    assert left(going(RATE_OVER - 1), ALONE) is None
    assert left(going(40), ALONE) == pytest.approx(0.6)
    assert left(going(80), ALONE) == pytest.approx(0.2)
    assert left(going(80)) == pytest.approx(0.2 + 3 * 10.2)  # the others as long as this one, all in all
    assert left(live_of(*journal("a")), ALONE) is None


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (0.9, "0:00"), (59.99, "0:59"), (60, "1:00"), (605, "10:05"), (3600, "60:00")]
)
def test_time_is_shown_as_on_a_stopwatch(seconds: float, shown: str) -> None:
    assert headline.clock(seconds) == shown


def test_how_much_of_a_run_is_over() -> None:
    def part(*messages: Message) -> float:
        return headline.part_done(FOUR, live_of(*messages))

    half = running(2)
    assert (part(), part(*running(0))) == (0.0, 0.0)
    assert part(*half) == 0.5 / 4
    assert part(*half, ended()) == 1 / 4
    assert part(*half, ended("skipped")) == 1 / 3  # its second repeat is spared
    assert part(*half, ended(), *[launched("b"), ended()] * 3) == 1.0
