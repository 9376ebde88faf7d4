"""What a train time holds besides steps of the median length: which steps were long, and the time between them."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from ddptui.analysis import thinning
from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.results import LongStep, TimeParts
from ddptui.findings.patterns import every_so_many
from ddptui.wire.messages import Step
from ddptui.wire.records import Message
from tests.support.builders import (
    FIRST_STEP_MS,
    done,
    ended,
    hello,
    launched,
    preset_of,
    result_of,
    results_for,
    step,
    trained,
)

USUAL_MS = 10.0
AN_EPOCH = 50  # steps


def launch(
    length_ms: Callable[[int], float] = lambda _: USUAL_MS,
    gap_ms: Callable[[int], float] = lambda _: 0.0,
    *,
    steps: int = 100,
    repeat: int = 1,
) -> list[Message]:
    """One rank; gap_ms: before a step. A warm-up step of a second is in no figure."""
    told: list[Message] = [launched("a", repeat), hello(0, world_size=1)]
    told.append(step(0, 0, end_ms=FIRST_STEP_MS + 1_000, warmup=True))
    moment = FIRST_STEP_MS + 1_000.0
    for number in range(1, steps + 1):
        begin = moment + (gap_ms(number) if number > 1 else 0.0)
        moment = begin + length_ms(number)
        told.append(
            msgspec.structs.replace(step(0, number, begin_ms=begin, end_ms=moment), epoch=(number - 1) // AN_EPOCH)
        )
    return [*told, done(0), ended()]


def some_long(number: int) -> float:
    return {37: 412.0, 90: 310.0}.get(number, USUAL_MS)


def test_where_all_steps_are_alike_nothing_is_said_and_without_instruments_none_are_known() -> None:
    repeat = result_of(launch())
    assert (repeat.time_parts.long_steps, repeat.time_parts.longest) == (0, [])
    unseen = [message for message in launch() if not isinstance(message, Step)]
    assert result_of([*unseen[:-2], trained(0), *unseen[-2:]]).time_parts is None


def test_the_parts_make_the_train_time() -> None:
    repeat = result_of(launch(lambda number: some_long(number) + number % 2, lambda n: 300.0 if n == 51 else 2.0))
    parts = repeat.time_parts
    assert parts == TimeParts(
        median_s=pytest.approx(1.1),
        long_s=pytest.approx(0.413 - 0.011 + 0.310 - 0.011),
        between_steps_s=pytest.approx(98 * 0.002),
        between_epochs_s=pytest.approx(0.3),
        others_s=pytest.approx(-0.049),  # 49 even steps are a millisecond shorter than the median
        long_steps=2,
        longest=[LongStep(step=37, ms=pytest.approx(413)), LongStep(step=90, ms=pytest.approx(310))],
    )
    sums = parts.median_s + parts.long_s + parts.between_steps_s + parts.between_epochs_s + parts.others_s
    assert sums == pytest.approx(repeat.train_time_s)


def findings(*repeats: list[Message]) -> list[Finding]:
    preset = preset_of({"trial": [{"name": "a", "launch": "single"}], "repeats": len(repeats)})
    return results_for(preset, *repeats).trials[0].findings


def slow(*repeats: list[Message]) -> list[Finding]:
    return [finding for finding in findings(*repeats) if finding.kind is Kind.SLOW_STEPS]


def many_long(number: int) -> float:
    return 30.0 + number / 10 if number % 5 == 0 else USUAL_MS


@pytest.mark.parametrize("repeats", [(launch(many_long),), (launch(), launch(many_long, repeat=2))])
def test_slow_steps_are_found_with_the_worst_in_the_repeat_with_the_most(repeats: tuple[list[Message], ...]) -> None:
    [finding] = slow(*repeats)
    assert (finding.steps, finding.numbers["times"], finding.numbers["of"]) == ((100,), 20, 100)
    assert finding.numbers["share"] == pytest.approx(0.34, abs=0.01)
    assert finding.numbers["worst_ms"] == pytest.approx(40)


def test_below_a_tenth_of_the_time_or_where_a_finding_says_it_better_slow_steps_are_not_said() -> None:
    assert slow(launch(lambda number: 25.0 if number % 25 == 0 else USUAL_MS)) == []
    [finding] = findings(launch(some_long))
    assert (finding.kind, finding.steps) == (Kind.LONG_STEPS, (37, 90))


def test_of_a_long_launch_the_parts_are_those_of_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = launch(lambda number: 100.0 if number % 10 == 0 else USUAL_MS, lambda _: 3.0, steps=4_000)
    whole = result_of(messages).time_parts
    monkeypatch.setattr(thinning, "MOST_EVENTS", 500)
    repeat = result_of(messages)
    assert repeat.looked_at is not None
    assert repeat.time_parts.long_s == pytest.approx(whole.long_s, rel=0.1)
    assert repeat.time_parts.between_steps_s == pytest.approx(whole.between_steps_s, rel=0.1)


@pytest.mark.parametrize(
    ("numbers", "every"),
    [(range(10, 80, 10), 10), ([10, 20, 40, 50, 60, 80], 10), (range(5, 12), None), ([10, 13, 31, 40, 47, 59], None)],
)
def test_pauses_come_every_so_many_steps_if_they_are_regular_and_apart(
    numbers: Sequence[int], every: int | None
) -> None:
    assert every_so_many(numbers) == every
