"""Waits between hosts: given with how far off they may be, withheld where that is more than they are; and nowhere
compared by different clocks."""

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from ddptui.analysis.culprit import WaitUncertainty
from ddptui.analysis.policy import Caution
from ddptui.findings.verdict import is_within_clock_error
from ddptui.live import headline
from ddptui.live.fold import fold
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import Live
from ddptui.live.timeline import summary
from ddptui.report import table
from ddptui.report.exports import trace as as_trace
from ddptui.run.playback import Recording
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended, Injection, Launched, Message, Offset, shift_times
from tests.support.builders import (
    MS,
    by_its_clock,
    done,
    ended,
    heartbeat,
    hello,
    launched,
    load,
    offset,
    preset_of,
    ready,
    result_of,
    results_for,
    tied,
    two_trials,
    write_run,
)
from tests.support.launches import told_by
from tests.support.traces import delayed, trace, works_of

AHEAD_MS = 1_000_000  # rank 1's clock, of the console's


def heard(error_ms: float | None, *, late_ms: float = 3.0, by_ms: float = AHEAD_MS, ranks: int = 2) -> list[Message]:
    """A launch of a hundred steps, in which rank 1 is late in forward; and told by a clock of its own, which probes
    have compared so well. None: not at all."""
    told = list(trained(late_ms, ranks))
    last_ms = max(step.end_ns for step in told if isinstance(step, Step)) / MS
    of_far = [
        *(hello(rank, world_size=ranks, at_ns=900 * MS) for rank in range(ranks)),
        *map(ready, range(ranks)),
        *told,
    ]
    by_clock = [by_its_clock(message, by_ms) for message in of_far]
    probed_ms = [] if error_ms is None else range(900, int(last_ms) + 1000, 500)
    probes = [offset(1, at_ms, by_ms, error_ms) for at_ms in probed_ms]
    begin = msgspec.structs.replace(launched(at_ms=800), clock="near")
    end = msgspec.structs.replace(ended(), at_ns=9 * 10**9)
    return [begin, *by_clock[:ranks], *probes, *by_clock[ranks:], *map(done, range(ranks)), end]


@cache
def trained(late_ms: float, ranks: int) -> tuple[Message, ...]:
    works, _ = delayed(works_of(1, ranks=ranks, skew=0.0), 1, "forward", lambda _: late_ms)
    return tuple(own for step in zip(*trace(works).values(), strict=True) for own in step)


def of_one_clock(**options: float) -> list[Message]:
    """The same launch on one host."""
    told = [each for each in heard(0.0, by_ms=0, **options) if not isinstance(each, Offset)]  # type: ignore[arg-type]
    return [msgspec.structs.replace(each, clock="near") if hasattr(each, "clock") else each for each in told]


def test_with_clocks_that_agree_well_the_figures_are_those_of_one_host() -> None:
    one, two = result_of(of_one_clock()), result_of(heard(0.05))
    assert (one.clock_error_ms, one.wait_error_ms) == (None, None)
    assert two.clock_error_ms == pytest.approx(0.05, abs=0.05)
    assert two.wait_ms == pytest.approx(one.wait_ms, abs=two.wait_error_ms)
    assert two.startup_s == pytest.approx(one.startup_s, abs=0.001)
    assert two.train_time_s == pytest.approx(one.train_time_s, rel=0.001)
    assert (two.verdict, two.mismatches) == (one.verdict, [])
    assert (two.culprit.rank, two.culprit.phase) == (one.culprit.rank, one.culprit.phase) == (1, "forward")


@pytest.mark.parametrize("error_ms", [4.0, None], ids=["too far apart", "never compared"])
def test_what_the_clocks_cannot_tell_is_withheld(error_ms: float | None) -> None:
    found = result_of(heard(error_ms))
    for figure in ("wait_ms", "transfer_ms", "wait_share", "transfer_share", "culprit", "what_if_s"):
        assert getattr(found, figure) is None, figure
    assert found.verdict == "inconclusive"
    for rank in found.ranks:
        assert (rank.wait_s, rank.transfer_s, rank.wait_caused_s, rank.last_arrivals) == (None,) * 4
        assert rank.waited_for_s == {}
    why = Caution.CLOCKS_UNKNOWN if error_ms is None else Caution.CLOCKS_APART
    assert why in found.warnings
    assert found.train_time_s == pytest.approx(result_of(of_one_clock()).train_time_s, rel=0.001)
    assert found.phases_ms is not None


