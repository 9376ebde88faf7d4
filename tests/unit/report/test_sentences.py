"""The table's foot: the verdict in words, with and without delays put in, at the start, everywhere, in one step."""

import csv
import io
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from ddptui.analysis.results import ConfidenceInterval, Injected, RepeatResult, Results, TrialResult
from ddptui.findings.repeat import outcome_of_messages
from ddptui.report import sentences
from ddptui.report.columns import COLUMNS
from ddptui.report.notes import cautions, note_lines
from ddptui.report.rows import rows_of
from ddptui.report.table import as_csv, markdown, text
from ddptui.text.units import seconds
from ddptui.wire.messages import Slept, Step
from ddptui.wire.records import Message
from tests.support.builders import beside, done, ended, hello, journal, launched, preset_of, ready, results_for, trained
from tests.support.traces import MS, Shape, Told, all_reduce, bucketed, delayed, trace, works_of


def run_of(told: Told, repeat: int = 1, start_ms: Mapping[int, float] | None = None) -> list[Message]:
    starts = start_ms or {}
    readies = [msgspec.structs.replace(ready(rank), start_ns=round(starts.get(rank, 1.0) * MS)) for rank in told]
    steps: list[Step] = [step for own in told.values() for step in own]
    return [
        launched("a", repeat, at_ms=0),
        *(hello(rank, world_size=len(told)) for rank in told),
        *readies,
        *steps,
        *(done(rank) for rank in told),
        ended(),
    ]


def slept(told: Told, rank: int, at: str, ms: Callable[[int], float]) -> Told:
    """As a rank tells of the delays that were put in."""
    own = [
        msgspec.structs.replace(
            step,
            slept=(Slept(at, step.begin_ns, step.begin_ns + round(ms(step.step) * MS)),) if ms(step.step) else (),  # type: ignore[arg-type]
        )
        for step in told[rank]
    ]
    return told | {rank: own}


def late_alike(ranks: int, of: int, ms: float) -> Told:
    """The first ranks of so many, each late by as much in every forward."""
    works = works_of(3, ranks=of)
    for rank in range(ranks):
        works, _ = delayed(works, rank, "forward", lambda _: ms)
    told = trace(works)
    for rank in range(ranks):
        told = slept(told, rank, "forward", lambda _: ms)
    return told


def late(
    seed: int, ms: Callable[[int], float], *, tell: bool = True, ranks: int = 2, shape: Shape = all_reduce
) -> Told:
    works, _ = delayed(works_of(seed, ranks=ranks), 1, "forward", ms)
    told = trace(works, shape)
    return slept(told, 1, "forward", ms) if tell else told


def foot(*runs: list[Message], **fields: Any) -> list[str]:
    results, preset = results_of(*runs, **fields)
    return [
        note.removeprefix("a: ")
        for note in note_lines(results, preset)
        if note.startswith("a: ")
    ]  # fmt: skip


def results_of(*runs: list[Message], **fields: Any) -> tuple[Results, Any]:
    preset = preset_of({"repeats": max(1, len(runs)), "trial": [{"name": "a"} | fields]})
    return results_for(preset, *runs), preset


def cell(results: Results, preset: Any, key: str) -> str:
    [column] = [column for column in COLUMNS if column.key == key]
    return column.cell(rows_of(results, preset)[0])


