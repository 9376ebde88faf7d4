"""Repeats that a hand changed or other programs disturbed: what is kept of them, and how it is told."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ddptui.analysis.results import Change, Results
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.report import table
from ddptui.report.notes import note_lines
from ddptui.report.table import markdown
from ddptui.wire.messages import Step
from ddptui.wire.records import Injection, Message
from tests.support.builders import (
    FIRST_STEP_MS,
    MS,
    NEIGHBOR,
    beside,
    journal,
    preset_of,
    result_of,
    results_for,
    trained,
    two_trials,
)
from tests.support.printed import cells_of

LATE = Bottleneck(at="forward", ranks=(1,), sleep_ms=20)
MORE = Bottleneck(at="aggregate", ranks=(0, 1), sleep_ms=2.5, per="call", to_step=9)
# Of the steps of a journal: 0 is a warm-up of 100 ms, then come 1, 2 and 3 of 10 ms each.
STEP_2_MS = FIRST_STEP_MS + 110


def by_hand(at_ms: float, *bottleneck: Bottleneck) -> Injection:
    return Injection(at_ns=round(at_ms * MS), bottleneck=bottleneck)


def with_hand(messages: list[Message], *injections: Injection) -> list[Message]:
    return [*messages[:-3], *injections, *messages[-3:]]


def told(*journals: list[Message], **fields: Any) -> list[str]:
    preset = preset_of({"repeats": len(journals), "trial": [{"name": "a"}], **fields})
    return [
        line.removeprefix("a: ") for line in note_lines(results_for(preset, *journals), preset) if line[:3] == "a: "
    ]


@pytest.mark.parametrize(("at_ms", "first"), [(FIRST_STEP_MS, 0), (STEP_2_MS, 2), (STEP_2_MS + 0.001, 3)])
def test_it_holds_from_the_first_step_that_began_after_it(at_ms: float, first: int | None) -> None:
    [change] = result_of(with_hand(journal(), by_hand(at_ms, LATE))).changes
    assert change.step == first
    assert change.s == pytest.approx((at_ms - FIRST_STEP_MS) / 1000)


def test_the_step_is_the_first_that_any_rank_began() -> None:
    """Rank 0 had begun step 2 already; rank 1 had not."""
    messages = with_hand(journal(), by_hand(STEP_2_MS - 2, LATE))
    ahead = [
        replace(each, begin_ns=each.begin_ns - 5 * MS)
        if getattr(each, "rank", None) == 0 and getattr(each, "step", 0) == 2
        else each
        for each in messages
    ]
    assert result_of(ahead).changes[0].step == 2


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


def test_what_was_taken_out_again_is_no_delay() -> None:
    both = with_hand(journal(), by_hand(FIRST_STEP_MS + 1, LATE, MORE), by_hand(STEP_2_MS + 1))
    [line] = [line for line in told(both) if "changed" in line]
    assert line == (
        "changed by hand from step 1 on: forward 20 ms on 1, aggregate 2.5 ms/call on 0,1 "
        "(not attributed: too few steps, or too uncertain); from step 3 on: no delay; the figures include it"
    )


def test_what_came_too_late_is_said_and_each_repeat_has_a_sentence() -> None:
    late = with_hand(journal(), by_hand(STEP_2_MS + 100, LATE))
    assert "changed by hand too late for any step: forward 20 ms on 1" in told(late)
    first = with_hand(journal("a", 1), by_hand(STEP_2_MS, LATE))
    second = with_hand(journal("a", 2), by_hand(FIRST_STEP_MS, MORE))
    lines = [line for line in told(first, second) if "changed" in line]
    assert [line[: len("repeat 1 of 2")] for line in lines] == ["repeat 1 of 2", "repeat 2 of 2"]
    assert [line.count("from step") for line in lines] == [1, 1]


def test_without_instruments_only_the_moment_is_known() -> None:
    unseen = [message for message in with_hand(journal(), by_hand(STEP_2_MS, LATE)) if not isinstance(message, Step)]
    messages = [*unseen[:-3], trained(0), trained(1), *unseen[-3:]]
    [change] = result_of(messages).changes
    assert (change.step, change.steps, change.s) == (None, None, pytest.approx(0.11))
    assert "changed by hand after 110 ms: forward 20 ms on 1; the figures include it" in told(messages)


def beside_others(*journals: list[Message], repeats: int = 2) -> tuple[Results, Preset]:
    preset = two_trials(repeats=repeats)
    return results_for(preset, *journals), preset


def test_a_disturbed_repeat_is_in_no_figure_where_another_is_quiet() -> None:
    results, preset = beside_others(journal("a"), journal("b"), beside(journal("a", 2, step_ms=40)), journal("b", 2))
    a = cells_of(markdown(results, preset), "a")
    assert (a["train s"], a["step ms"]) == ("0.03", "10.00")
    why = f"other programs kept 1.0 cores busy, most of all {NEIGHBOR}"
    lines = note_lines(results, preset)
    assert f"a: repeat 2 is left out of medians: {why}" in lines
    assert not any("caution" in line and "busy" in line for line in lines)


def test_a_trial_that_stayed_disturbed_is_marked_where_its_figures_stand() -> None:
    results, preset = beside_others(
        journal("a"), beside(journal("b")), journal("a", 2), beside(journal("b", 2, step_ms=20))
    )
    b = cells_of(markdown(results, preset), "b")
    marked = {name for name, cell in b.items() if cell.endswith(" ⚠")}
    assert marked >= {"train s", "ratio", "speed-up", "samples/s", "step ms"}
    assert b["train s"] == "0.04 ±0.01 ⚠"
    assert not any("⚠" in cell for cell in cells_of(markdown(results, preset), "a").values())
    caution = (
        f"caution, b: other programs kept 1.0 cores busy, most of all {NEIGHBOR}: close those programs and run again"
    )
    assert caution in note_lines(results, preset)


def test_against_a_baseline_that_stayed_disturbed_a_ratio_is_a_range_and_marked_as_the_difference_is() -> None:
    results, preset = beside_others(beside(journal("a")), journal("b"), repeats=1)
    b = cells_of(markdown(results, preset), "b")
    assert (b["ratio"], b["speed-up"], b["train s"]) == ("1.00 ⚠", "1.00 ⚠", "0.03")
    results, preset = beside_others(
        beside(journal("a")), journal("b"), beside(journal("a", 2)), journal("b", 2, step_ms=15), repeats=2
    )
    assert cells_of(markdown(results, preset), "b")["ratio"] == "1.00…1.50 ⚠"


def test_a_launch_that_loses_no_core_is_not_disturbed() -> None:
    results, preset = beside_others(beside(journal("a"), idle=1.0), journal("b"), repeats=1)
    assert cells_of(markdown(results, preset), "b")["ratio"] == "1.00"


def test_a_hypervisor_that_takes_cores_is_said() -> None:
    results, preset = beside_others(beside(journal("a"), stolen=0.9), journal("b"), repeats=1)
    assert any("other virtual machines of this host took 0.9 cores" in line for line in note_lines(results, preset))


@pytest.mark.parametrize(("queued_ms", "said"), [(5, True), (0.1, False)])
def test_ranks_that_had_no_core_are_said_to_have_had_none(queued_ms: float, said: bool) -> None:
    def queued(message: Message) -> Message:
        is_step = isinstance(message, Step) and message.rank == 1
        return replace(message, queued_ns=round(queued_ms * MS)) if is_step else message

    results, preset = beside_others(beside([*map(queued, journal("a"))]), journal("b"), repeats=1)
    waited = ", and a rank waited for a core for 0.01 of the 0.03 s it trained: close those"
    assert any(waited in line for line in note_lines(results, preset)) == said