def test_an_error_that_is_just_smaller_than_the_waits_withholds_only_those_of_the_rank_that_hardly_waited() -> None:
    found = result_of(heard(1.0))
    assert found.wait_share is not None
    assert not {Caution.CLOCKS_APART, Caution.CLOCKS_UNKNOWN} & set(found.warnings)
    assert [rank.wait_s is None for rank in result_of(heard(0.3)).ranks] == [False, True]


@pytest.mark.parametrize(("error_ms", "hardly"), [(2.9, False), (3.1, True)])
def test_a_culprit_that_was_later_by_less_than_the_clocks_may_be_apart_is_not_named(
    error_ms: float, hardly: bool
) -> None:
    """It lost three milliseconds a step; its own waiting has nothing to do with it."""
    doubted = WaitUncertainty(error_ms * MS, {0: [error_ms * MS] * 100, 1: [9.0 * MS] * 100})
    assert is_within_clock_error(3.0 * MS, 1, doubted) == hardly


def test_a_delay_put_in_by_hand_is_placed_by_the_consoles_clock() -> None:
    messages = heard(0.05)
    steps = [message for message in messages if isinstance(message, Step)]
    at_ns = next(step.begin_ns for step in steps if (step.rank, step.step) == (0, 50)) - 100
    place = messages.index(steps[100])
    found = result_of([*messages[:place], Injection(at_ns=at_ns, bottleneck=()), *messages[place:]])
    [change] = found.changes
    assert change.step == 50


def test_the_table_says_how_far_off_waits_may_be_and_why_some_are_withheld() -> None:
    preset = preset_of({"trial": [{"name": "a"}]})
    given = table.text(results_for(preset, heard(0.05)), preset, 200)
    assert " ±0." in given
    assert "wait ms ±: the error of the ranks' clocks; transfer ms has the same error" in given
    withheld = table.text(results_for(preset, heard(4.0)), preset, 200)
    assert "±0." not in withheld.split("\n\n")[1]
    assert "a: the clock error (±4" in withheld
    assert "caution, a: the clock error exceeds the measured waits" in withheld
    assert "±" not in table.text(results_for(preset, of_one_clock()), preset, 200)


def watched(messages: list[Message]) -> RunMonitor:
    monitor = RunMonitor()
    monitor.add(each for each in messages if not isinstance(each, Ended) and each.__class__.__name__ != "Done")
    monitor.look(10**10)
    return monitor


def said(monitor: RunMonitor) -> str:
    return headline.headline_text(monitor, {}, preset_of({"trial": [{"name": "a"}]}), 10**10)


def test_live_the_same_culprit_is_named_and_how_well_the_clocks_agree() -> None:
    monitor = watched(heard(0.05))
    assert monitor.culprit == 1
    assert "; clock error ±" in said(monitor)
    assert "clocks" not in said(watched(of_one_clock()))


def test_live_nobody_is_named_and_nobody_late_if_the_clocks_are_too_far_apart() -> None:
    monitor = watched(heard(4.0))
    assert monitor.culprit is None
    assert (monitor.judgement.waits_for, monitor.judgement.doubted) == ({}, None)
    assert said(monitor).endswith("exceeds the measured waits, so they are hidden")
    found, sure = summary(monitor.judged), summary(watched(of_one_clock()).judged)
    assert (found.withheld, sure.withheld) == (True, False)


def test_live_nothing_is_compared_before_the_clocks_are_and_all_of_it_then() -> None:
    monitor = watched(heard(None))
    assert list(monitor.joined) == []
    assert said(monitor) == headline.CLOCKS_UNKNOWN
    monitor.add([offset(1, 1_000, AHEAD_MS, 0.05)])
    monitor.look(2 * 10**10)
    assert monitor.joined
    assert monitor.mismatch is None


