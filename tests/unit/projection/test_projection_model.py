"""Known costs come out of what calls took; what a step sends under each strategy; the slowest of many ranks."""

from math import log
from random import Random
from statistics import fmean

import pytest

from ddptui.projection.command import PROJECTED
from ddptui.projection.model import (
    OPERATIONS,
    Costs,
    MeasuredCall,
    MeasuredTrial,
    Work,
    fit_costs,
    mean_work,
    points,
    transfers,
    waits,
)

ALPHA, BETA = 50e-6, 1e-9
SIZES = (40, 1024, 65536, 262144)
KB = 1024
ONE_STEP = [[[Work(1.0, 0.0, 0.0, 0.0)]] * 2]
TRIAL = MeasuredTrial("flat", 2, ONE_STEP, [], tensors=3, bytes=16 * KB, itemsize=4)
MESSAGES, BYTES = Costs(1.0, 0.0, "α"), Costs(0.0, 1.0, "β")


def calls(operation: str, ranks: int) -> list[MeasuredCall]:
    """As the formula has it."""
    messages, copies = OPERATIONS[operation](ranks)
    return [MeasuredCall(operation, size, messages * ALPHA + copies * size * BETA) for size in SIZES]


def test_costs_weigh_each_call_and_a_negative_one_is_unknown() -> None:
    doubled = [call._replace(s=2 * call.s, weight=1e-9) for call in calls("all_reduce", 2)]
    found = fit_costs([*calls("all_reduce", 2), *doubled], 2, "here", "do this")
    assert found.alpha == pytest.approx(ALPHA, rel=1e-3)
    assert found.worst == pytest.approx(0.5)
    shrinking = [MeasuredCall("all_reduce", size, 1e-3 - size * 1e-9) for size in SIZES]
    found = fit_costs(shrinking, 2, "here", "do this")
    assert (found.beta, found.unknown, found.remedy) == (0, "bandwidth", "do this")
    without_latency = [MeasuredCall("all_reduce", size, size**1.2 * 1e-9) for size in SIZES]
    found = fit_costs(without_latency, 2, "here", "do this")
    assert (found.alpha, found.unknown) == (0, "latency")
    assert fit_costs(calls("all_reduce", 2), 2, "here", "do this").unknown == ""


@pytest.mark.parametrize(
    ("strategy", "messages", "copies"),
    [
        ("all_reduce", 3 * 2 * 3, 2 * 3 / 4),
        ("all_reduce_async", 2 * 2 * 3, 2 * 3 / 4),
        ("reduce_broadcast", 3 * (2 * 3 + 2), 2 * 3 / 4 + 2),
        ("gather_scatter", 3 * 2 * 3, 2 * 3),
        ("all_gather", 3 * 3, 3),
        ("reduce_scatter_all_gather", 3 * (4 * 2 * 3 + 3), 3 * 3 / 4),
        ("ring", 3 * 2 * 3, 2 * 3 / 4),
        ("flat", 2 * 3, 2 * 3 / 4),
        ("bucketed", 2 * 3, 2 * 3 / 4),
        ("ddp_fp16", 2 * 3, 2 * 3 / 4 / 2),
    ],
)
def test_what_a_step_sends_on_four_ranks(strategy: str, messages: float, copies: float) -> None:
    """Three tensors. copies: how often the gradients are sent by the rank that sends most."""
    assert transfers(strategy, TRIAL, 4, MESSAGES)[0] == pytest.approx(messages)
    assert transfers(strategy, TRIAL, 4, BYTES)[0] == pytest.approx(copies * 16 * KB)


def test_every_strategy_has_a_cost_and_one_rank_sends_nothing() -> None:
    for strategy in PROJECTED:
        assert transfers(strategy, TRIAL, 2, MESSAGES)[0] > 0
        assert transfers(strategy, TRIAL, 1, MESSAGES) == (0, 0)


HIDING = TRIAL._replace(strategy="ddp", tensors=9, buckets=4, hidden=6.0, backward=16.0)  # 6 of 8 s are hidden


@pytest.mark.parametrize(
    ("strategy", "backward", "exposed"),
    [
        ("flat", 100.0, 2.0),  # without overlap all is exposed
        ("ddp", 100.0, 2.0),  # all but the last of four buckets is hidden
        ("ddp", 1.0, 7.0),  # as long as backward lasts
    ],
)
def test_what_backward_would_hide_of_a_trial_without_overlap(strategy: str, backward: float, exposed: float) -> None:
    """An all_reduce on two ranks has two messages; a strategy with buckets sends four."""
    trial = HIDING._replace(strategy="flat", hidden=None, backward=backward)
    assert transfers(strategy, trial, 2, MESSAGES) == pytest.approx((2.0 if strategy == "flat" else 8.0, exposed))