def test_where_nothing_stands_out_the_foot_says_only_where_the_time_went() -> None:
    [line] = foot(run_of(trace(works_of(1), transfer=MS // 20)))
    assert re.fullmatch(r"Nothing to worry about: \d% of the time in communication", line)


def test_who_is_waited_for_is_named_with_what_it_lost_and_what_would_have_been() -> None:
    results, preset = results_of(run_of(late(1, lambda _: 25.0, tell=False)))
    [line] = foot(run_of(late(1, lambda _: 25.0, tell=False)))
    assert re.match(
        r"Rank 1 holds everyone up: 2\.[45]\d s \(95%: 2\.4\d to 2\.5\d s\) in forward\. It caused (100|9\d)% of "
        r"the waiting: 2\.\d+ s, summed over ranks\. Without rank 1's delay: about 0\.\d\d s "
        r"instead of 3\.\d\d s\. "
        r"Mostly waiting: ranks stood idle \d\d% of the time for a late rank, \d+% for the network\. "
        r"Look at its device: is it slower, hotter or shared, and is its batch larger\?$",
        line,
    )
    assert "njected" not in line
    assert "no rank stands out" not in line
    assert cell(results, preset, "culprit") == "rank 1: forward"


def test_a_delay_that_was_put_in_stands_beside_what_was_attributed() -> None:
    [line] = foot(run_of(late(2, lambda _: 25.0)))
    assert re.match(
        r"We injected 2\.5 s on rank 1 at forward; ddptui measured 2\.\d+ s \(95%: .*\) on rank 1 in forward", line
    )
    assert "Look at" not in line  # what was injected needs no remedy


def test_ranks_that_are_late_alike_wait_for_nobody() -> None:
    [line] = foot(run_of(late_alike(2, of=2, ms=25)))
    injected = "We injected 2.5 s on rank 0 at forward, 2.5 s on rank 1 at forward; "
    assert line.startswith(f"{injected}all ranks slept as long, at once, so none waits for another")


def test_ranks_that_sleep_as_long_by_turns_wait_for_each_other() -> None:
    turns = [lambda step: 50.0 * (step % 2), lambda step: 50.0 * (1 - step % 2)]
    works = works_of(3)
    for rank, ms in enumerate(turns):
        works, _ = delayed(works, rank, "forward", ms)
    told = trace(works)
    for rank, ms in enumerate(turns):
        told = slept(told, rank, "forward", ms)
    [line] = [line for line in foot(run_of(told)) if "We injected" in line]
    assert "all ranks slept as long, by turns. Mostly waiting: " in line
    assert "To try" not in line  # what was injected needs no remedy


def test_what_is_attributed_to_no_rank_says_why() -> None:
    [line] = foot(run_of(late_alike(2, of=3, ms=0.3)))
    assert "not attributed to one rank: ranks 0 and 1 slept as long" in line
    few = {rank: own[:5] for rank, own in late_alike(1, of=3, ms=0.3).items()}
    assert "not attributed: 5 steps, too few" in foot(run_of(few))[0]


def test_of_two_late_ranks_of_three_the_others_delay_is_named_beside_what_was_measured() -> None:
    [line] = foot(run_of(late_alike(2, of=3, ms=25)))
    found = re.search(r"1\.[123]\d s .* on rank ([01]) in forward beyond the others, of which rank ([01]) slept", line)
    assert found
    assert found[1] != found[2]
    assert f"Without rank {found[1]}'s delay: about " in line
    [line] = foot(run_of(late(2, lambda _: 25.0, ranks=3)))
    assert "beyond the others" not in line


def test_of_few_steps_no_remedy_is_made() -> None:
    told = trace(works_of(1), transfer=20 * MS)
    assert "To try: " in foot(run_of(told))[0]
    assert "To try: " not in foot(run_of({rank: own[:19] for rank, own in told.items()}))[0]


def test_a_delay_that_does_not_stand_out_is_attributed_to_nobody() -> None:
    [line] = foot(run_of(late(3, lambda _: 0.05)))
    assert line.startswith("We injected 5 ms on rank 1 at forward; not attributed: too small or too uncertain")


def test_a_delay_in_one_step_is_told_with_it() -> None:
    first, second, *_ = foot(run_of(late(4, lambda step: 1500.0 if step == 33 else 0.0)))
    assert first.startswith("We injected 1.5 s on rank 1 at forward. ")
    assert "not attributed" not in first
    assert second.startswith("In step 33, rank 0 waited 1.5 s for rank 1 (in forward)")


def test_a_rank_that_is_slower_in_all_it_does_is_told_by_how_much() -> None:
    works = [{0: step[0], 1: [2 * part for part in step[1]]} for step in works_of(5, skew=0.0)]
    [line] = foot(run_of(trace(works)))
    assert "Rank 1 holds everyone up: " in line
    assert "in every phase (× 2.0" in line or "in every phase (× 1.9" in line
    assert "), most in backward. It caused" in line


def test_a_delay_at_the_start_is_in_no_train_time_and_seen_in_the_start() -> None:
    told = slept(trace(works_of(6)), 1, "start", lambda step: 500.0 if step == 0 else 0.0)
    [line] = foot(run_of(told, start_ms={0: 2.0, 1: 502.0}))
    assert line.startswith(
        "We injected 500 ms on rank 1 at start; "
        "ddptui measured 500 ms on rank 1 before the first step (in no train time)"
    )


def test_of_several_repeats_what_was_put_in_is_the_mean() -> None:
    runs = [run_of(late(seed, lambda _, ms=ms: ms), seed) for seed, ms in ((1, 20.0), (2, 30.0))]  # type: ignore[misc]
    [line] = foot(*runs)
    assert "We injected 2.5 s on rank 1 at forward; ddptui measured 2." in line


def test_waiting_without_a_culprit_is_told_so() -> None:
    works = works_of(7, ranks=4)
    for rank in range(4):
        works, _ = delayed(works, rank, "forward", lambda step, rank=rank: 40.0 if step % 4 == rank else 0.0)  # type: ignore[misc]
    line = foot(run_of(trace(works)))[0]
    assert line.startswith("Mostly waiting: ")


def test_a_rank_that_caused_most_of_the_waiting_is_named_with_the_doubt_where_it_is_not_sure() -> None:
    """It is late for a while, for reasons that are not known: whichever rank is, one of two is."""
    told = late(7, lambda step: 9.0 + step % 5 if step in range(40, 55) else 0.0, tell=False)
    line, *_ = foot(run_of(told), warmup_steps=0)
    assert re.match(r"Rank 1 caused 9\d% of the waiting; not certain, since [^.]+\.?", line), line
    assert "no rank stands out" not in line


@pytest.mark.parametrize("queued_ms", [60.0, 0.0])
def test_a_rank_is_late_whose_core_other_programs_have(queued_ms: float) -> None:
    told = late(2, lambda step: 0.0 if step % 3 else 60.0, tell=False)
    told[1] = [
        msgspec.structs.replace(step, queued_ns=0 if step.step % 3 else round(queued_ms * MS)) for step in told[1]
    ]
    verdict, *others = foot(beside(run_of(told)))
    if queued_ms:
        assert verdict.startswith(
            "Rank 1 holds everyone up, since other programs have its core. Mostly waiting: ranks "
        )
        assert verdict.endswith(". To try: end these programs, or give each rank cores of its own (taskset)")
        assert re.search(r"had: rank 0 0 ms, rank 1 2\.\d+ s, of", others[0])
    else:
        assert "other programs have its core" not in verdict


def test_a_question_has_no_full_stop_after_it() -> None:
    told = late(2, lambda step: 85.0 if step % 3 == 0 else 25.0, tell=False)
    told[1] = [msgspec.structs.replace(step, queued_ns=0 if step.step % 3 else 60 * MS) for step in told[1]]
    verdict, *_ = foot(beside(run_of(told)))
    assert verdict.endswith(
        "is its batch larger? To try: end these programs, or give each rank cores of its own (taskset)"
    )


def test_of_more_than_two_ranks_it_is_told_who_waited_for_whom() -> None:
    results, preset = results_of(run_of(late(8, lambda _: 25.0, ranks=3)))
    shown = text(results, preset, 100)
    assert "\n\nWho waited for whom\n\na\n" in shown
    assert re.search(r"rank 0 +· +– +█ 2\.\d\d\n|rank 0 +· +█ 2\.\d\d +", shown)
    assert "```text\nWho waited for whom\n" in markdown(results, preset)
    for told in (late(8, lambda _: 25.0), late(8, lambda _: 0.0, ranks=3)):  # two ranks; none that waited
        assert "Who waited for whom" not in text(*results_of(run_of(told)), 100)


def test_steps_that_were_left_out_are_told_with_the_first_reason() -> None:
    told = trace(works_of(9))
    for number in (40, 50):
        step = told[1][number]
        told[1][number] = msgspec.structs.replace(step, collectives=step.collectives[:1])
    lines = foot(run_of(told))
    assert lines[1] == (
        "2 steps left out, since the ranks' reports do not match: step 40: as operation 2, rank 0 made "
        "all_reduce (8 bytes), rank 1 none"
    )


def test_one_step_left_out_is_one_step() -> None:
    told = trace(works_of(9))
    told[1][40] = msgspec.structs.replace(told[1][40], collectives=told[1][40].collectives[:1])
    assert foot(run_of(told))[1].startswith("1 step left out")


def test_ranks_that_differ_in_every_step_are_told_so() -> None:
    told = late(3, lambda _: 0.0, tell=False)
    told[1] = [msgspec.structs.replace(step, collectives=step.collectives[:1]) for step in told[1]]
    [words] = foot(run_of(told))
    assert words == (
        "its waits are unknown, since the ranks' reports do not match: "
        "step 0: as operation 2, rank 0 made all_reduce (8 bytes), rank 1 none"
    )
    assert result_of(told).wait_ms is None
    assert len(result_of(told).mismatches) == 100


def test_a_loss_in_two_phases_is_told_of_both() -> None:
    works, _ = delayed(works_of(2), 1, "forward", lambda _: 12.0)
    works, _ = delayed(works, 1, "backward", lambda _: 15.0)
    works, _ = delayed(works, 1, "data", lambda _: 4.0)
    [words] = foot(run_of(trace(works)))
    assert re.search(r"holds everyone up: (3\.0|3\.1)\d s \(.*\) in backward and forward\.", words)


def test_a_loss_between_steps_is_not_in_them() -> None:
    works = [{0: step[0], 1: [*step[1][:5], step[1][5] + 25 * MS]} for step in works_of(2)]
    words, rest = foot(run_of(trace(works)))
    assert re.search(r"holds everyone up: 2\.\d+ s \(.*\) between steps\.", words)
    assert re.search(r"The rest, a mean over ranks: \d\.\d+ s between steps$", rest)


def test_without_instruments_that_is_all_there_is_to_say() -> None:
    told = trace(works_of(10))
    silent = {rank: [msgspec.structs.replace(step, collectives=()) for step in own] for rank, own in told.items()}
    assert foot(run_of(silent), instruments="off") == ["without instruments: only its times are known"]
    assert foot(run_of(silent)) == []


def test_a_loss_that_is_no_number_is_told_in_the_table_and_in_words() -> None:
    told = {
        rank: [msgspec.structs.replace(step, loss=None) for step in own] for rank, own in trace(works_of(1)).items()
    }
    assert foot(run_of(told))[1] == "the loss is not finite"
    assert cell(*results_of(run_of(told)), "loss") == "nan"
    assert "the loss is not finite" not in foot(run_of(trace(works_of(1))))


def test_a_loss_that_nobody_looked_at_is_not_called_no_number() -> None:
    silent = [message for message in journal() if not isinstance(message, Step)]
    last_words = [trained(rank, loss=None) for rank in (0, 1)]
    results, preset = results_of([*silent[:-3], *last_words, *silent[-3:]], instruments="off")
    assert results.trials[0].status == "ok"
    assert cell(results, preset, "loss") == "–"


def test_a_trial_without_results_has_no_story() -> None:
    failed = TrialResult(name="a", status="failed", error="?", config={}, command=[], repeats=[], summary=None)
    assert sentences.of_trial(failed, preset_of({"trial": [{"name": "a"}]}).trials[0]) == []
    assert cautions([failed]) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0 ms"),
        (0.0000123, "12.3 µs"),
        (0.0256, "25.6 ms"),
        (0.9994, "999 ms"),
        (1.0, "1 s"),
        (12.345, "12.3 s"),
    ],
)
def test_seconds_are_told_with_three_digits(value: float, words: str) -> None:
    assert seconds(value) == words


def test_an_interval_begins_at_nothing_at_the_least() -> None:
    assert (
        sentences.interval(ConfidenceInterval(estimate=0.01, low=-0.01, high=0.03)) == "10.0 ms (95%: 0.0 to 30.0 ms)"
    )


# What results.json has of it


def result_of(told: Told) -> RepeatResult:
    found = outcome_of_messages(run_of(told))
    assert found is not None
    assert found.result is not None
    return found.result


def test_the_figures_of_a_repeat_are_those_of_its_steps() -> None:
    works = [{0: [10 * MS, 0, 0, 0, 0, 0], 1: [30 * MS, 0, 0, 0, 0, 0]} for _ in range(30)]
    result = result_of(trace(works, transfer=2 * MS))
    assert result.wait_ms == pytest.approx((20 + 0) / 2)
    assert result.transfer_ms == pytest.approx(4)
    assert result.overlap == 0
    assert result.wait_share == pytest.approx(10 / 34)
    assert result.transfer_share == pytest.approx(4 / 34)
    assert result.verdict == "skew"
    one, other = result.ranks
    assert [one.wait_s, other.wait_s] == pytest.approx([0.6, 0])
    assert one.transfer_s == other.transfer_s == pytest.approx(0.12)
    assert [one.exposed_s, other.exposed_s] == pytest.approx([0.72, 0.12])
    assert [one.wait_caused_s, other.wait_caused_s] == pytest.approx([0, 0.6])
    assert one.waited_for_s == {1: pytest.approx(0.6)}
    assert (one.collectives, one.bytes) == (60, 480)
    assert other.last_arrivals is not None
    assert other.last_arrivals >= 30


def test_delays_after_the_warm_up_are_told_by_site_and_one_at_the_start_always() -> None:
    told = trace(works_of(11, steps=5))
    one, two, *rest = told[1]
    begin = one.begin_ns
    told[1] = [
        msgspec.structs.replace(one, warmup=True, slept=(Slept("start", 0, 7 * MS), Slept("data", begin, begin + MS))),
        msgspec.structs.replace(two, slept=(Slept("data", begin, begin + 2 * MS), Slept("forward", 0, 3 * MS))),
        *(msgspec.structs.replace(step, slept=(Slept("data", begin, begin + MS),)) for step in rest),
    ]
    told[0][0] = msgspec.structs.replace(told[0][0], warmup=True)
    assert result_of(told).injected == [
        Injected(rank=1, at="start", fired=1, s=0.007),
        Injected(rank=1, at="data", fired=4, s=0.005),
        Injected(rank=1, at="forward", fired=1, s=0.003),
    ]


# The table


def test_the_table_has_columns_of_waiting_where_there_was_any() -> None:
    results, preset = results_of(run_of(late(12, lambda _: 25.0, shape=bucketed)), strategy="bucketed")
    shown = text(results, preset, 400)
    assert all(header in shown for header in ("wait ms", "transfer ms", "overlap", "waits for"))
    assert float(cell(results, preset, "wait")) == pytest.approx(12.5, rel=0.1)  # the mean of 25 and nothing
    assert re.fullmatch(r"\d+%", cell(results, preset, "overlap"))
    results, preset = results_of(journal())
    shown = text(results, preset, 400)
    assert not any(header in shown for header in ("wait ms", "transfer ms", "overlap", "waits for"))


def test_strategies_that_do_not_go_on_computing_have_no_overlap() -> None:
    results, preset = results_of(run_of(late(12, lambda _: 25.0)))
    assert cell(results, preset, "overlap") == "–"


def test_csv_has_the_verdict_in_figures() -> None:
    [row] = csv.DictReader(io.StringIO(as_csv(*results_of(run_of(late(13, lambda _: 25.0))))))
    assert (row["verdict"], row["culprit"], row["culprit_phase"]) == ("skew", "1", "forward")
    assert float(row["excess_low_s"]) < 2.5 < float(row["excess_high_s"])
    assert float(row["without_skew_s"]) <= float(row["without_culprit_s"]) < float(row["train_time_s"])
    [row] = csv.DictReader(io.StringIO(as_csv(*results_of(journal()))))
    assert row["culprit"] == row["excess_s"] == row["without_culprit_s"] == row["wait_ms"] == ""


def test_results_without_a_culprit_have_null_in_its_place() -> None:
    results, _ = results_of(run_of(trace(works_of(1))))
    [trial] = msgspec.to_builtins(results)["trials"]
    assert trial["summary"]["culprit"] is None
    assert trial["summary"]["what_if_s"]["without_culprit"] is None
    assert trial["summary"]["what_if_s"]["without_skew"] > 0
