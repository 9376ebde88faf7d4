"""Times of other clocks, brought to the console's: always within what is said of them, and in their order."""

from collections.abc import Callable
from itertools import pairwise
from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.analysis import clocks as clock_sync
from ddptui.analysis.clocks import Clocks, Track, clock_spread, in_console_time
from ddptui.text.words import DRIFT_PPM
from ddptui.wire.messages import Collective, Step
from ddptui.wire.records import Message, Offset
from tests.support.builders import MS, hello, launched, load, offset, one_of_each, step, tied
from tests.unit.wire.test_retime import times

S = 1_000_000_000  # ns
AHEAD_NS = 1000 * S
Clock = Callable[[float], float]  # the console's time in, its own out


def steady(ppm: float) -> Clock:
    """Ahead of the console's, and faster or slower."""
    return lambda ns: ns + AHEAD_NS + ns * ppm / 1e6


def probed(clock: Clock, ways_ns: list[tuple[int, int]], every_ns: int = S) -> Track:
    """Probes with these ways there and back, one after another."""
    track = Track()
    for number, (there, back) in enumerate(ways_ns, start=1):
        sent = number * every_ns
        told = round(clock(sent + there))
        came = sent + there + back
        offset_ns = told - (sent + came) // 2
        error = (there + back) // 2 + 2
        track.add(Offset(rank=1, clock="far", at_ns=(sent + came) // 2, offset_ns=offset_ns, error_ns=error))
    return track


def probed_for_long(clock: Clock, ways_ns: list[tuple[int, int]]) -> Track:
    """As `probed`, by a console that keeps few probes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock_sync, "MOST_REPORTS", 4)
        track = probed(clock, ways_ns)
    assert len(track.knots) <= 4
    return track


def suspended(at_ns: int) -> Clock:
    """Of a machine that was suspended for half a second: its clock stood still."""
    return lambda ns: ns + AHEAD_NS - min(max(0, ns - at_ns - S // 4), S // 2)


def is_right(track: Track, clock: Clock, console_ns: int) -> bool:
    found = track.at(round(clock(console_ns)))
    return abs(clock(console_ns) - console_ns - found.offset_ns) <= found.error_ns + 2  # rounded


WAYS = st.lists(st.tuples(*[st.integers(1_000, 30 * MS)] * 2), min_size=1, max_size=30)


@pytest.mark.parametrize("asked", [probed, probed_for_long])
@given(WAYS, st.floats(-DRIFT_PPM, DRIFT_PPM), st.lists(st.integers(0, 60 * S), min_size=1))
def test_the_estimate_is_never_off_by_more_than_it_says(
    asked: Callable[[Clock, list[tuple[int, int]]], Track], ways: list[tuple[int, int]], ppm: float, moments: list[int]
) -> None:
    """However long the ways, however different there and back, however the clock drifts within the bound; and however
    few probes are kept."""
    track = asked(steady(ppm), ways)
    assert all(is_right(track, steady(ppm), moment) for moment in moments)


@given(WAYS, st.floats(-DRIFT_PPM, DRIFT_PPM), st.integers(0, 40 * S))
def test_it_is_never_less_sure_than_the_best_probe_alone(ways: list[tuple[int, int]], ppm: float, moment: int) -> None:
    clock = steady(ppm)
    best = min(
        (there + back) / 2 + 2 + abs(clock(moment) - clock(number * S + there)) * DRIFT_PPM / 1e6 + 1
        for number, (there, back) in enumerate(ways, start=1)
    )
    assert probed(clock, ways).at(round(clock(moment))).error_ns <= best + MS * DRIFT_PPM / 1e6 * 30 + 2


@given(WAYS, st.lists(st.integers(AHEAD_NS, AHEAD_NS + 40 * S), min_size=2))
def test_two_moments_never_change_places(ways: list[tuple[int, int]], moments: list[int]) -> None:
    track = probed(steady(50), ways)
    ordered = sorted(moments)
    by_console = [track.console_ns(moment) for moment in ordered]
    assert by_console == sorted(by_console)
    for (begin, end), (begun, ended) in zip(pairwise(ordered), pairwise(by_console), strict=True):
        assert abs((ended - begun) - (end - begin)) <= (end - begin) * DRIFT_PPM / 1e6 + 2


def test_a_clock_that_drifts_more_than_is_allowed_would_be_told_wrong() -> None:
    """The bound is needed: without it, the first test means nothing."""
    clock = steady(40 * DRIFT_PPM)
    track = probed(clock, [(10_000, 10_000)])
    assert is_right(track, clock, S)
    assert not is_right(track, clock, 5 * S)


def test_probes_that_contradict_each_other_make_it_unsure_only_there() -> None:
    clock = suspended(10 * S)
    track = probed(clock, [(50_000, 50_000)] * 20)
    assert all(is_right(track, clock, at) for at in range(S, 20 * S, S // 7))
    assert track.at(round(clock(10 * S + S // 2))).error_ns > S // 2
    for calm in (9 * S + S // 2, 12 * S):
        assert track.at(round(clock(calm))).error_ns < 200_000


@pytest.mark.parametrize("number", range(2, 19))
def test_that_a_clock_jumped_is_not_forgotten_with_the_probe_that_showed_it(number: int) -> None:
    clock = suspended(number * S)
    track = probed_for_long(clock, [(50_000, 50_000)] * 20)
    assert all(is_right(track, clock, at) for at in range(S, 20 * S, S // 7))


def clocks_of(*messages: Message) -> Clocks:
    clocks = Clocks()
    for message in messages:
        clocks.add(message)
    return clocks


FAR = hello(1, clock="far", at_ns=1_002_000 * MS)
AHEAD = offset(1, 2_000, 1_000_000)  # ms


@pytest.mark.parametrize("message", one_of_each(), ids=lambda message: type(message).__name__)
def test_every_moment_that_a_rank_tells_is_aligned_and_nothing_else(message: Message) -> None:
    clocks = clocks_of(launched(), hello(0), hello(1, clock="far"), AHEAD)
    if not hasattr(message, "rank") or isinstance(message, Offset):
        assert in_console_time(message, clocks) is message
        return
    of_far = msgspec.structs.replace(message, rank=1)
    told = in_console_time(of_far, clocks)
    assert all(
        abs(before - after - 1_000_000 * MS) <= 1e12 * DRIFT_PPM / 1e6
        for before, after in zip(times(of_far), times(told), strict=True)
    )
    near = msgspec.structs.replace(message, rank=0)
    assert in_console_time(near, clocks) is near
    moments = {"at_ns", "begin_ns", "end_ns", "first_ns", "heard_ns", "said_ns", "collectives", "slept", "lines"}
    kept = {field: getattr(of_far, field) for field in of_far.__struct_fields__ if field not in moments}
    assert {field: getattr(told, field) for field in kept} == kept


def test_a_rank_with_the_consoles_clock_or_of_a_journal_from_before_there_were_clocks_is_left_as_it_is() -> None:
    clocks = clocks_of(launched(), hello(0), hello(1))
    assert clocks.of_rank == {}
    assert in_console_time(step(1), clocks) == step(1)
    clocks = clocks_of(msgspec.structs.replace(launched(), clock="near"), hello(0, clock="near"), FAR)
    assert clocks.of_rank == {1: "far"}


def test_the_next_launch_knows_nothing_of_the_clocks_and_ties_before() -> None:
    clocks = clocks_of(launched(), FAR, AHEAD, tied(0), launched())
    assert (clocks.of_rank, clocks.tracks, clocks.ties) == ({}, {}, {})


def test_a_rank_of_whose_clock_nothing_is_known_is_where_the_console_heard_it_and_not_compared() -> None:
    clocks = clocks_of(launched(), load(at_ms=2_000), hello(0), FAR)
    assert in_console_time(FAR, clocks).at_ns == 2_000 * MS  # type: ignore[union-attr]
    assert clock_spread(clocks, entering(0, 1)).largest_ns((0, 1)) == inf
    clocks.add(AHEAD)
    assert clock_spread(clocks, entering(0, 1)).largest_ns((0, 1)) < inf


def test_ranks_of_one_host_without_ties_are_not_apart_nor_is_a_rank_alone() -> None:
    for heard, ranks in (((hello(0, clock="far"), FAR), 2), ((hello(0), tied(0)), 1), ((hello(0), hello(1)), 2)):
        assert clock_spread(clocks_of(launched(), *heard), entering(*range(ranks))) is None


def test_the_errors_of_two_hosts_add_up_and_those_of_one_do_not() -> None:
    third = [hello(2, clock="third"), offset(2, 2_000, 0, 0.3, "third"), hello(3, clock="third")]
    found = clock_spread(
        clocks_of(launched(), hello(0), hello(1, clock="far"), offset(1, 2_000, 0), *third), entering(*range(4))
    )
    for ranks, error_ms in (((0, 1), 0.1), ((0, 2), 0.3), ((1, 2), 0.4), ((2, 3), 0.0), (range(4), 0.4)):
        assert found.largest_ns(ranks) / MS == pytest.approx(error_ms, abs=0.001)


def entering(*ranks: int, at_ms: tuple[float, ...] = (2_000,)) -> dict[int, list[Step]]:
    """Steps in which these ranks enter operations at these moments."""
    calls = tuple(Collective("all_reduce", seq, 8, *[round(at * MS)] * 4) for seq, at in enumerate(at_ms))
    return {rank: [msgspec.structs.replace(step(rank), collectives=calls)] for rank in ranks}


def test_gpus_of_one_host_are_apart_by_the_sum_of_their_ties_and_nothing_is_moved() -> None:
    clocks = clocks_of(launched(), *map(hello, range(3)), tied(0, 1_000, 0.02), tied(1, 1_000, 0.05))
    found = clock_spread(clocks, entering(0, 1, 2))
    for ranks, error_ms in (((0, 1), 0.07), ((0, 2), 0.02), ((1, 2), 0.05), ((0, 1, 2), 0.07), ((1,), 0.0)):
        assert found.largest_ns(ranks) == pytest.approx(error_ms * MS)
    assert found.errors_ns((0, 1, 2)) == pytest.approx({0: 0.07 * MS, 1: 0.07 * MS, 2: 0.05 * MS})
    assert in_console_time(step(0), clocks) == step(0)


def test_a_tie_adds_to_the_error_of_its_host_and_two_of_a_host_share_that() -> None:
    heard = [hello(0), hello(1, clock="far"), hello(2, clock="far"), offset(1, 2_000, 0, 0.3)]
    found = clock_spread(clocks_of(launched(), *heard, tied(1, 1_000, 0.02), tied(2, 1_000, 0.05)), entering(0, 1, 2))
    for ranks, error_ms in (((0, 1), 0.32), ((0, 2), 0.35), ((1, 2), 0.07)):
        assert found.largest_ns(ranks) / MS == pytest.approx(error_ms, abs=0.001)
    assert found.errors_ns((0, 1, 2))[1] / MS == pytest.approx(0.32, abs=0.001)


@pytest.mark.parametrize(
    ("at_ms", "error_ms"),
    [
        ((2_000,), 0.02),  # before the first word of it: that must do
        ((3_000,), 0.02),
        ((3_999,), 0.02),
        ((4_000,), 0.4),
        ((5_500,), 0.01),
        ((3_500, 5_500), 0.4),
        ((2_000, 3_500), 0.02),
    ],
)
def test_of_ties_those_count_that_are_in_force_where_something_is_compared(
    at_ms: tuple[float, ...], error_ms: float
) -> None:
    told = [tied(0, 5_000, 0.01), tied(0, 3_000, 0.02), tied(0, 4_000, 0.4)]  # replicas' come in any order
    clocks = clocks_of(launched(), hello(0), hello(1), *told)
    assert clock_spread(clocks, entering(0, 1, at_ms=at_ms)).largest_ns((0, 1)) == pytest.approx(error_ms * MS)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(0, 40), st.integers(0, 40))
def test_of_a_long_run_fewer_ties_are_kept_and_none_is_forgotten(errors: list[int], one: int, other: int) -> None:
    messages = [msgspec.structs.replace(tied(0), at_ns=at_ns, error_ns=ns) for at_ns, ns in enumerate(errors)]
    every, few = clocks_of(launched(), *messages), Clocks()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock_sync, "MOST_REPORTS", 4)
        for message in messages:
            few.add(message)
    assert len(few.ties[0]) <= 4
    span = min(one, other), max(one, other)
    assert few.tie_error(0, *span) >= every.tie_error(0, *span)
    assert few.tie_error(0, *span) in errors