def test_an_overlapping_strategy_hides_as_large_a_part_but_not_of_transfers_that_took_longer() -> None:
    late = HIDING._replace(hidden=-0.5)
    assert transfers("ddp", late, 2, MESSAGES) == pytest.approx((8, 8.5))
    assert transfers("ddp", late, 1, MESSAGES) == (0, 0)
    assert transfers("ddp", HIDING, 2, MESSAGES, room=0.5) == pytest.approx((8, 2))  # what still fits stays hidden
    assert transfers("ddp_fp16", HIDING, 2, BYTES) == pytest.approx((8 * KB, 8 * KB - 3))
    in_time = HIDING._replace(hidden=12.0 * KB, backward=99.0 * KB)
    assert transfers("ddp_fp16", in_time, 2, BYTES) == pytest.approx((8 * KB, 2 * KB))


def test_with_strong_scaling_the_room_shrinks_and_on_shared_cores_it_grows() -> None:
    trial = HIDING._replace(backward=8.0)
    room = {"alone": (MESSAGES, True), "shared": (MESSAGES._replace(ranks=2, cores=2), False)}
    [strong], [shared] = (points(trial, costs, ["ddp"], 4, strong) for costs, strong in room.values())
    assert strong.exposed_ms / 1e3 == pytest.approx(24 - 8 / 2)
    assert shared.exposed_ms / 1e3 == pytest.approx(24 - 8 * 2)


def mean_of_slowest(samples: list[list[float]], ranks: int) -> float:
    return fmean(waits([samples], ranks)) + mean_work([samples])


@pytest.mark.parametrize("ranks", [1, 4, 64])
def test_the_slowest_of_a_known_distribution(ranks: int) -> None:
    chances = [(at + 0.5) / 20_000 for at in range(20_000)]
    assert mean_of_slowest([chances], ranks) == pytest.approx(ranks / (ranks + 1), rel=0.02)
    exponential = [-log(1 - chance) for chance in chances]
    harmonic = sum(1 / each for each in range(1, ranks + 1))
    assert mean_of_slowest([exponential], ranks) == pytest.approx(harmonic, rel=0.04)


def test_the_slowest_is_the_mean_of_the_maxima_and_never_slower_than_measured() -> None:
    draw = Random(4)
    ranks = [[draw.gauss(10 + rank, 1 + rank) for _ in range(2000)] for rank in range(3)]
    really = fmean(map(max, zip(*ranks, strict=True)))
    assert mean_of_slowest(ranks, 3) == pytest.approx(really, rel=0.01)
    sample = [Random(1).expovariate(1) for _ in range(200)]
    assert max(waits([[sample]], 4096)) == max(sample) - fmean(sample)
    assert waits([[sample]], 8) == waits([[sample]], 8)
    ranks = [[1.0] * 9, [1.0] * 9, [1.0] * 9, [2.0] * 9]
    assert [mean_of_slowest(ranks, number) for number in (1, 2, 4, 4096)] == pytest.approx([1.25, 1.5, 2, 2])


def test_what_launches_differ_by_is_nothing_to_wait_for() -> None:
    """Also if one launch has more steps than the other."""
    launches = [[[1.0, 3.0]] * 2, [[11.0, 13.0] * 9] * 2]
    assert fmean(waits(launches, 2)) == pytest.approx(fmean(waits(launches[:1], 2)), abs=0.1)
    work = [[[Work(s, 0.0, 0.0, 0.0) for s in steps] for steps in launch] for launch in launches]
    [point] = points(TRIAL._replace(work=work), MESSAGES, ["flat"], 2, strong=False)
    assert point.wait_ms / 1e3 == pytest.approx(0.5, abs=0.1)


def test_on_shared_cores_computing_and_bytes_take_longer_but_delays_and_messages_do_not() -> None:
    def step(work: Work, ranks: int, cores: int | None) -> tuple[float, float]:
        trial = TRIAL._replace(work=[[[work]] * 2])
        [point] = points(trial, Costs(1.0, 1.0, "", ranks=2, cores=cores), ["flat"], ranks, strong=False)
        return point.work_ms / 1e3, point.transfer_ms / 1e3

    computed, half_asleep = Work(1.0, 1.0, 0.0, 0.0), Work(0.5, 0.5, 0.5, 0.5)
    assert step(computed, 2, 2) == step(computed, 2, None)
    assert step(computed, 8, 2) == pytest.approx((8.0, 14 + 4 * 1.75 * 16 * KB))
    assert step(half_asleep, 8, 2)[0] == pytest.approx(1 * 2 + 1)  # four of eight compute at a time, on two cores
    assert step(half_asleep, 4, 2)[0] == pytest.approx(2)
