"""α, β and γ come out again as they were put in; and what cannot be known is not said."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.analysis.primitives.cells import PrimitiveKey, combined, key_of
from ddptui.analysis.primitives.fit import (
    MOST_KNOTS,
    Fit,
    Times,
    fit_all,
    fit_curve,
    fit_operation,
    network_of,
    predicted_time,
    without_outliers,
)
from ddptui.analysis.primitives.least_squares import dot, nonnegative_least_squares, solve, squares
from ddptui.analysis.primitives.theory import Network, seconds, theory
from ddptui.config.primitives import OPERATIONS
from ddptui.config.strategies import COMPOSITES
from tests.support.measured_cells import KB, MB, SIZES, cell, cells, result

US = 1e-6
NETWORK = Network(40e-6, 4e-10, 5e-11)
OTHER_TERMS = ("barrier", "local_sum")  # than α and β
ALL_REDUCE = PrimitiveKey("all_reduce", reduce_op="sum")
# Medians in µs on two ranks in SCHED_BATCH, alone on the machine, of 1 KB, 64 KB, 256 KB, 1 MB, … 64 MB.
QUIET_SIZES = (KB, 64 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 64 * MB)
QUIET = {
    "all_reduce": (151, 157, 178, 423, 1392, 6349, 27007),
    "reduce_broadcast": (214, 233, 288, 648, 2189, 10906, 51178),
    "gather_scatter": (174, 202, 298, 1031, 3610, 22343, 106492),
    "reduce_scatter_all_gather": (295, 269, 372, 1074, 4308, 16084, 103110),
    "ring": (127, 161, 177, 467, 1402, 6423, 28428),
}


def by_theory(operation: str, ranks: int = 4, *, composite: bool = False) -> dict[int, float]:
    """What the formula says, in s by bytes."""
    cost = theory(operation, composite=composite).cost(ranks)
    return {size: seconds(cost, size, NETWORK) for size in SIZES}


def fitted(times: Times, ranks: int = 4, gamma: float | None = NETWORK.gamma) -> Fit:
    return fit_operation(ALL_REDUCE, ranks, times, gamma)


# α and β


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize(
    ("name", "composite"),
    [*((name, False) for name in OPERATIONS if name not in OTHER_TERMS), *((name, True) for name in COMPOSITES)],
)
def test_what_was_put_in_comes_out(name: str, composite: bool, ranks: int) -> None:
    found = fit_operation(
        PrimitiveKey(name, composite), ranks, by_theory(name, ranks, composite=composite), NETWORK.gamma
    )
    assert (found.alpha, found.beta) == pytest.approx(NETWORK[:2])
    assert found.line_worst == pytest.approx(0, abs=1e-9)
    assert found.worst == pytest.approx(0, abs=1e-9)
    assert found.left_out == pytest.approx(0, abs=1e-9)
    assert found.curve is not None
    assert found.curve.knots == ()


@given(alpha=st.floats(1e-6, 1e-2), beta=st.floats(1e-11, 1e-7), seed=st.integers(0, 99))
def test_noise_moves_it_no_further_than_it_is_large(alpha: float, beta: float, seed: int) -> None:
    noise = random.Random(seed)
    times = {size: (alpha + size * beta) * noise.uniform(0.97, 1.03) for size in SIZES}
    found = predict_all(fit_operation(PrimitiveKey("send_recv"), 2, times, None))
    assert all(abs(found[size] / (alpha + size * beta) - 1) < 0.05 for size in SIZES)


def predict_all(found: Fit) -> dict[int, float]:
    return {size: predicted_time(found, size) or 0.0 for size in SIZES}


@pytest.mark.parametrize("hit", SIZES[:6])  # to 1 MB: beyond it, a tick is little
def test_one_size_that_met_the_tick_does_not_move_it(hit: int) -> None:
    times = by_theory("all_reduce")
    found = fitted(times | {hit: times[hit] + 4e-3})
    others = [abs(residual) for size, residual in found.residuals.items() if size != hit]
    assert max(others) < 0.02
    assert found.residuals[hit] < -0.5
    assert found.worst == max(map(abs, found.residuals.values()))
    assert (found.alpha, found.beta) == pytest.approx(NETWORK[:2])


def test_where_some_met_the_tick_those_that_did_not_are_believed() -> None:
    """As a gather on two ranks had it, while other work went on: 1, 4 and 16 KB took a tick."""
    medians = (4040, 3980, 3960, 122, 173, 297)
    found = fit_operation(
        PrimitiveKey("gather"), 2, {size: s * US for size, s in zip(SIZES, medians, strict=False)}, None
    )
    assert predicted_time(found, 64 * KB) == pytest.approx(122 * US, rel=0.05)
    assert predicted_time(found, KB) == pytest.approx(115 * US, rel=0.1)


def test_nothing_is_negative() -> None:
    """The more bytes the less time, and less than none at no bytes."""
    falling = {size: 1e-3 / (1 + at) for at, size in enumerate(SIZES)}
    steep = {size: size * 1e-9 - 0.9e-6 for size in SIZES}
    for times in (falling, steep):
        found = fitted(times)
        assert found.curve is not None
        assert min(found.alpha or 0.0, found.beta or 0.0, found.curve.start_s, *found.curve.slopes) >= 0
    assert fitted(falling).beta == 0
    assert fitted(steep).alpha == 0


def test_more_adding_than_time_leaves_no_time_for_sending() -> None:
    assert fitted(by_theory("all_reduce"), gamma=1e-8).beta == 0


# γ


def test_adding_alone_tells_gamma_and_is_held_where_others_add() -> None:
    add = cells("local_sum", lambda size: (1e-6 + size * NETWORK.gamma) / US)
    reduce = cells("all_reduce", lambda size: by_theory("all_reduce")[size] / US, ranks=4)
    gather = cells("all_gather", lambda size: by_theory("all_gather")[size] / US, ranks=4)
    found = {each.key.operation: each for each in fit_all(result(reduce, gather, add, ranks=4))}
    assert found["local_sum"].gamma == pytest.approx(NETWORK.gamma)
    assert found["local_sum"].alpha == pytest.approx(1e-6)
    assert found["local_sum"].beta is None
    assert found["all_reduce"].gamma == found["local_sum"].gamma
    assert found["all_reduce"].beta == pytest.approx(NETWORK.beta)
    assert found["all_gather"].gamma is None


def test_without_it_what_adding_costs_is_in_beta() -> None:
    found = fitted(by_theory("all_reduce"), gamma=None)
    assert found.gamma is None
    cost = theory("all_reduce").cost(4)
    assert found.beta == pytest.approx(NETWORK.beta + cost.reduction / cost.transfer * NETWORK.gamma)


# The bent line


def two_regimes(bend: int) -> dict[int, float]:
    return {size: 1e-4 + min(size, bend) * 1e-10 + max(0, size - bend) * 2e-9 for size in SIZES}


@pytest.mark.parametrize("bend", SIZES[3:-2])
def test_a_bend_is_found_where_it_is(bend: int) -> None:
    found = fitted(two_regimes(bend))
    assert found.curve is not None
    assert bend in found.curve.knots
    assert found.worst is not None
    assert found.line_worst is not None
    assert found.worst < 0.02 < found.line_worst
    assert predicted_time(found, 2 * bend) == pytest.approx(1e-4 + bend * 1e-10 + bend * 2e-9, rel=0.03)
    assert predicted_time(found, 128 * MB) == pytest.approx(1e-4 + bend * 1e-10 + (128 * MB - bend) * 2e-9, rel=0.03)


@given(st.lists(st.floats(1e-6, 10), min_size=2, max_size=9))
def test_a_bent_line_never_falls_and_has_few_bends(medians: list[float]) -> None:
    found = fit_curve(dict(zip(SIZES, medians, strict=False)))
    assert found is not None
    assert min(found.start_s, *found.slopes) >= 0
    assert len(found.knots) <= min(MOST_KNOTS, (len(medians) - 2) // 2)
    assert [*found.knots] == sorted(set(found.knots))


@pytest.mark.parametrize("name", QUIET)
def test_what_a_quiet_machine_measured_is_met_within_15_percent(name: str) -> None:
    times = {size: median * US for size, median in zip(QUIET_SIZES, QUIET[name], strict=True)}
    found = fit_operation(PrimitiveKey(name, composite=True), 2, times, None)
    assert found.worst is not None
    assert found.worst < 0.15
    assert found.line_worst is not None
    assert found.line_worst > 0.15


def test_a_size_that_was_left_out_is_further_off() -> None:
    times = {size: median * US for size, median in zip(QUIET_SIZES, QUIET["ring"], strict=True)}
    found = fit_operation(PrimitiveKey("ring", composite=True), 2, times, None)
    assert found.worst is not None
    assert found.left_out is not None
    assert found.left_out > found.worst


def test_noise_is_no_bend() -> None:
    """A line that is 4 % off, up and down: more knots would be nearer to every point."""
    wavy = {size: (1e-4 + size * 1e-9) * (1.04 if at % 2 else 0.96) for at, size in enumerate(SIZES)}
    found = fit_curve(wavy)
    assert found is not None
    assert found.knots == ()


def test_what_took_far_longer_than_a_larger_size_is_not_believed() -> None:
    assert without_outliers({1: 4.0, 2: 1.4, 4: 1.0, 8: 2.0}) == {2: 1.4, 4: 1.0, 8: 2.0}
    falling = {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0}
    assert without_outliers(falling) == falling  # nobody knows which ones


# Too little to know


def test_one_size_says_nothing_of_others() -> None:
    found = fitted({KB: 1e-4})
    assert (found.alpha, found.beta, found.worst, found.line_worst, found.left_out) == (None,) * 5
    assert predicted_time(found, KB) is None


def test_two_sizes_are_met_and_do_not_say_how_well() -> None:
    found = fitted({KB: 1e-4, MB: 1e-3}, gamma=None)
    assert predicted_time(found, MB) == pytest.approx(1e-3)
    assert (found.worst, found.line_worst, found.left_out) == (None, None, None)
    assert found.alpha is not None


def test_three_sizes_have_a_residual_and_none_left_out() -> None:
    found = fitted({KB: 1e-4, MB: 1e-3, 4 * MB: 5e-3})
    assert found.worst is not None
    assert found.left_out is None


def test_a_barrier_has_its_latency_and_no_more() -> None:
    found = fit_operation(PrimitiveKey("barrier"), 4, {0: 2e-4}, None)
    assert (found.alpha, found.beta, found.worst) == (1e-4, None, None)  # two rounds
    assert predicted_time(found, 0) == 2e-4


def test_cells_without_a_time_are_left_out() -> None:
    lost = cell("all_reduce", MB, 1, time_us=None, error="no")
    assert fit_all(result([lost])) == []
    [found] = fit_all(result([lost, cell("all_reduce", KB, 100)]))
    assert set(found.residuals) == set()
    assert found.alpha is None


# What the textbook is fed with


@pytest.mark.parametrize(
    ("measured", "source"),
    [
        (("send_recv", "isend_irecv"), "isend_irecv"),
        (("send_recv",), "send_recv"),
        (("all_reduce",), None),
    ],
)
def test_alpha_and_beta_are_those_of_a_message(measured: tuple[str, ...], source: str | None) -> None:
    slower = {"isend_irecv": 2.0}

    def time(name: str) -> Callable[[int], float]:
        return lambda size: slower.get(name, 1.0) * (40 + size * 4e-4)

    found = network_of(fit_all(result(*(cells(name, time(name)) for name in measured))), "back_to_back")
    if source is None:
        assert found is None
        return
    assert found is not None
    assert found[1].operation == source
    factor = slower.get(source, 1.0)
    assert found[0] == pytest.approx((factor * 40e-6, factor * 4e-10, 0.0))


# Several launches as one


def test_launches_are_combined_by_their_medians_and_what_was_wrong_adds_up() -> None:
    launches = [
        result([cell("all_reduce", KB, median, wrong=wrong, slowest=rank, slowest_us=slowest)])
        for median, wrong, rank, slowest in ((100, 0, 0, 110), (900, 3, 1, 990), (120, 1, 0, 130))
    ]
    [one] = combined(launches).cells
    assert one.time_us is not None
    assert one.time_us.median == 120
    assert one.time_us.p90 == pytest.approx(126)
    assert one.busbw_gb_s == pytest.approx(KB / one.time_us.mean / 1000)
    assert (one.wrong, one.calls, one.slowest, one.slowest_us) == (4, 300, 1, 990)


def test_other_sizes_and_operators_are_kept_apart() -> None:
    several = [cell("all_reduce", KB, 1), cell("all_reduce", MB, 2), cell("all_reduce", KB, 3, reduce_op="max")]
    several.append(cell("all_reduce", KB, 4, composite=True))
    assert [found.time_us and found.time_us.median for found in combined([result(several)]).cells] == [1, 2, 3, 4]
    assert len({key_of(each) for each in several}) == 3


# Least squares


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(-5, 5)), min_size=3, max_size=8))
def test_nothing_near_by_is_better(rows: list[tuple[float, float, float]]) -> None:
    left, targets = [row[:2] for row in rows], [row[2] for row in rows]
    found = nonnegative_least_squares(left, targets)
    assert min(found) >= 0
    least = squares(left, targets, found)
    for x in (0.0, 1e-3, -1e-3, 0.5, -0.5):
        for y in (0.0, 1e-3, -1e-3, 0.5, -0.5):
            if found[0] + x >= 0 and found[1] + y >= 0:
                assert squares(left, targets, [found[0] + x, found[1] + y]) >= least - 1e-9


@given(st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=3, max_size=3))
def test_equations_are_solved(matrix: list[list[float]]) -> None:
    dominant = [[value + 30 * (row == column) for column, value in enumerate(line)] for row, line in enumerate(matrix)]
    x = solve(dominant, [1.0, 2.0, 3.0])
    assert x is not None
    assert [dot(row, x) for row in dominant] == pytest.approx([1, 2, 3])


def test_equations_that_say_the_same_twice_are_not() -> None:
    assert solve([[1, 2], [2, 4]], [1, 2]) is None
