"""A figure over the steps of a long training, in few points."""

import pytest

from ddptui.live.state import MOST_POINTS, Curve, mean_of


def curve_of(*values: float | None) -> Curve:
    curve = Curve()
    for step, value in enumerate(values):
        curve.add(step, value)
    return curve


def counting(steps: int) -> Curve:
    return curve_of(*map(float, range(steps)))


def test_a_short_training_has_a_point_a_step() -> None:
    assert curve_of(3.0, 2.0, 1.5).points == [(0, 3.0), (1, 2.0), (2, 1.5)]
    assert len(counting(MOST_POINTS).points) == MOST_POINTS
    assert Curve().points == []


@pytest.mark.parametrize("steps", [MOST_POINTS + 1, 2 * MOST_POINTS, 5_000, 100_003])
def test_a_long_one_has_points_all_along_equally_far_apart_and_few(steps: int) -> None:
    curve = counting(steps)
    assert MOST_POINTS / 2 <= len(curve.points) <= MOST_POINTS
    assert curve.points == [(step, float(step)) for step in range(0, steps, curve.stride)]


def test_it_is_never_larger_than_it_may_be() -> None:
    curve = Curve()
    for step in range(10 * MOST_POINTS):
        curve.add(step, 1.0)
        assert len(curve.points) <= MOST_POINTS


def test_what_was_not_finite_is_a_point_too() -> None:
    assert curve_of(1.0, None, 2.0).points == [(0, 1.0), (1, None), (2, 2.0)]


def test_two_curves_have_nothing_in_common() -> None:
    first, second = Curve(), Curve()
    first.add(0, 1.0)
    assert (first.points, second.points) == ([(0, 1.0)], [])


def test_the_mean_is_taken_step_by_step() -> None:
    assert mean_of([curve_of(1.0, 2.0), curve_of(3.0, 6.0)]) == [(0, 2.0), (1, 4.0)]
    assert mean_of([curve_of(1.0, 2.0)]) == [(0, 1.0), (1, 2.0)]


def test_where_a_rank_has_not_come_yet_there_is_no_mean() -> None:
    assert mean_of([curve_of(1.0, 2.0, 3.0), curve_of(3.0)]) == [(0, 2.0)]
    assert mean_of([curve_of(1.0), Curve()]) == []


def test_of_no_curves_there_is_no_mean() -> None:
    assert mean_of([]) == []


def test_where_one_is_not_finite_the_mean_is_not() -> None:
    assert mean_of([curve_of(1.0, None, 0.0), curve_of(3.0, 6.0, None)]) == [(0, 2.0), (1, None), (2, None)]


def test_a_loss_of_nothing_is_a_number() -> None:
    assert mean_of([curve_of(0.0), curve_of(0.0)]) == [(0, 0.0)]


def test_curves_that_were_thinned_differently_meet_where_both_have_points() -> None:
    ahead, behind = counting(MOST_POINTS + 1), counting(MOST_POINTS)
    assert (ahead.stride, behind.stride) == (2, 1)
    assert mean_of([ahead, behind]) == [(step, float(step)) for step in range(0, MOST_POINTS, 2)]
