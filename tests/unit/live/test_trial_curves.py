"""The curves of a trial that has ended: thinned as its steps come, medians over repeats, by step and by second."""

from collections.abc import Callable

import pytest

from ddptui.live.curves import FEW_STEPS, LEAST_BUCKET, MOST_BUCKETS, MOST_STEPS, LaunchCurves, StepLengths, of_repeats
from ddptui.live.state import MOST_POINTS
from tests.support.builders import step


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


# One launch


def test_the_loss_is_the_mean_over_ranks_with_warm_up_steps() -> None:
    assert launch(3.0, 1.0, ranks=2, warmup=1).loss == [(0, 4.0), (1, 2.0)]


def test_seconds_count_from_the_begin_of_the_first_step() -> None:
    assert launch(1.0, 1.0, ranks=2, step_ms=500, begin_ms=7_000).seconds == [(0, 0.5), (1, 1.0)]


def test_steps_need_not_come_in_order() -> None:
    curves = LaunchCurves()
    for number in (1, 0):
        curves.add(step(0, number, begin_ms=number * 1000, end_ms=number * 1000 + 1000))
    assert curves.seconds == [(0, 1.0), (1, 2.0)]


def test_lengths_are_of_the_measured_steps_of_all_ranks() -> None:
    curves = launch(1.0, 1.0, 1.0, ranks=2, step_ms=10, warmup=1)
    curves.add(step(2, 2, begin_ms=0, end_ms=90))
    assert curves.lengths.medians == [(1, 10.0), (2, 10.0)]


def test_a_single_long_step_is_no_spike() -> None:
    medians = lengths_of(100, lambda number: 500 if number == 50 else 10).medians
    assert {ms for _, ms in medians} == {10.0}
    assert [first for first, _ in medians] == [*range(0, 100, LEAST_BUCKET)]


def test_of_few_steps_each_has_its_point() -> None:
    assert len(lengths_of(FEW_STEPS, lambda _: 1).medians) == FEW_STEPS


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


def test_what_comes_every_few_steps_is_not_taken_for_all() -> None:
    """Every eighth step is an average over ranks, and long: to keep every eighth step would show only those."""
    medians = lengths_of(20_000, lambda number: 80 if number % 8 == 0 else 10).medians
    assert {ms for _, ms in medians} == {10.0}


def test_a_loss_over_many_steps_is_thinned() -> None:
    assert len(launch(*map(float, range(3 * MOST_POINTS))).loss) <= MOST_POINTS


# Several repeats


def test_of_several_repeats_it_is_the_median_at_the_steps_that_all_have() -> None:
    curves = of_repeats([launch(1.0, 2.0, 5.0, step_ms=10), launch(3.0, 4.0, step_ms=40), launch(9.0, 9.0, step_ms=20)])
    assert curves.loss == [(0, 3.0), (1, 4.0)]
    assert curves.step_ms == [(0, 20.0), (1, 20.0)]
    assert curves.seconds == pytest.approx({0: 0.02, 1: 0.04})
    assert curves.repeats == 3


def test_a_loss_that_is_not_finite_in_one_repeat_is_a_gap() -> None:
    assert of_repeats([launch(1.0, None), launch(1.0, 1.0)]).loss == [(0, 1.0), (1, None)]


def test_a_launch_without_a_step_counts_for_nothing() -> None:
    assert of_repeats([launch(1.0), LaunchCurves()]).loss == [(0, 1.0)]
    assert of_repeats([LaunchCurves()]).repeats == 0
    assert of_repeats([]).loss == []


def test_buckets_of_launches_of_other_lengths_meet() -> None:
    several = []
    for steps in (300, 3_000):
        several.append(LaunchCurves())
        for number in range(steps):
            several[-1].add(step(0, number, begin_ms=0, end_ms=10))
    curves = of_repeats(several)
    assert curves.bucket == 32
    assert [first for first, _ in curves.step_ms] == [*range(0, 300, 32)]


def test_points_over_seconds_stand_where_their_steps_ended() -> None:
    curves = of_repeats([launch(3.0, 2.0, 1.0, step_ms=500)])
    assert curves.over_seconds(curves.loss) == [(0.5, 3.0), (1.0, 2.0), (1.5, 1.0)]
    assert curves.over_seconds([(7, 1.0)]) == []


def test_each_bucket_of_a_long_launch_has_its_second() -> None:
    curves = of_repeats([launch(*[1.0] * 20_000)])
    assert len(curves.over_seconds(curves.step_ms)) == len(curves.step_ms) > 1
