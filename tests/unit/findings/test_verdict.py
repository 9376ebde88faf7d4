"""The verdict: who is named, where, and when nobody is; over simulated trials with noise, natural skew and hiccups."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from ddptui.analysis.culprit import WaitAnalysis, verdict_for
from ddptui.analysis.policy import FEWEST_STEPS, LATE_IN_ALL_PHASES, LATE_IN_ONE_PHASE, MATTERS
from ddptui.analysis.waits import align_steps
from ddptui.findings.verdict import analyze_aligned, analyze_waits
from ddptui.wire.messages import GATHER_OUTPUTS
from tests.support.traces import (
    MS,
    SITES,
    Shape,
    all_reduce,
    bucketed,
    delayed,
    gather_scatter,
    reduce_broadcast,
    simulate,
    trace,
    works_of,
)

Works = list[dict[int, list[int]]]


def judged(works: Works, shape: Shape = all_reduce, transfer: int = MS // 2) -> WaitAnalysis:
    return analyze_waits(trace(works, shape, transfer))


def named(works: Works, shape: Shape = all_reduce) -> tuple[int, str] | None:
    found = judged(works, shape).culprit
    return (found.rank, found.phase) if found else None


@pytest.mark.parametrize(
    ("wait", "transfer", "word"),
    [
        (0.05, 0.049, "inconclusive"),
        (MATTERS, 0.0, "skew"),
        (0.0, MATTERS, "transfer"),
        (0.2001, 0.1, "skew"),
        (0.1999, 0.1, "mixed"),
        (0.1, 0.1999, "mixed"),
        (0.1, 0.2001, "transfer"),
    ],
)
def test_the_word_for_shares_of_the_time(wait: float, transfer: float, word: str) -> None:
    assert verdict_for(wait, transfer) == word


@pytest.mark.parametrize("shape", [all_reduce, reduce_broadcast, gather_scatter, bucketed])
@pytest.mark.parametrize(
    ("ranks", "rank", "at"), [*((2, rank, at) for rank in (0, 1) for at in SITES), (4, 0, "forward"), (4, 2, "forward")]
)
def test_a_delayed_rank_is_named_with_the_phase_of_the_delay(ranks: int, rank: int, at: str, shape: Shape) -> None:
    works, injected = delayed(works_of(2, ranks=ranks, skew=0.03), rank, at, lambda _: 25.0)
    found = judged(works, shape).culprit
    assert (found.rank, found.phase, found.slower) == (rank, at, None)
    assert 0.9 < found.share <= 1
    assert found.wait_caused_s == pytest.approx((ranks - 1) * injected, rel=0.1)
    assert found.excess_s.low < injected < found.excess_s.high
    assert found.excess_s.low < found.excess_s.estimate < found.excess_s.high
    assert found.excess_s.estimate == pytest.approx(injected, rel=0.03)


DELAYS: dict[str, Callable[[int], float]] = {
    "every tenth step": lambda step: 60.0 if step % 10 == 4 else 0.0,
    "more and more": lambda step: step / 2,
    "in the first half": lambda step: 25.0 if step < 50 else 0.0,
    "in turns short and long": lambda step: (5.0, 40.0, 12.0, 1.0)[step % 4],
}


@pytest.mark.parametrize("delay", DELAYS)
def test_a_rank_that_is_late_now_and_then_is_named(delay: str) -> None:
    for at in SITES:
        works, _ = delayed(works_of(3), 1, at, DELAYS[delay])
        assert named(works) == (1, at)


@pytest.mark.parametrize("ms", [200.0, 1500.0])  # the scheduler may take it; chance may give it to any
def test_one_huge_pause_of_a_rank_is_chance_and_not_its_fault(ms: float) -> None:
    works, _ = delayed(works_of(4), 1, "backward", lambda step: ms if step == 60 else 0.0)
    assert named(works) is None


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_pause_by_turns_are_not_named(ranks: int) -> None:
    for seed in range(8):
        works = works_of(seed, ranks=ranks, steps=320)
        for rank in range(ranks):
            pauses = range(10 + 40 * rank // ranks, 320, 40)
            works, _ = delayed(works, rank, "backward", lambda step, pauses=pauses: 150.0 * (step in pauses))
        assert named(works) is None, seed


def test_a_core_that_is_slow_for_a_moment_is_nobodys() -> None:
    slow_ms = dict.fromkeys(range(40, 60), 5.0)  # a fifth of a second, in which the rank loses half of that
    works, _ = delayed(works_of(4, skew=0.0), 1, "backward", lambda step: slow_ms.get(step, 0.0))
    assert named(works) is None
    works, _ = delayed(works_of(4, skew=0.0), 1, "backward", lambda step: 5.0 * (step % 5 == 0))
    assert named(works) is not None  # the same loss, all the time


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.rare)])
@pytest.mark.parametrize("shape", [all_reduce, reduce_broadcast])
def test_nobody_is_named_where_nothing_was_put_in(ranks: int, shape: Shape) -> None:
    assert [seed for seed in range(50) if named(works_of(seed, ranks=ranks), shape)] == []


def slowed(seed: int, factor: float) -> Works:
    """Rank 1 takes so much longer for all it does."""
    return [{0: step[0], 1: [round(factor * part) for part in step[1]]} for step in works_of(seed, skew=0.0)]


def test_nobody_is_named_where_one_core_is_an_eighth_slower() -> None:
    assert [seed for seed in range(100) if named(slowed(seed, 1.12))] == []


def test_a_rank_whose_core_another_program_has_is_named_as_that() -> None:
    """Rank 1 queues for a third of its time; then it is late besides."""

    def beside(late_ms: float, *, disturbed: bool = True) -> WaitAnalysis:
        works, _ = delayed(works_of(9, skew=0.0), 1, "forward", lambda step: 4.0 + 4.0 * (step % 2))
        works, _ = delayed(works, 1, "data", lambda _: late_ms)
        told = trace(works)
        told[1] = [replace(step, queued_ns=(4 + 4 * (step.step % 2)) * MS) for step in told[1]]
        return analyze_aligned(align_steps(told), disturbed=disturbed)

    assert beside(0.0).rank_without_core == 1
    assert beside(0.0).culprit is None
    assert beside(0.0, disturbed=False).rank_without_core is None
    late = beside(25.0).culprit
    assert (late.rank, late.phase) == (1, "data")


@pytest.mark.parametrize(
    ("kind", "ms", "named"), [("all_reduce", 0.4, True), (GATHER_OUTPUTS, 0.4, False), (GATHER_OUTPUTS, 1.0, True)]
)
def test_replicas_that_only_took_turns_with_pythons_lock_are_not_named(kind: str, ms: float, *, named: bool) -> None:
    quick = works_of(10, steps=800, skew=0.0, usual_ms=(0.05, 0.2, 0.3, 0.01, 0.05, 0.01))
    told = trace(delayed(quick, 1, "forward", lambda _: ms)[0], transfer=MS // 10)
    of_kind = {
        rank: [
            replace(step, collectives=tuple(replace(call, kind=kind) for call in step.collectives)) for step in steps
        ]
        for rank, steps in told.items()
    }
    assert (analyze_waits(of_kind).culprit is not None) == named


def test_a_rank_that_is_twice_as_slow_in_all_it_does_is_named_as_such_from_a_fifth_on() -> None:
    for seed in range(20):
        found = judged(slowed(seed, 2)).culprit
        assert found.rank == 1
        assert found.slower == pytest.approx(2, rel=0.1)
    works = [{0: [MS, 2 * MS, 3 * MS, MS, MS, MS]} for _ in range(60)]
    seen = {
        factor: named([step | {1: [round(factor * part) for part in step[0]]} for step in works]) is not None
        for factor in (1.20, 1.45)
    }
    assert seen == {1.20: False, 1.45: True}  # a sixth of the time, and a third
    assert LATE_IN_ALL_PHASES == 0.20


def test_a_heavier_share_of_the_data_is_named_in_a_phase_that_works_on_it() -> None:
    for seed in range(20):
        works = works_of(seed, skew=0.0)
        heavy = [{0: step[0], 1: [step[1][0], 2 * step[1][1], 2 * step[1][2], *step[1][3:]]} for step in works]
        found = judged(heavy).culprit
        assert found.rank == 1
        assert found.phase in ("forward", "backward")
        lost = sum(sum(step[1]) - sum(step[0]) for step in heavy)
        assert found.excess_s.estimate == pytest.approx(lost / 1e9, rel=0.25)


def test_of_two_late_ranks_the_later_one_is_named_and_neither_passes_for_speed_or_hides_the_other() -> None:
    """Rank 1 is late in data: that says nothing of how fast rank 2 is."""
    works, _ = delayed(works_of(6, ranks=4), 1, "data", lambda _: 10.0)
    works, injected = delayed(works, 2, "forward", lambda _: 25.0)
    found = judged(works).culprit
    assert (found.rank, found.phase) == (2, "forward")
    assert found.excess_s.estimate == pytest.approx(injected, rel=0.03)
    works, _ = delayed(works_of(6, ranks=4), 1, "forward", lambda step: 40.0 if step % 2 else 0.0)
    works, _ = delayed(works, 2, "data", lambda step: 0.0 if step % 2 else 40.0)
    assert named(works) in ((1, "forward"), (2, "data"))


def test_ranks_that_are_late_in_turns_all_of_them_are_nobodys_fault() -> None:
    works = works_of(7, ranks=4)
    for rank in range(4):
        works, _ = delayed(works, rank, "forward", lambda step, rank=rank: 40.0 if step % 4 == rank else 0.0)
    found = judged(works)
    assert (found.culprit, found.verdict) == (None, "skew")


@pytest.mark.parametrize("steps", [7, 8, FEWEST_STEPS - 1, FEWEST_STEPS])
def test_on_thin_evidence_nothing_is_said(steps: int) -> None:
    """Of two ranks, chance alone would make the same one late seven times of seven in 1 case of 64."""
    found = judged(delayed(works_of(8, steps=steps), 1, "forward", lambda _: 25.0)[0])
    assert (found.culprit is not None) == (steps >= 8)
    assert found.findings[0].kind.value == ("late_rank" if steps >= 8 else "uncertain")
    assert found.verdict == ("skew" if steps >= FEWEST_STEPS else "inconclusive")


def test_a_loss_counts_from_a_thirtieth_of_the_time_on() -> None:
    """The step takes 9 ms besides: what makes up 0.03 of it all is 0.28 ms."""
    works = [{rank: [MS, MS // 100, 5 * MS, MS, MS, MS] for rank in (0, 1)} for _ in range(60)]
    seen = {late: named(delayed(works, 1, "forward", lambda _, late=late: late)[0]) for late in (0.1, 0.25, 0.45)}
    assert seen == {0.1: None, 0.25: None, 0.45: (1, "forward")}
    assert LATE_IN_ONE_PHASE == 0.03


def test_without_operations_there_is_nothing_to_judge_and_alone_a_rank_waits_for_nobody() -> None:
    assert analyze_waits({}) is None
    assert analyze_waits(simulate([{0: [("data", [])], 1: [("data", [])]}] * 30)) is None
    alone = judged([{0: step[0]} for step in works_of(9)])
    assert (alone.culprit, alone.wait_share) == (None, 0)
    assert alone.transfer_share > 0


def test_a_phase_that_runs_cold_after_a_delay_does_not_pass_for_speed_either() -> None:
    """A third slower in a phase with little work, for no reason of the core's."""
    works, injected = delayed(works_of(3, skew=0.0), 1, "backward", lambda _: 10.0)
    cold = [{0: step[0], 1: [step[1][0], round(1.33 * step[1][1]), *step[1][2:]]} for step in works]
    found = judged(cold).culprit
    assert found.excess_s.low < injected < found.excess_s.high * 1.001
    assert found.excess_s.estimate == pytest.approx(injected, rel=0.05)


def test_of_three_ranks_who_causes_most_of_what_anybody_causes_is_named_though_most_waiting_is_for_transfers() -> None:
    """A root that is slow before it gathers: the leaves wait for it, and for what passes between others."""
    works, injected = delayed(works_of(5, ranks=3), 0, "backward", lambda _: 6.0)
    found = judged(works, gather_scatter, 4 * MS).culprit
    assert (found.rank, found.phase) == (0, "backward")
    assert found.excess_s.estimate == pytest.approx(injected, rel=0.05)
