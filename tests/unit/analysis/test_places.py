"""On which lines the ranks' own work was spent: times add up, and waits are no work."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from ddptui.analysis.places import PlaceTime, lines_of_excess, place_times, spots_of
from ddptui.analysis.waits import AlignedSteps, align_steps
from ddptui.findings.verdict import analyze_aligned
from ddptui.findings.words import short
from ddptui.text.words import MS
from ddptui.wire.messages import Collective, Line, Place, Sampled, Step
from ddptui.wire.phases import PARTS, PHASES
from tests.support.builders import step
from tests.support.printed import long

STEPS, STEP_MS = 40, 40.0
STACKS = {
    1: (Place("train.py", 28, "augment", True), Place("train.py", 37, "collate", True)),
    2: (Place("train.py", 57, "main", True), Place("train.py", 90, "<module>", True)),
    3: (Place("train.py", 29, "augment", True), Place("train.py", 37, "collate", True)),
    4: (Place("train.py", 80, "garbage collection", True), Place("train.py", 80, "main", True)),
    5: (Place("train.py", 12, "garbage collection", True), Place("train.py", 12, "load", True)),
    6: (Place("train.py", 60, "main.<locals>.log", True),),
}
LINES = {number: Line(rank=0, number=number, stack=stack) for number, stack in STACKS.items()}
DATA, BACKWARD = PHASES.index("data"), PHASES.index("backward")


@dataclass(frozen=True)
class At:
    """A sample: so long after the step's begin, on this line. held_ms: how long it waited for Python's lock."""

    ms: float
    line: int
    held_ms: float = 0


def own_step(rank: int, number: int, data_ms: float, waits_ms: float, samples: Sequence[At]) -> Step:
    """A step: data, 5 ms of forward, backward with a wait at its end."""
    begin = 1_000 + number * STEP_MS
    phases = (data_ms, 5.0, STEP_MS - data_ms - 5.0, 0.0, 0.0)
    made = step(rank, number, begin_ms=begin, end_ms=begin + STEP_MS, phases_ms=phases)
    entered, ended = (round((begin + STEP_MS - left) * MS) for left in (waits_ms, 0.0))
    call = Collective("all_reduce", 0, 4_000_000, entered, entered, entered, ended)
    lines = tuple(Sampled(round((begin + at.ms) * MS), 20 * MS, at.line, round(at.held_ms * MS)) for at in samples)
    return replace(made, collectives=(call,), lines=lines)


def two_ranks(of_0: Sequence[At], of_1: Sequence[At], *, data_ms: float = 22.0) -> AlignedSteps:
    """Rank 1 works for data_ms in data, rank 0 for 2 ms, and waits for it in backward."""
    steps = {
        0: [own_step(0, number, 2.0, 25.0, of_0) for number in range(STEPS)],
        1: [own_step(1, number, data_ms, 5.0, of_1) for number in range(STEPS)],
    }
    return align_steps(steps)._replace(lines=LINES)


def test_the_times_of_a_part_add_up_to_the_ranks_own_work() -> None:
    aligned = two_ranks([At(1, 2), At(1.5, 1)], [At(1, 1), At(8, 1), At(15, 1), At(21, 2)])
    spots = spots_of(aligned.steps, aligned.lines)
    data = {spot.place: spot.ns for spot in spots if spot.part == DATA}
    assert data["augment, train.py:28"] == {0: STEPS * 1 * MS, 1: STEPS * 16.5 * MS}
    assert data["main, train.py:57"] == {0: STEPS * 1 * MS, 1: STEPS * 5.5 * MS}
    for rank in (0, 1):
        work = sum(each.ranks[rank].work_ns[DATA] for each in aligned.steps)
        assert sum(ns[rank] for ns in data.values()) == pytest.approx(work)


def test_a_sample_taken_while_the_rank_waits_is_no_work() -> None:
    aligned = two_ranks([At(1, 1), At(30, 2)], [At(1, 1), At(30, 2)])  # rank 0 waits from 15 ms on, rank 1 from 35 ms
    backward = [spot for spot in spots_of(aligned.steps, aligned.lines) if spot.part == BACKWARD]
    assert [spot.samples for spot in backward] == [{0: 0, 1: STEPS}]
    assert backward[0].ns[0] == 0


def test_a_sample_between_two_steps_or_before_an_unseen_one_is_not_of_a_phase() -> None:
    aligned = two_ranks([At(-3, 1)], [At(-3, 1)])
    spots = spots_of(aligned.steps, aligned.lines)
    assert not spots  # it was due before the step, and the step before has ended by then


AUGMENT, MAIN = "augment, train.py:28", "main, train.py:57"


@pytest.mark.parametrize(
    ("samples", "data_ms"),
    [
        # due while augment ran, and taken at the next line
        ([At(2, 1, 6), At(8, 1, 6), At(14, 1, 6), At(20, 2, 1)], {AUGMENT: 22.0, MAIN: 0.0}),
        ([At(2, 1), At(20, 2, 1)], {AUGMENT: 11.0, MAIN: 11.0}),  # no line kept the lock
        ([At(2, 1), At(21, 6, 3)], {AUGMENT: 22.0, "log, train.py:60": 0.0}),  # read in forward, after the end of data
    ],
)
def test_late_samples_belong_to_the_line_that_kept_the_lock(samples: list[At], data_ms: dict[str, float]) -> None:
    aligned = two_ranks([At(1, 2)], samples)
    data = [spot for spot in spots_of(aligned.steps, aligned.lines) if spot.part == DATA]
    found = {spot.place: spot.ns.get(1, 0) / STEPS / MS for spot in data}
    assert {place: found.get(place, 0.0) for place in data_ms} == pytest.approx(data_ms)


@pytest.mark.parametrize(
    ("samples", "places"),
    [
        ([At(2, 1), At(8, 3), At(20, 6)], ["augment, train.py:28 to 29", "log, train.py:60"]),  # neighbors
        ([At(2, 1), At(8, 1), At(12, 1), At(20, 3)], [AUGMENT]),  # most of its time is on one line
        ([At(2, 4), At(8, 4), At(20, 5)], ["garbage collection, train.py:80"]),  # wherever they begin
    ],
)
def test_neighboring_lines_and_garbage_collections_are_one_place(samples: list[At], places: list[str]) -> None:
    aligned = two_ranks([], samples)
    spots = sorted(spots_of(aligned.steps, aligned.lines), key=lambda spot: spot.place)
    assert [spot.place for spot in spots] == places
    if "augment" in places[0]:
        assert spots[0].where(STEPS * 20 * MS, STEPS).by == "collate, train.py:37"


def excess(aligned: AlignedSteps) -> list[tuple[str, float]]:
    spots = spots_of(aligned.steps, aligned.lines)
    return [(line.place, line.ms) for line in lines_of_excess(spots, 1, {DATA: STEPS * 20.0 * MS}, STEPS)]


def test_the_lines_of_an_excess_are_those_on_which_only_the_late_rank_spends_time() -> None:
    aligned = two_ranks([At(0.5, 2)], [At(1, 1), At(8, 1), At(15, 1), At(21, 2)])
    assert excess(aligned) == [("augment, train.py:28", 16.5), ("main, train.py:57", pytest.approx(3.5))]


def test_the_lines_take_at_most_the_excess() -> None:
    """Rank 0 spends its 2 ms elsewhere, so that rank 1 is 22 ms longer on its line, and works 20 ms longer."""
    assert excess(two_ranks([At(0.5, 2)], [At(1, 1), At(8, 1)])) == [("augment, train.py:28", pytest.approx(20.0))]


def test_a_line_is_not_named_for_few_samples() -> None:
    """One sample in one step of forty: chance."""
    aligned = two_ranks([At(0.5, 2)], [At(8, 2)])
    first = aligned.steps[0].ranks[1]
    once = (*first.step.lines, Sampled(first.step.begin_ns + MS, 20 * MS, 1))
    aligned.steps[0].ranks[1] = first._replace(step=replace(first.step, lines=once))
    assert [place for place, _ in excess(aligned)] == ["main, train.py:57"]


def test_the_late_rank_is_told_with_its_line() -> None:
    aligned = two_ranks([At(0.5, 2)], [At(1, 1), At(8, 1), At(15, 1), At(20.9, 2)])
    late = analyze_aligned(aligned).findings[0]
    assert (late.rank, late.phase, late.place) == (1, "data", AUGMENT)
    told_ms = sum(line.ms for line in late.lines) + late.numbers["unexplained_ms"]
    assert told_ms == pytest.approx(late.numbers["late_ms"])
    assert short(late) == "Rank 1 holds everyone up: 20 ms a step, in data (augment, train.py:28)"
    assert "16.5 ms of it in augment, train.py:28, called by collate, train.py:37; 3.5 ms in main, " in long(late)


def test_what_no_line_explains_is_said() -> None:
    scattered = [At(1, 1), At(8, 1), *(At(10 + at, 100 + at) for at in range(8))]
    aligned = two_ranks([At(0.5, 2)], scattered)
    places = {100 + at: (Place("train.py", 200 + 10 * at, f"f{at}", True),) for at in range(8)}
    lines = LINES | {number: Line(rank=0, number=number, stack=stack) for number, stack in places.items()}
    analysis = analyze_aligned(aligned._replace(lines=lines))
    assert "; no line explains the other " in long(analysis.findings[0])


def test_without_samples_no_line_is_named_nor_is_one_on_which_ranks_spend_as_much() -> None:
    [late, *_] = analyze_aligned(two_ranks([], [])).findings
    assert (late.place, late.lines) == (None, ())
    assert "unexplained_ms" not in late.numbers
    steps = {rank: [own_step(rank, number, 22.0, 5.0, [At(8, 1)]) for number in range(STEPS)] for rank in (0, 1)}
    analysis = analyze_aligned(align_steps(steps)._replace(lines=LINES))
    assert not [finding for finding in analysis.findings if finding.lines and finding.rank is not None]


def test_the_table_of_places_has_each_ranks_time_a_step() -> None:
    aligned = two_ranks([At(0.5, 2)], [At(1, 1), At(8, 1), At(24, 2)])
    table = place_times(spots_of(aligned.steps, aligned.lines), STEPS)
    of_line = {"by": "collate, train.py:37", "file": "train.py", "line": 28, "last": 28}
    assert table[0] == PlaceTime(phase="data", place=AUGMENT, ms={0: 0.0, 1: 22.0}, **of_line)
    assert {row.phase for row in table} <= {*PARTS}


def test_between_steps_the_line_that_calls_a_model_is_named() -> None:
    block, validate, main = (
        Place("train.py", at, name, True) for at, name in ((9, "Block.forward"), (61, "validate"), (90, "main"))
    )
    line = Line(rank=0, number=1, stack=(block, block, validate, main), outside=2)
    assert line.within("between steps") == (validate, main)
    assert line.within("forward") == (block, block)
    assert replace(line, outside=0, stack=(validate, main)).within("between steps") == (validate, main)


def test_whatever_a_rank_sends_has_places() -> None:
    """A broken rank must not end the console."""
    odd = {1: Line(rank=0, number=1, stack=STACKS[1], outside=40), 2: LINES[2]}
    for ms in (1.0, 8.0):
        aligned = two_ranks([At(ms, 1), At(ms, 2), At(ms, 77)], [At(ms, 2, 6), At(ms, 2, 1)])._replace(lines=odd)
        for step_of_all in aligned.steps:
            own = step_of_all.ranks[0]
            none = tuple(replace(sample, ns=0) for sample in own.step.lines)
            step_of_all.ranks[0] = own._replace(step=replace(own.step, lines=none))
        assert place_times(spots_of(aligned.steps, aligned.lines), STEPS)
        assert odd[1].within("between steps")


def test_braces_in_the_name_of_a_file_are_shown_as_they_are() -> None:
    stack = (Place("{x}.py", 28, "augment", True),)
    odd = {number: Line(rank=0, number=number, stack=stack) for number in (1, 2)}
    [late, *_] = analyze_aligned(two_ranks([], [At(1, 1), At(8, 1), At(15, 1)])._replace(lines=odd)).findings
    assert short(late).endswith("in data (augment, {x}.py:28)")
    assert "of it in augment, {x}.py:28." in long(late)
