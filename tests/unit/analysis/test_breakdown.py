"""A train time as a sum of parts: they add up, and each is what was put in."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ddptui.analysis.breakdown import Breakdown, breakdown, difference, middle
from ddptui.analysis.results import Results
from ddptui.wire.messages import Slept
from ddptui.wire.records import Message
from tests.support.builders import MS, journal, preset_of, results_for
from tests.support.launches import late_launch, launch_of
from tests.support.traces import Shape, all_reduce, bucketed, gather_scatter, reduce_broadcast, trace, works_of
from tests.unit.report.edited import edited

SHAPES = (all_reduce, reduce_broadcast, gather_scatter, bucketed)


def results_of(*journals: list[Message], repeats: int = 1) -> Results:
    names = dict.fromkeys(messages[0].trial for messages in journals)
    preset = preset_of({"repeats": repeats, "trial": [{"name": name} for name in names]})
    return results_for(preset, *journals)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4), st.sampled_from(SHAPES), st.sampled_from((0.0, 2.0, 25.0)))
def test_the_parts_add_up_to_the_train_time(seed: int, ranks: int, shape: Shape, ms: float) -> None:
    late = late_launch("b", ms=ms, seed=seed, rank=0, ranks=ranks, shape=shape, steps=25)
    a, b = results_of(late_launch("a", seed=seed + 1, rank=0, ranks=ranks, steps=25), late).trials
    for trial in (a, b):
        assert breakdown(trial).total == pytest.approx(trial.summary.train_time_s.median, abs=1e-12)
    apart = difference(b, a)
    assert apart.total == pytest.approx(b.repeats[0].train_time_s - a.repeats[0].train_time_s, abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_late_rank_is_waiting_for_it_and_no_work(shape: Shape) -> None:
    a, b = results_of(late_launch("a", seed=3), late_launch("b", seed=3, ms=25.0, shape=shape)).trials
    apart = difference(b, a)
    assert apart.culprit_wait == pytest.approx(40 * 0.025, rel=0.1)
    assert abs(apart.work) < 0.05  # the two shapes call other operations
    assert apart.delay == 0.0
    assert abs(apart.unexplained) < 0.02


def test_a_delay_of_all_ranks_is_no_work_of_theirs() -> None:
    works = works_of(5)
    slow = [{rank: [*parts[:2], parts[2] + 10 * MS, *parts[3:]] for rank, parts in step.items()} for step in works]
    told = trace(slow)
    with_delays = {
        rank: [replace(step, slept=(Slept("backward", step.begin_ns, step.begin_ns + 10 * MS),)) for step in steps]
        for rank, steps in told.items()
    }
    a, b = results_of(launch_of(trace(works), "a"), launch_of(with_delays, "b")).trials
    apart = difference(b, a)
    assert apart.delay == pytest.approx(1.0)
    assert abs(apart.work) < 0.01


def test_a_step_that_cannot_be_compared_is_unexplained() -> None:
    told = trace(works_of(7, steps=30))
    short = replace(told[0][10], collectives=told[0][10].collectives[:-1])
    broken = results_of(launch_of(told | {0: [*told[0][:10], short, *told[0][11:]]})).base
    sound = results_of(launch_of(told)).base
    step_s = (short.end_ns - short.begin_ns) / 1e9
    assert breakdown(sound).unexplained < 0.1 * step_s
    assert breakdown(broken).unexplained == pytest.approx(step_s, rel=0.2)


def test_without_instruments_all_of_it_is_unexplained() -> None:
    bare = edited(results_of(journal()), rank=lambda *_: {"work_s": {}, "exposed_s": None}).base
    assert breakdown(bare) == Breakdown(unexplained=bare.repeats[0].train_time_s)


def test_where_clocks_hide_the_waits_idle_time_is_neither() -> None:
    unknown = edited(results_of(late_launch(ms=5.0)), rank=lambda *_: {"wait_s": None}).base
    parts = breakdown(unknown)
    assert parts.hidden > 0
    assert parts.wait == parts.transfer == 0.0
    assert parts.total == pytest.approx(unknown.repeats[0].train_time_s)


@pytest.mark.parametrize(("step_ms", "wanted"), [((30, 10, 20), [20]), ((40, 10, 20, 30), [20, 30]), ((7,), [7])])
def test_the_repeats_in_the_middle(step_ms: tuple[float, ...], wanted: list[float]) -> None:
    journals = [journal("a", number, step_ms=ms) for number, ms in enumerate(step_ms, start=1)]
    repeats = results_of(*journals, repeats=len(step_ms)).base.repeats
    assert [repeat.train_time_s * 1000 / 3 for repeat in middle(repeats)] == pytest.approx(wanted)
