"""Where only some steps are known, shares and medians are those of all: with `watch --every N`, of long launches, and
where messages were lost."""

import math
import random
from collections.abc import Sequence
from functools import cache
from statistics import pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ddptui.analysis.results import RepeatResult
from ddptui.analysis.thinning import RankTotals
from ddptui.findings.repeat import outcome_of_messages
from ddptui.store.runs import Run
from ddptui.wire.messages import Slept, Step
from ddptui.wire.phases import BETWEEN
from ddptui.wire.records import Message, shift_times
from tests.recorded.net import RUNS
from tests.support.builders import step

LAUNCHES = {"watched": "plain", "joined": "late"}  # recorded runs, and the trial of each
TIMES = 6  # as long as it was recorded
BLOCK = 16
SIGMAS = 5  # by which parts of the steps may differ from all of them


@cache
def messages_of(run: str) -> list[Message]:
    """A recorded launch, made longer: its steps come again and again. Some hold a delay, and wait for a core."""
    recorded = [*Run(RUNS / run).messages(LAUNCHES[run], 1)]
    steps = [message for message in recorded if isinstance(message, Step) and not message.warmup]
    numbers = {step.step for step in steps}
    took_ns = max(step.end_ns for step in steps) - min(step.begin_ns for step in steps)
    again = [
        replace(
            shift_times(step, at * took_ns),
            step=step.step + at * len(numbers),
            queued_ns=step.step % 10 * 10_000,
            slept=(Slept("forward", step.begin_ns, step.begin_ns + 50_000),) * (step.step % 5 == 0),
        )
        for at in range(TIMES)
        for step in steps
    ]
    place = recorded.index(steps[0])
    return [*recorded[:place], *again, *(message for message in recorded[place:] if not isinstance(message, Step))]


@cache
def numbers_of(run: str) -> list[int]:
    return sorted({step.step for step in messages_of(run) if isinstance(step, Step) and not step.warmup})


def result_of(run: str, kept: Sequence[int]) -> RepeatResult:
    """The result where only these steps are known."""
    chosen = {*kept}
    known = (each for each in messages_of(run) if not isinstance(each, Step) or each.warmup or each.step in chosen)
    return outcome_of_messages(known).result


@cache
def whole(run: str) -> RepeatResult:
    return result_of(run, numbers_of(run))


def sums(result: RepeatResult) -> dict[str, float]:
    """The figures that add up over steps, a step."""
    figures: dict[str, float] = {"samples": (result.samples_per_s or 0.0) * result.train_time_s}
    for rank in result.ranks:
        of_rank = {"wait": rank.wait_s, "exposed": rank.exposed_s, "caused": rank.wait_caused_s, "bytes": rank.bytes}
        of_rank |= rank.work_s | {"queued": rank.queued_s, "collectives": rank.collectives}
        figures |= {f"{name} of {rank.rank}": float(figure or 0) for name, figure in of_rank.items()}
    for delay in result.injected:
        figures |= {f"delays of {delay.rank}": delay.s, f"delays on {delay.rank}": float(delay.fired)}
    return {name: figure / result.steps for name, figure in figures.items()}


@cache
def alone(run: str) -> list[RepeatResult]:
    """The result of each step, as if no other were known."""
    return [result_of(run, [number]) for number in numbers_of(run)]


@cache
def spreads(run: str) -> dict[str, float]:
    """The standard deviation of the sums over the steps."""
    by_step = [sums(result) for result in alone(run)]
    return {name: pstdev(step.get(name, 0.0) for step in by_step) for name in sums(whole(run))}


@st.composite
def parts(draw: st.DrawFn) -> tuple[str, list[int]]:
    """A run, and some of its steps, the first and the last among them. The steps of a training that is watched leave no
    time between them, so any may be missing; others are kept in blocks."""
    run = draw(st.sampled_from(sorted(LAUNCHES)))
    numbers = numbers_of(run)
    chance = random.Random(draw(st.integers(0, 999)))
    if run == "joined":
        blocks = [numbers[at : at + BLOCK] for at in range(0, len(numbers), BLOCK)]
        kept = [number for block in chance.sample(blocks, len(blocks) // 2) for number in block]
    elif draw(st.booleans()):
        kept = numbers[:: draw(st.integers(2, 6))]
    else:
        kept = chance.sample(numbers, len(numbers) // draw(st.integers(2, 4)))
    return run, sorted({numbers[0], *kept, numbers[-1]})


@settings(max_examples=25)
@given(parts())
def test_sums_are_those_of_all_steps(part: tuple[str, list[int]]) -> None:
    run, kept = part
    result, of_all = result_of(run, kept), whole(run)
    assert (result.steps, result.looked_at) == (len(numbers_of(run)), len(kept))
    assert result.train_time_s == of_all.train_time_s
    now = sums(result)
    for name, figure in sums(of_all).items():
        if name.startswith(BETWEEN):  # not known of a step alone, nor of the first one of a block
            continue
        within = SIGMAS * spreads(run)[name] / math.sqrt(len(kept)) + 0.01 * abs(figure)
        assert now.get(name, 0.0) == pytest.approx(figure, abs=within), name


@settings(max_examples=25)
@given(parts())
def test_medians_shares_and_the_late_rank_are_those_of_all_steps(part: tuple[str, list[int]]) -> None:
    run, kept = part
    result, of_all, steps = result_of(run, kept), whole(run), alone(run)
    assert result.wait_share == pytest.approx(of_all.wait_share, abs=0.1)
    assert result.transfer_share == pytest.approx(of_all.transfer_share, abs=0.1)
    assert (result.culprit.rank, result.culprit.phase) == (of_all.culprit.rank, of_all.culprit.phase)
    assert result.what_if_s.without_skew == pytest.approx(of_all.what_if_s.without_skew, rel=0.3)
    reach = round(SIGMAS * len(steps) / 2 / math.sqrt(len(kept)))
    middle = range(max(0, len(steps) // 2 - reach), min(len(steps), len(steps) // 2 + reach))
    for name in ("data", "forward", "backward", "optimizer"):
        lengths = sorted(getattr(step.phases_ms, name) for step in steps)
        assert lengths[middle[0]] <= getattr(result.phases_ms, name) <= lengths[middle[-1]], name


def test_steps_that_were_lost_or_warmed_up_as_ranks_were_started_anew_count_as_none() -> None:
    warm_up, lost = {0, 1, 2, 12, 13, 14}, {10, 11}
    told = [step(0, number, warmup=number in warm_up) for number in range(20) if number not in lost]
    totals = RankTotals(first=told[0], begin_ns=told[0].begin_ns)
    for each in told:
        totals.add(each)
    assert (totals.steps, totals.made, totals.factor) == (12, 12, 1.0)
    rare = RankTotals(first=told[0], begin_ns=told[0].begin_ns)
    for each in told:
        if each.warmup or each.step % 4 == 0:  # not all are reported
            rare.add(each)
    assert (rare.steps, rare.made) == (3, 6)  # 4 to 8, and 16
