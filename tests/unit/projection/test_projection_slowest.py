"""The slowest of many ranks, against laws of which it is known."""

import random
from itertools import pairwise
from math import log
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.projection.slowest_rank import Slowest, expected_slowest, shape_of, slowest

SEEN = 1000
EULER = 0.5772156649
MANY = (1, 2, 4, 8, 64, 512, 4096)


def evenly(quantile: str, count: int = SEEN) -> list[float]:
    """A sample without chance: the law's quantiles, evenly."""
    chances = [(at + 0.5) / count for at in range(count)]
    return chances if quantile == "uniform" else [-log(1 - chance) for chance in chances]


def harmonic(number: int) -> float:
    return sum(1 / each for each in range(1, number + 1))


@pytest.mark.parametrize("ranks", MANY)
def test_of_uniform_steps(ranks: int) -> None:
    assert expected_slowest(slowest([evenly("uniform")]), ranks) == pytest.approx(ranks / (ranks + 1), rel=0.005)


@pytest.mark.parametrize("ranks", MANY)
def test_of_exponential_steps_far_beyond_the_sample(ranks: int) -> None:
    assert expected_slowest(slowest([evenly("exponential")]), ranks) == pytest.approx(harmonic(ranks), rel=0.02)


@pytest.mark.parametrize("ranks", MANY)
def test_of_constant_steps_it_is_themselves(ranks: int) -> None:
    assert expected_slowest(slowest([[3.5] * 20, [3.5] * 20]), ranks) == 3.5


def test_two_hundred_samples_do_not_limit_what_4096_ranks_do() -> None:
    """An empirical law would end with its sample."""
    draw = random.Random(1)
    sample = [draw.expovariate(1) for _ in range(200)]
    found = expected_slowest(slowest([sample]), 4096)
    assert found > 1.2 * max(sample)
    assert found == pytest.approx(log(4096) + EULER, rel=0.2)


def test_a_law_with_an_end_is_not_taken_beyond_it() -> None:
    draw = random.Random(2)
    sample = [draw.uniform(0, 40) for _ in range(200)]
    assert 39 < expected_slowest(slowest([sample]), 4096) < 42


def test_the_shape_is_that_of_the_law_where_the_sample_can_tell() -> None:
    draw = random.Random(3)
    assert shape_of([draw.expovariate(1) for _ in range(400)]) == 0
    assert shape_of([draw.random() for _ in range(400)]) == pytest.approx(-1, abs=0.15)
    assert shape_of([draw.paretovariate(4) - 1 for _ in range(4000)]) == pytest.approx(0.25, abs=0.1)
    assert shape_of([1.0, 2.0, 9.0]) == 0


def test_a_rank_that_is_always_slower_is_no_chance() -> None:
    """Of N ranks half are like it: the slowest is one of these, and there is nothing to wait for beyond it."""
    law = slowest([[1.0] * 50, [2.0] * 50])
    assert [expected_slowest(law, ranks) for ranks in (1, 2, 4, 4096)] == [1.5, 2, 2, 2]


def test_fewer_ranks_than_were_measured_are_any_of_them() -> None:
    law = slowest([[1.0] * 9, [1.0] * 9, [1.0] * 9, [2.0] * 9])
    assert expected_slowest(law, 1) == pytest.approx(1.25)
    assert expected_slowest(law, 2) == pytest.approx(1.5)
    assert expected_slowest(law, 5) == 2


def test_on_as_many_ranks_as_were_measured_it_is_the_mean_of_their_maxima() -> None:
    draw = random.Random(4)
    ranks = [[draw.gauss(10 + rank, 1 + rank) for _ in range(2000)] for rank in range(3)]
    really = fmean(map(max, zip(*ranks, strict=True)))
    assert expected_slowest(slowest(ranks), 3) == pytest.approx(really, rel=0.01)


def test_many_ranks_are_put_together_by_how_long_they_take() -> None:
    ranks = [[float(1 + rank // 40)] * 4 for rank in range(80)]
    law: Slowest = slowest(ranks)
    assert len(law.by.by_kind) == 16
    assert expected_slowest(law, 1) == pytest.approx(1.5)
    assert expected_slowest(law, 80) == 2


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=40))
def test_more_ranks_never_take_less_and_one_takes_the_mean(sample: list[float]) -> None:
    law = slowest([sample])
    found = [expected_slowest(law, ranks) for ranks in (1, 2, 8, 64, 4096)]
    assert all(after >= before * (1 - 1e-9) for before, after in pairwise(found))
    assert found[-1] >= min(sample)
