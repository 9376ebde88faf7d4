"""Several launches as one, medians that mean something, and which way to average is fastest."""

import msgspec
import pytest

from ddptui.analysis.primitive_results import (
    Cell,
    PrimitiveKey,
    combined,
    fastest_spans,
    has_a_median,
    is_uneven,
    key_of,
    rivals,
    times_of,
)
from tests.support.measured_cells import KB, MB, cell, result

A, B, C = (PrimitiveKey(name, composite=True) for name in ("ring", "gather_scatter", "all_gather"))

# Several launches as one


def test_launches_are_combined_by_their_medians_and_what_was_wrong_adds_up() -> None:
    launches = [
        result([cell("all_reduce", KB, median, wrong=wrong, slowest=rank, slowest_us=slowest)])
        for median, wrong, rank, slowest in ((100, 0, 0, 110), (900, 3, 1, 990), (120, 1, 0, 130))
    ]
    [one] = combined(launches).cells
    assert one.time_us.median == 120
    assert one.time_us.p90 == pytest.approx(126)
    assert one.busbw_gb_s == pytest.approx(KB / one.time_us.mean / 1000)
    assert (one.wrong, one.calls, one.slowest, one.slowest_us) == (4, 300, 1, 990)


def test_other_sizes_and_operators_are_kept_apart() -> None:
    several = [cell("all_reduce", KB, 1), cell("all_reduce", MB, 2), cell("all_reduce", KB, 3, reduce_op="max")]
    several.append(cell("all_reduce", KB, 4, composite=True))
    assert [found.time_us and found.time_us.median for found in combined([result(several)]).cells] == [1, 2, 3, 4]
    assert len({key_of(each) for each in several}) == 3


def with_time(one: Cell, **changes: float) -> Cell:
    return msgspec.structs.replace(one, time_us=msgspec.structs.replace(one.time_us, **changes))


@pytest.mark.parametrize(
    ("changes", "cv", "median", "uneven"),
    [
        ({"p90": 201.0}, 0.05, False, True),
        ({"p90": 199.0}, 0.05, True, False),
        ({"min": 33.0}, 0.05, False, True),
        ({"min": 34.0}, 0.05, True, False),
        ({"p99": 4000.0}, 1.2, True, True),
    ],
)
def test_a_median_means_something_if_most_calls_were_alike(
    changes: dict[str, float], cv: float, median: bool, uneven: bool
) -> None:
    found = with_time(cell("all_reduce", KB, 100, cv=cv), **changes)
    assert (has_a_median(found), is_uneven(found)) == (median, uneven)


def test_a_way_is_fastest_where_it_is_clearly_ahead_and_else_the_ways_are_too_close() -> None:
    times = {
        A: {1: [1.0], 4: [1.0], 16: [3.0], 64: [4.0], 256: [9.0]},
        B: {1: [2.0], 4: [1.09], 16: [1.9], 64: [2.0], 256: [4.0]},
        C: {1: [3.0], 4: [3.0], 16: [2.0], 64: [5.0], 256: [5.0]},
    }
    assert fastest_spans(times) == [((A,), 1, 1), ((A, B), 4, 4), ((B, C), 16, 16), ((B,), 64, 256)]
    by_turns = {A: {1: [1.0], 4: [2.0], 16: [1.0]}, B: {1: [2.0], 4: [1.0], 16: [2.0]}}
    assert fastest_spans(by_turns) == [((A,), 1, 1), ((B,), 4, 4), ((A,), 16, 16)]


@pytest.mark.parametrize(("other", "ways"), [([1.09], (A, B)), ([1.11], (A,)), ([0.9], (B,)), ([0.92], (A, B))])
def test_ten_percent_are_noise(other: list[float], ways: tuple[PrimitiveKey, ...]) -> None:
    assert fastest_spans({A: {KB: [1.0]}, B: {KB: other}}) == [(ways, KB, KB)]


def test_launches_that_overlap_tell_no_fastest_way() -> None:
    """By their medians, A takes half as long."""
    assert fastest_spans({A: {1: [1.0, 1.0, 3.0]}, B: {1: [2.0, 2.0, 2.0]}}) == [((A, B), 1, 1)]
    assert fastest_spans({A: {1: [1.0, 1.0, 1.5]}, B: {1: [2.0, 2.0, 2.0]}}) == [((A,), 1, 1)]


def test_only_sizes_that_all_have_are_compared() -> None:
    assert fastest_spans({A: {1: [1.0], 4: [1.0]}, B: {4: [2.0], 16: [1.0]}}) == [((A,), 4, 4)]
    assert fastest_spans({A: {1: [1.0]}, B: {4: [2.0]}}) == fastest_spans({}) == []


def test_a_median_that_means_nothing_leaves_all_that_its_calls_took() -> None:
    ticking = with_time(cell("ring", MB, 300, composite=True), p90=4000.0)
    lost = cell("all_gather", KB, 1, composite=True, time_us=None, error="no")
    launches = [result([cell("ring", KB, us, composite=True), ticking, lost]) for us in (100, 300)]
    steady = {KB: pytest.approx([100e-6, 300e-6])}
    assert times_of(launches, steady=True) == {A: steady}
    assert times_of(launches[:1], steady=False)[A][MB] == pytest.approx([285e-6, 300e-6, 4e-3])
    assert times_of(launches, steady=False)[A][KB] == steady[KB]


def test_a_bare_all_reduce_stands_for_the_one_that_is_not_there() -> None:
    bare, divided = PrimitiveKey("all_reduce", reduce_op="sum"), PrimitiveKey("all_reduce", composite=True)
    largest = PrimitiveKey("all_reduce", reduce_op="max")
    assert rivals([bare, largest, PrimitiveKey("broadcast"), A]) == [bare, A]
    assert rivals([bare, divided, A]) == [divided, A]