def test_live_a_rank_is_heard_by_the_consoles_clock() -> None:
    beat = msgspec.structs.replace(heartbeat(1), at_ns=(2_900 + AHEAD_MS) * MS)
    far = hello(1, clock="far", at_ns=(2_000 + AHEAD_MS) * MS)
    live = fold(Live(), [launched(), far, offset(1, 2_000, AHEAD_MS), beat])
    assert live.ranks[1].heard_ns == pytest.approx(2_900 * MS, abs=0.2 * MS)
    unknown = fold(Live(), [launched(), load(at_ms=2_000), far, beat])
    assert unknown.ranks[1].heard_ns == 2_900 * MS  # the console had spoken when it came


def on_gpus(error_ms: float, **options: float) -> list[Message]:
    """The same launch on one host, with a GPU a rank; how exact their times are, both have said before the first
    step."""
    messages = of_one_clock(**options)
    first = next(place for place, message in enumerate(messages) if isinstance(message, Step))
    at_ms = messages[first].begin_ns / MS  # type: ignore[union-attr]
    return [*messages[:first], *(tied(rank, at_ms, error_ms) for rank in (0, 1)), *messages[first:]]


def test_of_gpus_that_are_tied_well_the_waits_are_given_with_the_sum_of_their_errors() -> None:
    one, gpus = result_of(of_one_clock()), result_of(on_gpus(0.03))
    assert gpus.clock_error_ms == pytest.approx(0.06)
    assert gpus.wait_error_ms > 0
    assert (gpus.wait_ms, gpus.verdict, gpus.warnings) == (one.wait_ms, one.verdict, one.warnings)
    assert gpus.culprit == one.culprit is not None


@pytest.mark.parametrize(("error_ms", "withheld", "culprit"), [(0.03, False, 1), (2.0, True, None)])
def test_live_and_told_again_ties_are_judged_as_in_the_result(
    error_ms: float, withheld: bool, culprit: int | None, tmp_path: Path
) -> None:
    messages = on_gpus(error_ms)
    result = result_of(messages)
    assert (Caution.CLOCKS_APART in result.warnings) == (result.wait_ms is None) == withheld
    assert result.train_time_s == result_of(of_one_clock()).train_time_s
    for told in (messages, [message for _, message in told_again(tmp_path, messages)]):
        monitor = watched(told)
        assert monitor.judgement.analysis.withheld == withheld
        assert monitor.culprit == culprit
        assert result_of(told).culprit == result.culprit
        assert monitor.apart.largest_ns((0, 1)) == pytest.approx(2 * error_ms * MS)


def told_again(runs: Path, *journals: list[Message]) -> list[tuple[int, Message]]:
    preset = two_trials()
    return told_by(Recording(write_run(runs, preset, *journals), preset))


def test_a_replay_tells_all_ranks_by_one_clock_and_leaves_the_messages_as_they_are(tmp_path: Path) -> None:
    messages = heard(0.05)
    told = told_again(tmp_path, messages)
    assert sorted(map(repr, messages)) == sorted(repr(message) for _, message in told)
    moments = [moment for moment, _ in told]
    assert moments == sorted(moments)
    assert moments[-1] < 60_000 * MS
    numbers = [message.step for _, message in told if isinstance(message, Step)]
    assert all(abs(one - other) <= 1 for one, other in pairwise(numbers))


def test_a_trace_has_all_ranks_on_one_axis() -> None:
    for error_ms, arrows in ((0.05, True), (None, False)):
        events = json.loads("".join(as_trace({("a", 1): heard(error_ms)})))["traceEvents"]
        assert max(event.get("ts", 0) for event in events) < 60e6
        assert any(event["name"] == "waits for" for event in events) == arrows
        assert any("clocks not compared" in str(event.get("args")) for event in events) != arrows


def test_two_launches_are_told_with_the_time_between_them_by_the_consoles_clock(tmp_path: Path) -> None:
    first = heard(0.05)
    begin, *others = [shift_times(message, 20_000 * MS) for message in first]
    again = [msgspec.structs.replace(begin, repeat=2), *others]
    begun = [moment for moment, message in told_again(tmp_path, first, again) if isinstance(message, Launched)]
    assert begun == [800 * MS, 20_800 * MS]
