"""Delays put in by hand while a repeat ran: what they leave out, and which steps a rank is judged on."""

import csv
import io
import re
from collections.abc import Callable

import msgspec
import pytest

from ddptui.analysis import thinning
from ddptui.analysis.repeats import exclusion_reason, valid_repeats
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.report.notes import note_lines
from ddptui.report.table import as_csv, text
from ddptui.wire.messages import Step
from ddptui.wire.records import Injection, Message
from tests.support.builders import (
    done,
    ended,
    hello,
    journal,
    launched,
    offset,
    ready,
    result_of,
    results_for,
    trained,
    two_trials,
)
from tests.support.traces import MS, Told, delayed, trace, works_of

LATE = Bottleneck(at="forward", ranks=(1,), sleep_ms=20)
STEPS = 400
FROM, UNTIL = 300, 340  # a tenth of the steps: over all of them, the delay is too small to stand out


def in_between(step: int) -> float:
    return 20.0 if FROM <= step < UNTIL else 0.0


def steps_of(ms: Callable[[int], float] = in_between, *, steps: int = STEPS, warmup: int = 0) -> Told:
    works, _ = delayed(works_of(1, steps=steps), 1, "forward", ms)
    told = trace(works)
    return {
        rank: [msgspec.structs.replace(own, warmup=own.step < warmup) for own in of_rank]
        for rank, of_rank in told.items()
    }


def changed(told: Told, *changes: tuple[int, tuple[Bottleneck, ...]]) -> list[Message]:
    """A launch in which delays were changed just before some steps began."""
    steps: list[Message] = [own for pair in zip(*told.values(), strict=True) for own in pair]
    for number, bottleneck in reversed(changes):
        first = next(at for at, own in enumerate(steps) if isinstance(own, Step) and own.step == number)
        at_ns = min(told[rank][number].begin_ns for rank in told)
        steps.insert(first, Injection(at_ns=at_ns, bottleneck=bottleneck))
    begun = [launched("a", at_ms=0), *(hello(rank) for rank in told), *(ready(rank) for rank in told)]
    return [*begun, *steps, *(done(rank) for rank in told), ended()]


def test_the_late_rank_is_judged_on_the_steps_with_the_delay_and_named() -> None:
    results, preset = of_run(changed(steps_of(), (FROM, (LATE,)), (UNTIL, ())))
    [repeat] = results.trials[0].repeats
    put_in, taken_out = repeat.changes
    assert (put_in.step, put_in.steps, taken_out.step, taken_out.steps) == (FROM, UNTIL - FROM, UNTIL, STEPS - UNTIL)
    assert repeat.culprit == put_in.culprit
    assert (repeat.culprit.rank, repeat.culprit.phase, repeat.culprit.steps) == (1, "forward", (FROM, UNTIL - 1))
    assert repeat.culprit.excess_s.estimate / put_in.steps == pytest.approx(0.020, rel=0.1)
    assert taken_out.culprit is None
    found, by_hand, *_ = [line for line in note_lines(results, preset) if line.startswith("a: ")]
    measured = r"\(measured: (19|20)(\.\d)? ms a step on rank 1, in forward\)"
    words = rf"a: changed by hand from step 300 on: forward 20 ms on 1 {measured}"
    assert re.fullmatch(rf"{words}; from step 340 on: no delay; the figures include it", by_hand), by_hand
    assert re.match(
        r"a: Rank 1 holds everyone up: (19|20)\S* ms a step \(.*\), in forward, in steps 300 to 339\. ", found
    )
    assert "injected" not in found


def test_of_several_delays_the_one_that_cost_most_is_judged_as_the_matrix_of_waits_shows_it() -> None:
    """Rank 0 is late by 10 ms for 200 steps, then rank 1 by 200 ms for 40."""
    first, then = (Bottleneck(at="forward", ranks=(rank,), sleep_ms=ms) for rank, ms in ((0, 10), (1, 200)))
    works, _ = delayed(works_of(1, steps=STEPS), 0, "forward", lambda step: 10.0 if 100 <= step < FROM else 0.0)
    works, _ = delayed(works, 1, "forward", lambda step: 10 * in_between(step))
    found = result_of(changed(trace(works), (100, (first,)), (FROM, (then,)), (UNTIL, ())))
    assert (found.culprit.rank, found.culprit.steps) == (1, (FROM, UNTIL - 1))
    waited = {rank.rank: sum(rank.waited_for_s.values()) for rank in found.ranks}
    assert waited[0] > waited[1]


def test_where_delays_were_only_removed_the_steps_before_are_judged() -> None:
    repeat = result_of(changed(steps_of(lambda step: 20.0 if step < 60 else 0.0), (60, ())))
    assert (repeat.culprit.rank, repeat.culprit.steps) == (1, (0, 59))
    assert repeat.changes[0].culprit is None


def test_of_changes_in_the_warm_up_only_the_last_is_in_measured_steps() -> None:
    repeat = result_of(changed(steps_of(lambda step: 0.0, warmup=50), (40, ())))
    assert (repeat.culprit, repeat.changes[0].steps) == (None, STEPS - 50)
    repeat = result_of(changed(steps_of(warmup=50), (20, (LATE,)), (30, (LATE,))))
    assert [change.steps for change in repeat.changes] == [0, STEPS - 50]


