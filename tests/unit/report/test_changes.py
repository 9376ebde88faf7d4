"""Delays that somebody put in or took out while a repeat ran: what is kept of them, and how it is told."""

from typing import Any

import msgspec
import pytest

from ddptui.analysis.results import Change, RepeatResult, Results
from ddptui.config.trial import Bottleneck
from ddptui.findings.repeat import outcome_of_messages
from ddptui.report import table
from ddptui.report.notes import note_lines
from ddptui.wire.messages import Step
from ddptui.wire.records import Injection, Message
from tests.support.builders import FIRST_STEP_MS, MS, ended, journal, preset_of, results_for, trained, two_trials

LATE = Bottleneck(at="forward", ranks=(1,), sleep_ms=20)
MORE = Bottleneck(at="aggregate", ranks=(0, 1), sleep_ms=2.5, per="call", to_step=9)
# Of the steps of a journal: 0 is a warm-up of 100 ms, then come 1, 2 and 3 of 10 ms each.
STEP_2_MS = FIRST_STEP_MS + 110


def by_hand(at_ms: float, *bottleneck: Bottleneck) -> Injection:
    return Injection(at_ns=round(at_ms * MS), bottleneck=bottleneck)


def with_hand(messages: list[Message], *injections: Injection) -> list[Message]:
    return [*messages[:-3], *injections, *messages[-3:]]


def read(*injections: Injection) -> RepeatResult:
    found = outcome_of_messages(with_hand(journal(), *injections))
    assert found is not None
    assert found.result is not None
    return found.result


def told(*journals: list[Message], **fields: Any) -> list[str]:
    preset = preset_of({"repeats": len(journals), "trial": [{"name": "a"}], **fields})
    return [
        line.removeprefix("a: ") for line in note_lines(results_for(preset, *journals), preset) if line[:3] == "a: "
    ]


def test_where_nobody_did_anything_nothing_was_changed() -> None:
    assert read().changes == []
    assert not any("changed" in line for line in told(journal()))


@pytest.mark.parametrize(
    ("at_ms", "first"),
    [
        (FIRST_STEP_MS - 5, 0),
        (FIRST_STEP_MS, 0),
        (FIRST_STEP_MS + 1, 1),
        (STEP_2_MS, 2),
        (STEP_2_MS + 0.001, 3),
        (STEP_2_MS + 10.001, None),
    ],
)
def test_it_holds_from_the_first_step_that_began_after_it(at_ms: float, first: int | None) -> None:
    [change] = read(by_hand(at_ms, LATE)).changes
    assert change.step == first
    assert change.s == pytest.approx((at_ms - FIRST_STEP_MS) / 1000)


def test_the_step_is_the_first_that_any_rank_began() -> None:
    """Rank 0 had begun step 2 already; rank 1 had not."""
    messages = with_hand(journal(), by_hand(STEP_2_MS - 2, LATE))
    ahead = [
        msgspec.structs.replace(each, begin_ns=each.begin_ns - 5 * MS)
        if getattr(each, "rank", None) == 0 and getattr(each, "step", 0) == 2
        else each
        for each in messages
    ]
    found = outcome_of_messages(ahead)
    assert found is not None
    assert found.result is not None
    assert found.result.changes[0].step == 2


def test_all_changes_are_kept_in_order_with_what_is_delayed_from_then_on() -> None:
    changes = read(by_hand(STEP_2_MS, LATE), by_hand(STEP_2_MS + 1, LATE, MORE), by_hand(STEP_2_MS + 11)).changes
    assert [len(change.bottleneck) for change in changes] == [1, 2, 0]
    assert msgspec.convert(changes[1].bottleneck, tuple[Bottleneck, ...]) == (LATE, MORE)
    assert changes[0].bottleneck == [{"at": "forward", "ranks": (1,), "sleep_ms": 20}]


def test_results_json_has_them_and_reads_back() -> None:
    preset = two_trials(repeats=1)
    results = results_for(preset, with_hand(journal("a"), by_hand(STEP_2_MS, LATE, MORE)), journal("b"))
    again = msgspec.json.decode(table.as_json(results, preset), type=Results)
    [change] = again.trials[0].repeats[0].changes
    assert change == Change(
        s=pytest.approx(0.11),
        step=2,
        steps=2,
        bottleneck=[
            {"at": "forward", "ranks": [1], "sleep_ms": 20},
            {"at": "aggregate", "ranks": [0, 1], "sleep_ms": 2.5, "per": "call", "to_step": 9},
        ],
    )
    assert again.trials[1].repeats[0].changes == []
    assert again.trials[0].findings == results.trials[0].findings
    assert note_lines(again, preset) == note_lines(results, preset)


def test_the_foot_says_what_was_changed_and_from_which_step_on() -> None:
    put_in = with_hand(journal(), by_hand(STEP_2_MS, LATE))
    [line] = [line for line in told(put_in) if "changed" in line]
    assert line.startswith("changed by hand from step 2 on: forward 20 ms on 1 (not attributed: too few steps, or ")


def test_what_was_taken_out_again_is_no_delay() -> None:
    both = with_hand(journal(), by_hand(FIRST_STEP_MS + 1, LATE, MORE), by_hand(STEP_2_MS + 1))
    [line] = [line for line in told(both) if "changed" in line]
    assert line == (
        "changed by hand from step 1 on: forward 20 ms on 1, aggregate 2.5 ms/call on 0,1 "
        "(not attributed: too few steps, or too uncertain); from step 3 on: no delay; the figures include it"
    )


def test_what_came_after_the_last_step_was_too_late() -> None:
    late = with_hand(journal(), by_hand(STEP_2_MS + 100, LATE))
    assert "changed by hand too late for any step: forward 20 ms on 1" in told(late)


def test_each_repeat_that_was_changed_has_a_sentence() -> None:
    first = with_hand(journal("a", 1), by_hand(STEP_2_MS, LATE))
    second = with_hand(journal("a", 2), by_hand(FIRST_STEP_MS, MORE))
    lines = [line for line in told(first, second) if "changed" in line]
    assert [line[: len("repeat 1 of 2")] for line in lines] == ["repeat 1 of 2", "repeat 2 of 2"]
    assert [line.count("from step") for line in lines] == [1, 1]


def test_the_table_has_the_sentence_under_it() -> None:
    preset = preset_of({"trial": [{"name": "a"}]})
    results = results_for(preset, with_hand(journal(), by_hand(STEP_2_MS, LATE)))
    assert "a: changed by hand from step 2 on: forward 20 ms on 1" in table.text(results, preset, 120)


@pytest.mark.parametrize("status", ["failed", "skipped", "interrupted"])
def test_a_repeat_that_did_not_end_well_has_no_figures_to_change(status: str) -> None:
    messages = [*with_hand(journal(), by_hand(STEP_2_MS, LATE))[:-1], ended(status)]
    found = outcome_of_messages(messages)
    assert found is not None
    assert (found.status, found.result) == (status, None)


def test_without_instruments_only_the_moment_is_known() -> None:
    unseen = [message for message in with_hand(journal(), by_hand(STEP_2_MS, LATE)) if not isinstance(message, Step)]
    found = outcome_of_messages([*unseen[:-3], trained(0), trained(1), *unseen[-3:]])
    assert found is not None
    assert found.result is not None
    [change] = found.result.changes
    assert (change.step, change.steps, change.s) == (None, None, pytest.approx(0.11))
    assert "changed by hand after 110 ms: forward 20 ms on 1; the figures include it" in told(
        [*unseen[:-3], trained(0), trained(1), *unseen[-3:]]
    )
