"""The CSV with a line for each step, rank and operation."""

import csv
import json
from collections.abc import Iterator

import msgspec
import pytest

from ddptui.page.formats import pieces
from ddptui.report.exports import BLOCK, STEP_CSV, steps_as_csv
from ddptui.store.overview import results_of
from ddptui.store.runs import Run, RunError
from ddptui.wire.records import Launched, Message, shift_times
from tests.recorded.net import RUNS
from tests.support.builders import hello, journal, launched, offset, step
from tests.support.traces import MS, Told, all_reduce, delayed, works_of
from tests.support.traces import trace as told_by


def lines_of(messages: list[Message]) -> list[dict[str, str]]:
    return [*csv.DictReader(steps_as_csv({("a", 1): lambda: messages}))]


def late(ranks: int = 2) -> Told:
    """Rank 1 is late by 25 ms in every step, since it enters the first operation so much later than it reaches it."""
    works, _ = delayed(works_of(1, ranks=ranks, steps=3), 1, "aggregate", lambda _: 25.0)
    return told_by(works, all_reduce)


def in_turn(told: Told) -> list[Message]:
    first = min(steps[0].begin_ns for steps in told.values())
    begin = [msgspec.structs.replace(launched(), at_ns=first - 7 * MS), *(hello(rank) for rank in told)]
    return [*begin, *(step for together in zip(*told.values(), strict=True) for step in together)]


def test_each_operation_of_each_rank_has_a_line() -> None:
    told = late()
    lines = lines_of(in_turn(told))
    assert [(line["step"], line["rank"], line["number"]) for line in lines] == [
        (str(number), str(rank), str(operation)) for number in range(3) for rank in range(2) for operation in (1, 2)
    ]
    zero_ns = min(steps[0].begin_ns for steps in told.values()) - 7 * MS
    for line in lines:
        made = told[int(line["rank"])][int(line["step"])]
        operation = made.collectives[int(line["number"]) - 1]
        for column, ns in {
            "begin_s": made.begin_ns, "before_s": operation.called_ns, "arrival_s": operation.enter_ns,
            "after_s": operation.exit_ns, "end_s": made.end_ns,
        }.items():  # fmt: skip
            assert float(line[column]) * 1000 == pytest.approx((ns - zero_ns) / MS, abs=1e-6), column
        assert float(line["forward_ms"]) == pytest.approx(made.phases_ns[1] / MS)
        assert (line["operation"], line["bytes"], line["loss"]) == (operation.kind, str(operation.bytes), "1.0")


def test_ranks_that_restart_within_a_repeat_have_waits_before_and_after() -> None:
    once = in_turn(late())
    again = [shift_times(message, 1_000 * MS) for message in once if not isinstance(message, Launched)]
    lines = lines_of([*once, *again])
    assert len(lines) == 2 * len(lines_of(once))
    assert all(line["wait_ms"] for line in lines)


def test_who_waited_and_who_came_last() -> None:
    first = [line for line in lines_of(in_turn(late(ranks=3))) if line["number"] == "1"]
    assert {(line["rank"], line["last"]) for line in first} == {("0", "False"), ("1", "True"), ("2", "False")}
    for line in first:
        assert float(line["transfer_ms"]) == pytest.approx(0.5, abs=1e-6)
        assert (float(line["wait_ms"]) > 20) == (line["rank"] != "1")


def test_waits_and_transfers_add_up_to_those_of_the_result() -> None:
    run = Run(RUNS / "who-waits")
    preset = run.preset()
    lines = [*csv.DictReader(pieces(run, preset, results_of(run, preset), "steps"))]
    for trial in json.loads((run.folder / "results.json").read_text())["trials"]:
        for number, repeat in enumerate(trial["repeats"], start=1):
            for rank in repeat["ranks"] if trial["config"].get("strategy") in ("all_reduce", "gather_scatter") else ():
                of_rank = [
                    line
                    for line in lines
                    if (line["trial"], line["repeat"], line["rank"], line["warmup"])
                    == (trial["name"], str(number), str(rank["rank"]), "False")
                ]
                for column in ("wait", "transfer"):
                    total_ms = sum(float(line[f"{column}_ms"]) for line in of_rank)
                    assert total_ms / 1000 == pytest.approx(rank[f"{column}_s"], rel=1e-6, abs=1e-9)
    assert len(lines) > 100


def test_a_step_without_an_operation_has_a_line_and_a_loss_that_is_no_number_is_told() -> None:
    lines = lines_of(journal(steps=2))
    assert len(lines) == 3 * 2
    empty = [*STEP_CSV][[*STEP_CSV].index("number") :]
    assert {line[column] for line in lines for column in empty} == {""}
    steps = [step(loss=None), msgspec.structs.replace(step(number=1, loss=None), has_loss=False)]
    assert [line["loss"] for line in lines_of([launched(), hello(), *steps])] == ["nan", ""]


def test_steps_that_one_rank_lacks_have_no_waits() -> None:
    told = late()
    messages = in_turn(told)[:-1]  # without the last step of rank 1
    waits = [line["wait_ms"] for line in lines_of(messages)]
    assert len(waits) == 10
    assert "" not in waits[:8]
    assert waits[8:] == ["", ""]


def test_times_of_a_host_whose_device_may_be_behind_give_no_waits() -> None:
    messages = [hello(1, device="mps:0") if message == hello(1) else message for message in in_turn(late())]
    assert {line["wait_ms"] for line in lines_of(messages)} == {""}


@pytest.mark.parametrize(("probes", "known"), [([], False), ([offset(1, at_ms=900, error_ms=0.2)], True)])
def test_the_error_between_two_clocks_stands_beside_the_waits(probes: list[Message], known: bool) -> None:
    begin, _, _, *steps = in_turn(late())
    hellos = [hello(0), hello(1, clock="far")]
    lines = lines_of([begin, *hellos, *probes, *steps])
    assert {line["wait_ms"] != "" for line in lines} == {known}
    errors = {float(line["clock_error_ms"]) for line in lines}
    assert all((error < 1) == known for error in errors)


def test_few_steps_are_kept_at_a_time() -> None:
    made = 0

    def messages() -> Iterator[Message]:
        nonlocal made
        made = 0
        yield from (launched(), hello(0), hello(1))
        for number in range(5 * BLOCK):
            made += 1
            yield from (step(rank, number, begin_ms=10 * number, end_ms=10 * number + 9) for rank in (0, 1))

    text = steps_as_csv({("a", 1): messages})
    assert next(text).startswith("trial,")
    for _ in range(2 * BLOCK):
        assert next(text)
        assert made <= BLOCK + 1
    assert len([*text]) == 8 * BLOCK


def test_ranks_of_primitives_make_no_steps() -> None:
    run = Run(RUNS / "primitives-see")
    with pytest.raises(RunError, match="make no steps; `--format csv` has their timings"):
        pieces(run, run.preset(), results_of(run, run.preset()), "steps")
