"""What is found of a trial over its repeats: with and without delays put in, at the start, everywhere, in one step."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.results import Results
from ddptui.report.columns import COLUMNS
from ddptui.report.notes import note_lines
from ddptui.report.rows import rows_of
from ddptui.report.table import text
from ddptui.wire.messages import Slept, Step
from ddptui.wire.records import Message
from tests.support.builders import beside, journal, preset_of, result_of, results_for, trained
from tests.support.launches import launch_of
from tests.support.traces import MS, Shape, Told, all_reduce, bucketed, delayed, trace, works_of


def slept(told: Told, rank: int, at: str, ms: Callable[[int], float]) -> Told:
    """As a rank tells of the delays that were put in."""

    def of_step(step: Step) -> tuple[Slept, ...]:
        delay_ns = round(ms(step.step) * MS)
        return (Slept(at, step.begin_ns, step.begin_ns + delay_ns),) if delay_ns else ()

    return told | {rank: [msgspec.structs.replace(step, slept=of_step(step)) for step in told[rank]]}


def late_alike(ranks: int, of: int, ms: Callable[[int, int], float]) -> Told:
    """The first ranks of so many, each late in forward by as much; ms: by rank and step."""
    works = works_of(3, ranks=of)
    own = {rank: partial(ms, rank) for rank in range(ranks)}
    for rank, delay in own.items():
        works, _ = delayed(works, rank, "forward", delay)
    told = trace(works)
    for rank, delay in own.items():
        told = slept(told, rank, "forward", delay)
    return told


def late(
    seed: int, ms: Callable[[int], float], *, tell: bool = True, ranks: int = 2, shape: Shape = all_reduce
) -> Told:
    works, _ = delayed(works_of(seed, ranks=ranks), 1, "forward", ms)
    told = trace(works, shape)
    return slept(told, 1, "forward", ms) if tell else told


def foot(*runs: list[Message], **fields: Any) -> list[str]:
    return [note.removeprefix("a: ") for note in note_lines(*results_of(*runs, **fields)) if note.startswith("a: ")]


def results_of(*runs: list[Message], **fields: Any) -> tuple[Results, Any]:
    preset = preset_of({"repeats": max(1, len(runs)), "trial": [{"name": "a"} | fields]})
    return results_for(preset, *runs), preset


def cell(results: Results, preset: Any, key: str) -> str:
    [column] = [column for column in COLUMNS if column.key == key]
    return column.cell(rows_of(results, preset)[0])


def found(*runs: list[Message], **fields: Any) -> list[Finding]:
    """The findings of the trial over its repeats."""
    return results_of(*runs, **fields)[0].trials[0].findings


def kinds(findings: Sequence[Finding]) -> list[Kind]:
    return [finding.kind for finding in findings]


def test_who_is_waited_for_is_found_with_what_it_lost_and_what_would_have_been() -> None:
    results, preset = results_of(launch_of(late(1, lambda _: 25.0, tell=False)))
    first, second = results.trials[0].findings
    assert (first.kind, first.rank, first.phase) == (Kind.LATE_RANK, 1, "forward")
    numbers = first.numbers
    assert numbers["late_ms"] == pytest.approx(25, rel=0.05)
    assert abs(numbers["late_ms"] - 25) < numbers["off_by_ms"] < 2
    assert numbers["of_waiting_share"] > 0.9
    assert numbers["without_s"] < 1 < 3 < numbers["train_s"]
    assert first.action
    assert second.kind is Kind.WAITING
    assert cell(results, preset, "culprit") == "rank 1: forward"


def test_a_delay_that_was_put_in_stands_beside_what_was_measured() -> None:
    injected, waiting = found(launch_of(late(2, lambda _: 25.0)))
    assert (injected.kind, injected.rank, injected.phase) == (Kind.INJECTED, 1, "forward")
    assert injected.numbers["injected_s"] == pytest.approx(2.5)
    assert injected.numbers["measured_s"] == pytest.approx(2.5, rel=0.05)
    assert injected.numbers["low_s"] < injected.numbers["measured_s"] < injected.numbers["high_s"]
    assert waiting.action is None  # what was injected needs no remedy


@pytest.mark.parametrize(
    ("ms", "ranks", "doubt"),
    [
        (lambda *_: 25.0, 2, "all ranks slept as long, at once, so none waits for another"),
        (lambda *_: 0.3, 3, "ranks 0 and 1 slept as long"),
        (lambda rank, step: 50.0 * ((step + rank) % 2), 2, "all ranks slept as long, by turns"),
    ],
)
def test_ranks_that_are_late_alike_are_not_told_apart(ms: Callable[[int, int], float], ranks: int, doubt: str) -> None:
    first, second, *others = found(launch_of(late_alike(2, of=ranks, ms=ms)))
    assert kinds([first, second]) == [Kind.INJECTED, Kind.INJECTED]
    assert second.doubt == doubt
    assert not any(finding.action for finding in others)


def test_a_delay_in_few_steps_or_one_that_does_not_stand_out_is_not_attributed() -> None:
    few = {rank: own[:5] for rank, own in late_alike(1, of=3, ms=lambda *_: 0.3).items()}
    assert found(launch_of(few))[0].doubt == "5 steps are too few"
    assert found(launch_of(late(3, lambda _: 0.05)))[0].doubt == "too small or too uncertain"


def test_of_two_late_ranks_of_three_the_others_delay_stands_beside_what_was_measured() -> None:
    findings = found(launch_of(late_alike(2, of=3, ms=lambda *_: 25)))
    [measured, other] = sorted(
        (each for each in findings if each.kind is Kind.INJECTED), key=lambda each: "measured_s" not in each.numbers
    )
    assert measured.numbers["measured_s"] == pytest.approx(1.25, abs=0.15)
    assert "measured_s" not in other.numbers
    assert measured.doubt == f"more than the others, although rank {other.rank} slept, too"
    assert found(launch_of(late(2, lambda _: 25.0, ranks=3)))[0].doubt is None


def test_of_few_steps_no_remedy_is_made() -> None:
    told = trace(works_of(1), transfer=20 * MS)
    assert found(launch_of(told))[0].action
    assert not any(each.action for each in found(launch_of({rank: own[:19] for rank, own in told.items()})))


def test_a_delay_in_one_step_is_found_there() -> None:
    injected, rare, *_ = found(launch_of(late(4, lambda step: 1500.0 if step == 33 else 0.0)))
    assert (injected.kind, injected.doubt) == (Kind.INJECTED, None)
    assert (rare.kind, rare.steps, rare.rank) == (Kind.RARE_WAITS, (33,), 1)


def test_a_rank_that_is_slower_in_all_it_does_is_found_with_its_factor_and_one_between_steps_there() -> None:
    works = [{0: step[0], 1: [2 * part for part in step[1]]} for step in works_of(5, skew=0.0)]
    first = found(launch_of(trace(works)))[0]
    assert first.kind is Kind.LATE_RANK
    assert first.numbers["slower"] == pytest.approx(2, abs=0.1)
    works = [{0: step[0], 1: [*step[1][:5], step[1][5] + 25 * MS]} for step in works_of(2)]
    assert found(launch_of(trace(works)))[0].phase == "between steps"


def test_of_several_repeats_what_was_put_in_is_the_mean() -> None:
    runs = [launch_of(late(seed, lambda _, ms=ms: ms), repeat=seed) for seed, ms in ((1, 20.0), (2, 30.0))]
    first = found(*runs)[0]
    assert first.numbers["injected_s"] == pytest.approx(2.5)
    assert first.numbers["measured_s"] == pytest.approx(2.5, rel=0.1)


@pytest.mark.parametrize("queued_ms", [60.0, 0.0])
def test_a_rank_is_late_whose_core_other_programs_have(queued_ms: float) -> None:
    told = late(2, lambda step: 0.0 if step % 3 else 60.0, tell=False)
    told[1] = [
        msgspec.structs.replace(step, queued_ns=0 if step.step % 3 else round(queued_ms * MS)) for step in told[1]
    ]
    results, preset = results_of(beside(launch_of(told)))
    assert (Kind.NO_CORE in kinds(results.trials[0].findings)) == bool(queued_ms)
    busy = [line for line in note_lines(results, preset) if line.startswith("caution, a: other programs")]
    assert bool(re.search(r"a rank waited for a core for 2\.\d\d of", busy[0])) == bool(queued_ms)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((40, 50), "2 steps left out, since the ranks' reports do not match: step 40: as operation 2, rank 0 made "),
        ((40,), "1 step left out, since "),
        (range(100), "waits are unknown, since the ranks' reports do not match: step 0: as operation 2, rank 0 made "),
    ],
)
def test_steps_that_were_left_out_are_told_with_the_first_reason(steps: Sequence[int], words: str) -> None:
    told = late(3, lambda _: 0.0, tell=False)
    for number in steps:
        told[1][number] = msgspec.structs.replace(told[1][number], collectives=told[1][number].collectives[:1])
    line, *_ = foot(launch_of(told))
    assert line.startswith(words)
    assert line.endswith("all_reduce (8 bytes), rank 1 none")
    result = result_of(launch_of(told))
    assert (result.wait_ms is None) == (len(steps) == 100)
    assert len(result.mismatches) == len(steps)


def test_without_instruments_that_is_all_there_is_to_say() -> None:
    told = trace(works_of(10))
    silent = {rank: [msgspec.structs.replace(step, collectives=()) for step in own] for rank, own in told.items()}
    assert foot(launch_of(silent), instruments="off") == ["without instruments: only the trial's times are known"]
    assert foot(launch_of(silent)) == []
    unseen = [message for message in journal() if not isinstance(message, Step)]
    last_words = [trained(rank, loss=None) for rank in (0, 1)]
    results, preset = results_of([*unseen[:-3], *last_words, *unseen[-3:]], instruments="off")
    assert (results.trials[0].status, cell(results, preset, "loss")) == ("ok", "–")  # nobody looked: not called nan


def test_a_loss_that_is_no_number_is_told_in_the_table_and_in_words() -> None:
    sound = trace(works_of(1))
    told = {rank: [msgspec.structs.replace(step, loss=None) for step in own] for rank, own in sound.items()}
    results, preset = results_of(launch_of(told))
    assert results.findings[0].kind is Kind.DIVERGED
    assert cell(results, preset, "loss") == "nan"
    assert Kind.DIVERGED not in kinds(results_of(launch_of(sound))[0].findings)


def test_the_figures_of_a_repeat_are_those_of_its_steps() -> None:
    works = [{0: [10 * MS, 0, 0, 0, 0, 0], 1: [30 * MS, 0, 0, 0, 0, 0]} for _ in range(30)]
    result = result_of(launch_of(trace(works, transfer=2 * MS)))
    assert (result.wait_ms, result.transfer_ms, result.overlap) == pytest.approx(((20 + 0) / 2, 4, 0))
    assert (result.wait_share, result.transfer_share) == pytest.approx((10 / 34, 4 / 34))
    assert result.verdict == "skew"
    one, other = result.ranks
    assert (one.wait_s, one.transfer_s, one.exposed_s, one.wait_caused_s) == pytest.approx((0.6, 0.12, 0.72, 0))
    assert (other.wait_s, other.transfer_s, other.exposed_s) == pytest.approx((0, 0.12, 0.12))
    assert other.wait_caused_s == pytest.approx(0.6)
    assert one.waited_for_s == {1: pytest.approx(0.6)}
    assert (one.collectives, one.bytes) == (60, 480)
    assert other.last_arrivals >= 30


def test_the_table_has_columns_of_waiting_where_there_was_any() -> None:
    headers = ("wait ms", "transfer ms", "overlap", "waits for")
    results, preset = results_of(launch_of(late(12, lambda _: 25.0, shape=bucketed)), strategy="bucketed")
    assert all(header in text(results, preset, 400) for header in headers)
    assert float(cell(results, preset, "wait")) == pytest.approx(12.5, rel=0.1)  # the mean of 25 and nothing
    assert re.fullmatch(r"\d+%", cell(results, preset, "overlap"))
    assert not any(header in text(*results_of(journal()), 400) for header in headers)
    # strategies that do not go on computing have no overlap
    assert cell(*results_of(launch_of(late(12, lambda _: 25.0))), "overlap") == "–"
