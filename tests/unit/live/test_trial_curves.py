"""A figure over many steps, in few points; and the curves of a trial that has ended: medians over its repeats."""

from collections.abc import Callable

import pytest

from ddptui.analysis.thinning import MOST_ITEMS
from ddptui.live.curves import FEW_STEPS, LEAST_BUCKET, MOST_BUCKETS, MOST_STEPS, LaunchCurves, StepLengths, of_repeats
from ddptui.live.state import Curve, mean_of
from tests.support.builders import step

# A figure


def curve_of(*values: float | None) -> Curve:
    curve = Curve()
    for number, value in enumerate(values):
        curve.add(number, value)
    return curve


def counting(steps: int) -> Curve:
    return curve_of(*map(float, range(steps)))


def test_a_short_training_has_a_point_a_step_also_where_its_figure_is_not_finite() -> None:
    assert curve_of(3.0, None, 1.5).points == [(0, 3.0), (1, None), (2, 1.5)]
    assert len(counting(MOST_ITEMS).points) == MOST_ITEMS
    assert Curve().points == []


@pytest.mark.parametrize("steps", [MOST_ITEMS + 1, 2 * MOST_ITEMS, 5_000, 100_003])
def test_a_long_one_has_points_all_along_equally_far_apart_and_few(steps: int) -> None:
    curve = Curve()
    for number in range(steps):
        curve.add(number, float(number))
        assert len(curve.points) <= MOST_ITEMS
    assert len(curve.points) >= MOST_ITEMS / 2
    assert curve.points == [(number, float(number)) for number in range(0, steps, curve.stride)]


@pytest.mark.parametrize(
    ("curves", "mean"),
    [
        ([curve_of(1.0, 2.0), curve_of(3.0, 6.0)], [(0, 2.0), (1, 4.0)]),
        ([curve_of(1.0, 2.0)], [(0, 1.0), (1, 2.0)]),
        ([curve_of(1.0, 2.0, 3.0), curve_of(3.0)], [(0, 2.0)]),  # a rank has not come so far yet
        ([curve_of(1.0), Curve()], []),
        ([], []),
        ([curve_of(1.0, None, 0.0), curve_of(3.0, 6.0, None)], [(0, 2.0), (1, None), (2, None)]),
        ([curve_of(0.0), curve_of(0.0)], [(0, 0.0)]),
    ],
)
def test_the_mean_is_taken_step_by_step(curves: list[Curve], mean: list[tuple[int, float | None]]) -> None:
    assert mean_of(curves) == mean


def test_curves_that_were_thinned_differently_meet_where_both_have_points() -> None:
    ahead, behind = counting(MOST_ITEMS + 1), counting(MOST_ITEMS)
    assert (ahead.stride, behind.stride) == (2, 1)
    assert mean_of([ahead, behind]) == [(number, float(number)) for number in range(0, MOST_ITEMS, 2)]


# One launch


def launch(
    *losses: float | None, ranks: int = 1, step_ms: float = 10, warmup: int = 0, begin_ms: float = 0
) -> LaunchCurves:
    """A launch of steps with these losses; rank 1's are higher by 2."""
    curves = LaunchCurves()
    for number, loss in enumerate(losses):
        at = begin_ms + number * step_ms
        for rank in range(ranks):
            own = None if loss is None else loss + 2 * rank
            curves.add(step(rank, number, begin_ms=at, end_ms=at + step_ms, loss=own, warmup=number < warmup))
    return curves


def lengths_of(steps: int, ms: Callable[[int], float] = float) -> StepLengths:
    lengths = StepLengths()
    for number in range(steps):
        lengths.add(step(0, number, begin_ms=0, end_ms=ms(number)))
    return lengths


