"""What a call costs, out of what calls took: known costs come out again, and what cannot be told is said."""

import pytest

from ddptui.analysis.primitives.theory import theory
from ddptui.projection import ProjectionError
from ddptui.projection.costs import (
    CallCosts,
    CostUnits,
    MeasuredCall,
    fit_costs,
    fit_gamma,
    mean_excess,
    stated_costs,
)

TRUE = CallCosts(alpha=50e-6, beta=1e-9, call=80e-6)
SIZES = (40, 1024, 65536, 262144)


def taken(
    operation: str, ranks: int = 2, network: CallCosts = TRUE, sizes: tuple[int, ...] = SIZES
) -> list[MeasuredCall]:
    """As the formula has it."""
    cost = theory(operation).cost(ranks)
    bills = {size: CostUnits(1, cost.latency, size * cost.transfer, size * cost.reduction) for size in sizes}
    return [
        MeasuredCall(operation, ranks, size, network.seconds(bill), network.seconds(bill))
        for size, bill in bills.items()
    ]


def test_two_collectives_tell_a_call_from_a_message() -> None:
    found = fit_costs([*taken("all_reduce"), *taken("broadcast")], "here")
    assert (found.alpha, found.beta, found.call) == pytest.approx((TRUE.alpha, TRUE.beta, TRUE.call))
    assert found.worst == pytest.approx(0, abs=1e-9)
    assert found.source == "here"


def test_one_collective_cannot_and_all_of_it_is_messages() -> None:
    """Two of them, in an all_reduce on two ranks."""
    found = fit_costs(taken("all_reduce"), "here")
    assert (found.alpha, found.call) == pytest.approx((TRUE.alpha + TRUE.call / 2, 0))
    assert found.beta == pytest.approx(TRUE.beta)


def test_messages_between_two_ranks_are_better_than_one_collective() -> None:
    ring = taken("isend_irecv", network=TRUE._replace(call=0))
    found = fit_costs([*taken("all_reduce"), *ring], "here")
    assert (found.alpha, found.beta) == pytest.approx((TRUE.alpha, TRUE.beta))


def test_where_sums_have_a_cost_of_their_own_it_is_held() -> None:
    adding = TRUE._replace(gamma=0.5e-9)
    found = fit_costs([*taken("all_reduce", network=adding), *taken("broadcast", network=adding)], "here", 0.5e-9)
    assert (found.alpha, found.beta, found.gamma) == pytest.approx((TRUE.alpha, TRUE.beta, 0.5e-9))
    assert fit_costs(taken("all_reduce", network=adding), "here").beta == pytest.approx(TRUE.beta + 0.25e-9)


def test_what_a_sum_takes_is_the_slope_of_sums_without_a_wire() -> None:
    sums = [MeasuredCall("local_sum", 2, size, 1e-6 + size * 2e-10, 0.0) for size in SIZES]
    assert fit_gamma(sums) == pytest.approx(2e-10)
    assert fit_gamma(sums[:1]) == 0


@pytest.mark.parametrize("times", [1, 3])
def test_one_size_cannot_tell_latency_from_bandwidth(times: int) -> None:
    with pytest.raises(ProjectionError, match=r"one size cannot .*--alpha, --gbps.*--network"):
        fit_costs(taken("all_reduce", sizes=(4096,)) * times, "here")


def test_no_cost_is_ever_negative() -> None:
    """Larger ones that took less."""
    found = fit_costs([MeasuredCall("all_reduce", 2, size, 1e-3 - size * 1e-9, 0.0) for size in SIZES], "here")
    assert min(found.alpha, found.beta, found.call) >= 0


def test_outliers_are_what_calls_take_beyond_typical_ones_of_their_kind_and_not_beyond_the_fit() -> None:
    slow = [each._replace(s=9 * each.s, mean_s=9 * each.s, number=10) for each in taken("all_reduce")]
    assert mean_excess(slow) == 0
    hiccups = [each._replace(mean_s=each.s + 3e-4, number=10) for each in slow[:2]]
    assert mean_excess(hiccups) == pytest.approx(3e-4)
    assert mean_excess([*hiccups, *slow[2:]]) == pytest.approx(1.5e-4)
    assert mean_excess([]) == 0


def test_where_all_is_slower_outliers_are_not() -> None:
    slowed = TRUE._replace(excess=1e-3, gamma=2e-9).slowed(4)
    assert (slowed.alpha, slowed.beta, slowed.gamma, slowed.call) == pytest.approx((200e-6, 4e-9, 8e-9, 320e-6))
    assert slowed.excess == 1e-3


def test_a_stated_network_counts_bits() -> None:
    found = stated_costs(2, 100)
    assert (found.alpha, found.beta, found.call) == pytest.approx((2e-6, 1 / 12.5e9, 0))
    assert "α 2 µs, 100 Gbit/s" in found.source
