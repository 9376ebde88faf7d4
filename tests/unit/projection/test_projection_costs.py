"""What a step's transfers cost under each strategy, worked out by hand."""

import pytest

from ddptui.projection.command import PROJECTED
from ddptui.projection.costs import Backward, CallCosts, CostUnits, Traffic, after_backward, buckets, transfer_times
from ddptui.text.units import MB

KB = 1024
TRAFFIC = Traffic(tensors=(8 * KB, 2 * KB, 6 * KB), itemsize=4)
N, K = 16 * KB, 3  # bytes and tensors of it
ALPHA, BETA = 1.0, 1.0 / KB  # s a message, s a byte
MESSAGES, BYTES = CallCosts(ALPHA, 0.0), CallCosts(0.0, BETA)
AT_ONCE = Backward(0.0)


def cost(strategy: str, ranks: int, network: CallCosts) -> float:
    return transfer_times(strategy, TRAFFIC, ranks, network, AT_ONCE).transfer


@pytest.mark.parametrize(
    ("strategy", "messages", "copies"),
    [
        ("all_reduce", K * 2 * 3, 2 * 3 / 4),
        ("all_reduce_async", 2 * 2 * 3, 2 * 3 / 4),
        ("reduce_broadcast", K * (2 * 3 + 2), 2 * 3 / 4 + 2),
        ("gather_scatter", K * 2 * 3, 2 * 3),
        ("all_gather", K * 3, 3),
        ("reduce_scatter_all_gather", K * (4 * 2 * 3 + 3), 3 * 3 / 4),
        ("ring", K * 2 * 3, 2 * 3 / 4),
        ("flat", 2 * 3, 2 * 3 / 4),
        ("bucketed", 2 * 3, 2 * 3 / 4),
        ("ddp", 2 * 3, 2 * 3 / 4),
        ("ddp_fp16", 2 * 3, 2 * 3 / 4 / 2),
        ("ddp_bf16", 2 * 3, 2 * 3 / 4 / 2),
    ],
)
def test_on_four_ranks(strategy: str, messages: float, copies: float) -> None:
    """copies: how often the gradients are sent by the rank that sends most."""
    assert cost(strategy, 4, MESSAGES) == pytest.approx(messages * ALPHA)
    assert cost(strategy, 4, BYTES) == pytest.approx(copies * N * BETA)


def test_every_strategy_that_can_be_projected_has_a_cost_and_one_rank_sends_nothing() -> None:
    network = CallCosts(ALPHA, BETA, call=ALPHA, excess=ALPHA)
    for strategy in PROJECTED:
        assert cost(strategy, 2, network) > 0
        assert cost(strategy, 1, network) == 0


def test_a_call_is_paid_for_once() -> None:
    calls = {
        name: after_backward(name, TRAFFIC, 4).calls for name in ("all_reduce", "reduce_broadcast", "flat", "ring")
    }
    assert calls == {"all_reduce": K, "reduce_broadcast": 2 * K, "flat": 1, "ring": K * 6}
    assert after_backward("all_reduce_async", TRAFFIC, 4) == CostUnits(2, 2 * 6, N * 1.5, N * 0.75)


def test_buckets_are_filled_from_the_last_tensor_on_and_closed_when_full() -> None:
    traffic = Traffic(tensors=(30 * MB, 1 * MB, 20 * MB, 10 * MB, 1 * MB), itemsize=4)
    assert buckets("ddp", traffic) == (1 * MB, 30 * MB, 31 * MB)  # the first one holds 1 MB, the others 25
    assert buckets("bucketed", traffic) == (31 * MB, 31 * MB)
    small = traffic._replace(bucket_mb=1.0)
    assert buckets("ddp", small) == tuple(size * MB for size in (1, 10, 20, 1, 30))
    assert buckets("ddp_fp16", small) == tuple(size * MB / 2 for size in (1, 10, 20, 1, 30))
    assert buckets("ddp_fp16", small._replace(itemsize=8)) == tuple(size * MB / 4 for size in (1, 10, 20, 1, 30))


def test_buckets_that_were_seen_are_not_guessed() -> None:
    assert buckets("ddp", TRAFFIC._replace(buckets=(3.0, 5.0))) == (3.0, 5.0)


def exposed(strategy: str, computed: float, slept: float = 0.0) -> float:
    """Of four buckets of 1 KB, each of which takes 1 s on two ranks."""
    traffic = Traffic(tensors=(KB,) * 4, itemsize=4, buckets=(KB,) * 4)
    found = transfer_times(strategy, traffic, 2, BYTES, Backward(computed, slept))
    assert found.transfer == pytest.approx(4)
    return found.exposed


def test_what_backward_hides() -> None:
    assert exposed("bucketed", 0.0) == pytest.approx(4)  # all ready at once
    assert exposed("bucketed", 2.0) == pytest.approx(2.5)  # the first at 0.5; they queue
    assert exposed("bucketed", 4.0) == pytest.approx(1)
    assert exposed("bucketed", 400.0) == pytest.approx(1)  # the last one always
    assert exposed("ddp", 2.0) == pytest.approx(2.5)


def test_a_delay_after_backward_hides_what_is_under_way_but_torch_ddp_has_waited_before() -> None:
    assert exposed("bucketed", 2.0, slept=2.0) == pytest.approx(0.5)
    assert exposed("bucketed", 2.0, slept=9.0) == 0
    assert exposed("ddp", 2.0, slept=9.0) == pytest.approx(2.5)


def test_a_bucket_is_ready_when_it_was_seen_to_be_and_hidden_for_as_long_as_it_was() -> None:
    """All four are ready when half of backward is done: the last is over 4 s later."""
    seen = Traffic(tensors=(KB,) * 4, itemsize=4, buckets=(KB,) * 4, ready=(0.5,) * 4)
    assert [transfer_times("ddp", seen, 2, BYTES, Backward(4.0, hides=s)).exposed for s in (0.0, 1.5, -1.0)] == [
        2,
        0.5,
        3,
    ]


def test_without_overlap_all_is_exposed() -> None:
    for strategy in ("all_reduce", "flat", "ring", "gather_scatter"):
        found = transfer_times(strategy, TRAFFIC, 4, CallCosts(ALPHA, BETA), Backward(1000.0))
        assert found.exposed == found.transfer


def test_what_a_model_broadcasts_before_backward_is_never_hidden() -> None:
    early = TRAFFIC._replace(early_calls=1, early_bytes=float(KB))
    plain, more = (transfer_times("ddp", traffic, 8, BYTES, Backward(1000.0)) for traffic in (TRAFFIC, early))
    assert more.exposed - plain.exposed == pytest.approx(3)  # a tree of three levels