def test_too_late_for_any_measured_step_it_changes_nothing() -> None:
    late = Injection(at_ns=10**15, bottleneck=(LATE,))
    *messages, last = changed(steps_of(lambda _: 20.0))
    repeat, whole = result_of([*messages, late, last]), result_of([*messages, last])
    assert exclusion_reason(repeat) is None
    assert (repeat.changes[0].step, repeat.changes[0].steps) == (None, 0)
    assert msgspec.structs.replace(repeat, changes=[]) == whole


def test_without_instruments_a_changed_repeat_does_not_count_either() -> None:
    messages = journal()
    unseen = [message for message in messages[:-3] if not isinstance(message, Step)]
    late = Injection(at_ns=3_100 * MS, bottleneck=(LATE,))
    repeat = result_of([*unseen, late, trained(0), trained(1), *messages[-3:]])
    assert repeat.changes[0].steps is None
    assert exclusion_reason(repeat) == "changed by hand"


def test_of_a_long_launch_the_delay_a_step_is_as_exact_as_of_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, begin = 2_000, 1_000
    told = steps_of(lambda step: 20.0 if begin <= step < begin + 200 else 0.0, steps=steps)
    monkeypatch.setattr(thinning, "MOST_EVENTS", 1_000)
    repeat = result_of(changed(told, (begin, (LATE,)), (begin + 200, ())))
    assert repeat.looked_at is not None
    assert repeat.culprit.excess_s.estimate == pytest.approx(200 * 0.020, rel=0.1)
    assert repeat.changes[0].culprit == repeat.culprit


def launch(trial: str, repeat: int, step_ms: float = 10, *, by_hand: bool = False) -> list[Message]:
    messages = journal(trial, repeat, step_ms=step_ms)
    return [*messages[:5], *[Injection(at_ns=0, bottleneck=(LATE,))] * by_hand, *messages[5:]]


def of_run(*journals: list[Message]) -> tuple[Results, Preset]:
    preset = two_trials(repeats=max(messages[0].repeat for messages in journals))
    return results_for(preset, *journals), preset


def test_a_changed_repeat_is_in_no_median_and_no_ratio() -> None:
    clean = [launch("a", 2), launch("b", 2, 20), launch("a", 3), launch("b", 3, 20)]
    results, preset = of_run(launch("a", 1, 90, by_hand=True), launch("b", 1, 20), *clean)
    a, b = (trial.summary for trial in results.trials)
    assert (a.train_time_s.min, a.train_time_s.max) == (0.03, 0.03)
    assert (b.ratio.low, b.ratio.high, b.speedup) == pytest.approx((2, 2, 0.5))
    repeats = results.trials[0].repeats
    assert (len(repeats), len(valid_repeats(repeats))) == (3, 2)
    [line] = [line for line in note_lines(results, preset) if "changed" in line]
    assert line.startswith("a: repeat 1 of 3 was changed by hand from step 0 on: forward 20 ms on 1")
    assert line.endswith("it is left out of medians and ratios")
    [cells] = [line.split() for line in text(results, preset, 200).splitlines() if line.startswith("a  ")]
    assert {"0.03…0.03", "10.00"} <= {*cells}  # of the step times, too
    rows = csv.DictReader(io.StringIO(as_csv(results, preset)))
    assert [row["left_out"] for row in rows] == ["changed by hand", *[""] * 5]


def test_where_all_repeats_are_changed_they_all_count_and_the_words_say_so() -> None:
    results, preset = of_run(
        launch("a", 1), launch("b", 1, 20, by_hand=True), launch("a", 2), launch("b", 2, 40, by_hand=True)
    )
    ratio = results.trials[1].summary.ratio
    assert (ratio.low, ratio.high) == pytest.approx((2, 4))
    lines = [line for line in note_lines(results, preset) if "changed by hand" in line]
    assert [line.endswith("the figures include it") for line in lines] == [True, True]


def test_no_ratio_is_formed_against_a_baseline_that_was_changed_in_every_repeat() -> None:
    results, preset = of_run(launch("a", 1, by_hand=True), launch("b", 1, 20))
    assert [(trial.summary.ratio, trial.summary.speedup) for trial in results.trials] == [(None, None)] * 2
    assert results.findings[0].doubt == "every repeat of a, the baseline, was changed by hand"
    lines = note_lines(results, preset)
    assert not any(line.startswith(("ratio", "caution: no ratio")) for line in lines)  # the answer says so


def test_no_ratio_is_formed_of_repeats_with_different_numbers() -> None:
    results, preset = of_run(
        launch("a", 1, by_hand=True), launch("b", 1, 20), launch("a", 2), launch("b", 2, by_hand=True)
    )
    assert results.trials[1].summary.ratio is None
    assert "b: no ratio: no repeat is valid both here and in a" in note_lines(results, preset)


def test_where_clocks_hide_the_waits_of_the_whole_repeat_the_delay_may_still_stand_out() -> None:
    error_ms = 8.0  # more than the ranks waited a step, less than the delay
    told = steps_of()
    begun, *rest = changed(told, (FROM, (LATE,)), (UNTIL, ()))
    last_ms = max(of_rank[-1].end_ns for of_rank in told.values()) / MS
    probes = [offset(1, at_ms, 0, error_ms) for at_ms in range(0, int(last_ms) + 1000, 500)]
    other_host = [hello(1, clock="far") if message == hello(1) else message for message in rest]
    here = msgspec.structs.replace(begun, clock="here")
    repeat = result_of([here, *other_host[:4], *probes, *other_host[4:]])
    assert repeat.wait_share is None
    assert (repeat.culprit.rank, repeat.culprit.steps) == (1, (FROM, UNTIL - 1))
