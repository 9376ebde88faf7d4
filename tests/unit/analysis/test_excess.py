"""How much longer a rank worked than the others: a delay that was put in is found, and where, and the interval holds
it, over simulated trials with noise, natural skew and hiccups."""

from collections.abc import Callable
from random import Random
from statistics import fmean

import pytest
from msgspec.structs import replace

from ddptui.analysis.late import Excess, Window, excess_of_rank
from ddptui.analysis.waits import align_steps
from ddptui.wire.phases import PARTS
from tests.support.traces import MS, SITES, Shape, all_reduce, delayed, trace, works_of

S = 1e9  # ns


def found(works: list[dict[int, list[int]]], rank: int = 1, shape: Shape = all_reduce) -> Excess:
    return excess_of_rank(Window(align_steps(trace(works, shape)).steps), rank)


def holds(found: Excess, injected_s: float) -> bool:
    return abs(found.estimate / S - injected_s) <= found.half / S


KINDS: dict[str, Callable[[Random], Callable[[int], float]]] = {
    "constant": lambda draw: lambda step: 25.0,
    "every tenth step": lambda draw: lambda step: 50.0 if step % 10 == 3 else 0.0,
    "uniform": lambda draw: lambda step: draw.uniform(0, 50),
    "exponential": lambda draw: lambda step: draw.expovariate(1 / 25),
    "a pause": lambda draw: lambda step: 2500.0 if step == 31 else 0.0,
}


# Those with the narrowest and with the widest interval, and one that is in few steps; the others lie between them.
OFTEN = ("constant", "exponential", "a pause")
RARE = [pytest.param(kind, marks=pytest.mark.rare) for kind in KINDS if kind not in OFTEN]


@pytest.mark.parametrize("kind", [*OFTEN, *RARE])
def test_the_interval_holds_what_was_put_in_nineteen_times_of_twenty(kind: str) -> None:
    held, phases, widths = 0, 0, []
    for seed in range(100):
        at = SITES[seed % len(SITES)]
        works, injected = delayed(works_of(seed), 1, at, KINDS[kind](Random(seed)))
        lost = found(works)
        held += holds(lost, injected)
        phases += PARTS[lost.lost[0][0]] == at
        widths.append(2 * lost.half / lost.estimate)
    assert held >= 95
    assert phases == 100
    assert fmean(widths) < (0.7 if kind in ("uniform", "exponential") else 0.1)
    if kind == "constant":
        assert max(widths) < 0.1


def test_a_hiccup_of_the_others_is_not_haste_of_this_one() -> None:
    works, injected = delayed(works_of(5), 1, "forward", lambda _: 25.0)
    works, _ = delayed(works, 0, "forward", lambda step: 400.0 if step == 50 else 0.0)
    assert holds(found(works), injected)


def test_work_that_only_some_steps_do_is_no_loss() -> None:
    """Every third step, both ranks hash the model before the next one."""
    works: list[dict[int, list[int]]] = [
        {rank: [*parts[:-1], parts[-1] + 3 * MS * (number % 3 == 0)] for rank, parts in step.items()}
        for number, step in enumerate(works_of(11, skew=0.0))
    ]
    assert abs(found(works).estimate) < 0.1 * 33 * 3 * MS


def test_a_loss_in_two_phases_is_told_largest_first() -> None:
    works, first = delayed(works_of(8), 1, "data", lambda _: 10.0)
    works, second = delayed(works, 1, "backward", lambda _: 20.0)
    lost = found(works)
    assert [PARTS[part] for part, _ in lost.lost] == ["backward", "data"]
    assert lost.estimate / S == pytest.approx(first + second, rel=0.02)


@pytest.mark.parametrize(
    ("forward_ms", "late_ms", "half_ms"),
    [
        (10.0, 5.0, 1.2),  # of the work, an eighth
        (0.01, 5.0, 0.101),  # a moment a step, for cold caches,
        (0.01, 50.0, 0.18),  # and some of a long delay
    ],
)
def test_even_where_nothing_scatters_the_interval_allows_for_what_machines_do_for_no_reason(
    forward_ms: float, late_ms: float, half_ms: float
) -> None:
    usual = [MS, round(forward_ms * MS), MS, MS, MS, MS]
    works = [{0: list(usual), 1: list(usual)} for _ in range(50)]
    late, injected = delayed(works, 1, "forward", lambda _: late_ms)
    lost = found(late)
    assert lost.estimate / S == pytest.approx(injected)
    assert lost.half / MS / 50 == pytest.approx(half_ms, rel=0.05)


def test_who_has_more_work_queues_longer_too_but_not_for_a_larger_part_of_it() -> None:
    """Of two ranks beside other programs, rank 1 has half as much work again; then its core is taken besides."""
    works = [{0: step[0], 1: [round(1.5 * part) for part in step[1]]} for step in works_of(12, skew=0.0)]

    def queued_beyond(parts: tuple[float, float]) -> float:
        told = trace(works)
        for rank, part in enumerate(parts):
            told[rank] = [
                replace(step, queued_ns=round(part * sum(work[rank])))
                for step, work in zip(told[rank], works, strict=True)
            ]
        return excess_of_rank(Window(align_steps(told).steps), 1).queued

    assert queued_beyond((0.3, 0.3)) == 0.0
    worked = sum(sum(step[1]) for step in works)
    assert queued_beyond((0.1, 0.6)) == pytest.approx(0.5 * worked, rel=0.1)


def test_what_the_late_rank_did_meanwhile_is_told_by_its_cpu_time() -> None:
    """Rank 1 takes 10 ms longer in forward, 20 ms in all: on a core, in the queue for one, neither, or nobody knows."""
    works = [{0: [0, 10 * MS, 10 * MS, 0, 0, 0], 1: [0, 20 * MS, 10 * MS, 0, 0, 0]} for _ in range(50)]

    def lost(cpu_ms: tuple[float, float], queued_ms: float = 0.0) -> tuple[float | None, float | None]:
        told = trace(works)
        for rank, ms in enumerate(cpu_ms):
            queued_ns = round(rank * queued_ms * MS)
            told[rank] = [replace(step, cpu_ns=round(ms * MS), queued_ns=queued_ns) for step in told[rank]]
        excess = excess_of_rank(Window(align_steps(told).steps), 1)
        return excess.cpu, excess.blocked

    assert lost((20, 30)) == (1.5, None)
    assert lost((20, 20), queued_ms=10) == (None, None)
    assert lost((20, 20.5)) == (None, pytest.approx(0.95))
    assert lost((20, 23)) == (None, None)  # some of each
    assert lost((0, 0)) == (None, None)
