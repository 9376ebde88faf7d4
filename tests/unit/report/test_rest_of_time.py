"""What a train time holds besides steps of the median length: which steps were long, and the time between them."""

from collections.abc import Callable

import msgspec
import pytest

from ddptui.analysis import thinning
from ddptui.analysis.results import LongStep, RepeatResult, TimeParts
from ddptui.findings.repeat import outcome_of_messages
from ddptui.report.notes import note_lines
from ddptui.report.train_time import rest_of_time
from ddptui.wire.messages import Step
from ddptui.wire.records import Injection, Message
from tests.support.builders import FIRST_STEP_MS, done, ended, hello, launched, preset_of, results_for, step, trained

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


def read(messages: list[Message]) -> RepeatResult:
    found = outcome_of_messages(messages)
    assert found is not None
    assert found.result is not None
    return found.result


def some_long(number: int) -> float:
    return {37: 412.0, 90: 310.0}.get(number, USUAL_MS)


def test_where_all_steps_are_alike_nothing_is_said() -> None:
    repeat = read(launch())
    assert repeat.time_parts is not None
    assert (repeat.time_parts.long_steps, repeat.time_parts.longest) == (0, [])
    assert rest_of_time([repeat]) == ""


@pytest.mark.parametrize(("gap_ms", "is_said"), [(1.0, False), (1.2, True)])
def test_it_is_said_from_a_tenth_of_the_train_time_on(gap_ms: float, is_said: bool) -> None:
    assert bool(rest_of_time([read(launch(gap_ms=lambda _: gap_ms))])) == is_said


def test_the_parts_make_the_train_time() -> None:
    repeat = read(launch(lambda number: some_long(number) + number % 2, lambda n: 300.0 if n == 51 else 2.0))
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
    assert parts is not None
    sums = parts.median_s + parts.long_s + parts.between_steps_s + parts.between_epochs_s + parts.others_s
    assert sums == pytest.approx(repeat.train_time_s)


def test_long_steps_are_named_with_their_length() -> None:
    preset = preset_of({"trial": [{"name": "a", "launch": "single"}]})
    assert rest_of_time([read(launch(some_long))]) == (
        "100 median steps of 10.00 ms make 1 s of 1.7 s. "
        "The rest: 702 ms in 2 long steps, beyond the median (step 37 took 412 ms, step 90 took 310 ms)"
    )
    # In the notes, a finding says it better.
    *_, note = note_lines(results_for(preset, launch(some_long)), preset)
    assert note == "a: 2 steps took 692 ms longer than usual, between steps: steps 37 and 90. That is 41% of the time"


def test_of_many_long_steps_the_longest_are_named() -> None:
    line = rest_of_time([read(launch(lambda number: 100.0 + number if number % 10 == 0 else USUAL_MS))])
    assert (
        "in 10 long steps, beyond the median (step 100 took 200 ms, step 90 took 190 ms, step 80 took 180 ms, …)"
        in line
    )


def test_time_between_steps_and_between_epochs_is_told_apart() -> None:
    assert rest_of_time([read(launch(gap_ms=lambda _: 5.0))]).endswith("The rest: 490 ms between steps")
    line = rest_of_time([read(launch(gap_ms=lambda number: 500.0 if number == 51 else 0.0))])
    assert line.endswith("The rest: 500 ms between epochs")


def test_steps_that_are_mostly_longer_than_the_mean_are_said_too() -> None:
    line = rest_of_time([read(launch(lambda number: 1.0 if number <= 40 else USUAL_MS))])
    assert line == (
        "100 median steps of 10.00 ms would make 1 s, but training took 640 ms: "
        "a tenth of the steps took less than 1.00 ms"
    )


def test_of_several_repeats_the_one_with_the_largest_rest_is_told_of() -> None:
    repeats = [read(launch()), read(launch(some_long, repeat=2))]
    assert rest_of_time(repeats).startswith("repeat 2: 100 median steps of 10.00 ms make 1 s of 1.7 s")


def test_a_repeat_that_was_changed_by_hand_needs_no_such_words() -> None:
    *messages, last = launch(some_long, repeat=2)
    changed = [*messages[:3], Injection(at_ns=0, bottleneck=()), *messages[3:], last]
    assert rest_of_time([read(launch()), read(changed)]) == ""


def test_without_instruments_no_steps_are_known() -> None:
    unseen = [message for message in launch() if not isinstance(message, Step)]
    repeat = read([*unseen[:-2], trained(0), *unseen[-2:]])
    assert repeat.time_parts is None
    assert rest_of_time([repeat]) == ""


def test_of_a_long_launch_the_parts_are_those_of_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = launch(lambda number: 100.0 if number % 10 == 0 else USUAL_MS, lambda _: 3.0, steps=4_000)
    whole = read(messages).time_parts
    monkeypatch.setattr(thinning, "MOST_EVENTS", 500)
    repeat = read(messages)
    assert repeat.looked_at is not None
    assert whole is not None
    assert repeat.time_parts is not None
    assert repeat.time_parts.long_s == pytest.approx(whole.long_s, rel=0.1)
    assert repeat.time_parts.between_steps_s == pytest.approx(whole.between_steps_s, rel=0.1)