def test_the_loss_is_the_mean_over_ranks_with_warm_up_steps_and_seconds_count_from_the_first_step() -> None:
    curves = launch(3.0, 1.0, ranks=2, step_ms=500, warmup=1, begin_ms=7_000)
    assert (curves.loss, curves.seconds) == ([(0, 4.0), (1, 2.0)], [(0, 0.5), (1, 1.0)])
    disordered = LaunchCurves()
    for number in (1, 0):
        disordered.add(step(0, number, begin_ms=number * 1000, end_ms=number * 1000 + 1000))
    assert disordered.seconds == [(0, 1.0), (1, 2.0)]
    assert len(launch(*map(float, range(3 * MOST_ITEMS))).loss) <= MOST_ITEMS


def test_lengths_are_of_the_measured_steps_of_all_ranks() -> None:
    curves = launch(1.0, 1.0, 1.0, ranks=2, step_ms=10, warmup=1)
    curves.add(step(2, 2, begin_ms=0, end_ms=90))
    assert curves.lengths.medians == [(1, 10.0), (2, 10.0)]
    assert len(lengths_of(FEW_STEPS, lambda _: 1).medians) == FEW_STEPS


def test_neither_a_single_long_step_nor_one_in_eight_is_a_spike() -> None:
    """Every eighth step is an average over ranks, and long: to keep every eighth step would show only those."""
    once = lengths_of(100, lambda number: 500 if number == 50 else 10).medians
    assert [first for first, _ in once] == [*range(0, 100, LEAST_BUCKET)]
    often = lengths_of(20_000, lambda number: 80 if number % 8 == 0 else 10).medians
    assert {ms for _, ms in (*once, *often)} == {10.0}


@pytest.mark.parametrize("steps", [1_000, MOST_STEPS, MOST_STEPS + 1, 50_000])
def test_a_long_launch_has_a_bounded_number_of_points_all_along(steps: int) -> None:
    lengths = lengths_of(steps)
    assert len(lengths.kept) <= MOST_STEPS
    medians = lengths.medians
    assert MOST_BUCKETS / 4 <= len(medians) <= MOST_BUCKETS
    assert medians[0][0] == 0
    assert medians[-1][0] > 0.95 * steps
    for first, ms in medians:
        assert ms is not None
        assert first <= ms <= first + lengths.bucket


# Several repeats


def test_of_several_repeats_it_is_the_median_at_the_steps_that_all_have() -> None:
    curves = of_repeats([launch(1.0, 2.0, 5.0, step_ms=10), launch(3.0, 4.0, step_ms=40), launch(9.0, 9.0, step_ms=20)])
    assert curves.loss == [(0, 3.0), (1, 4.0)]
    assert curves.step_ms == [(0, 20.0), (1, 20.0)]
    assert curves.seconds == pytest.approx({0: 0.02, 1: 0.04})
    assert curves.repeats == 3
    assert of_repeats([launch(1.0, None), launch(1.0, 1.0)]).loss == [(0, 1.0), (1, None)]


def test_a_launch_without_a_step_counts_for_nothing() -> None:
    assert of_repeats([launch(1.0), LaunchCurves()]).loss == [(0, 1.0)]
    assert (of_repeats([LaunchCurves()]).repeats, of_repeats([]).loss) == (0, [])


def test_buckets_of_launches_of_other_lengths_meet() -> None:
    curves = of_repeats([launch(*[1.0] * steps) for steps in (300, 3_000)])
    assert curves.bucket == 32
    assert [first for first, _ in curves.step_ms] == [*range(0, 300, 32)]


def test_points_over_seconds_stand_where_their_steps_ended() -> None:
    curves = of_repeats([launch(3.0, 2.0, 1.0, step_ms=500)])
    assert curves.over_seconds(curves.loss) == [(0.5, 3.0), (1.0, 2.0), (1.5, 1.0)]
    assert curves.over_seconds([(7, 1.0)]) == []
    long = of_repeats([launch(*[1.0] * 20_000)])
    assert len(long.over_seconds(long.step_ms)) == len(long.step_ms) > 1
