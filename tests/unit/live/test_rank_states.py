"""What each rank is doing, in words."""

import msgspec
import pytest

from ddptui.live.fold import fold
from ddptui.live.monitor import RunMonitor
from ddptui.live.rank_states import RECENT_STEPS, STALLED_S, phases_ms, states, wait_ms
from ddptui.live.state import Live
from ddptui.wire.records import Message
from tests.support.builders import MS, done, ended, failed, heartbeat, hello, launched, ready, step, trained
from tests.support.traces import delayed, trace, works_of

LAST_STEP_MS = 10_000
STEPS = 1_000


def begun(ranks: int = 2) -> list[Message]:
    here: list[Message] = [hello(rank, world_size=ranks) for rank in range(ranks)]
    return [launched(), *here, *(ready(rank, steps=STEPS) for rank in range(ranks))]


def stepping(rank: int, *, every_ms: float = 10, until_ms: float = LAST_STEP_MS, first: int = 0) -> list[Message]:
    """Ten steps of which the last is over at `until_ms`."""
    ends = [until_ms - (9 - number) * every_ms for number in range(10)]
    return [step(rank, first + number, begin_ms=end - every_ms, end_ms=end) for number, end in enumerate(ends)]


def beat(rank: int, at_ms: float) -> Message:
    return msgspec.structs.replace(heartbeat(rank), at_ns=round(at_ms * MS))


def said(messages: list[Message], after_s: float = 0.0) -> dict[int, str]:
    """So long after the last steps, of which no waiting is known."""
    return states(fold(Live(), messages), {}, round((LAST_STEP_MS + after_s * 1000) * MS))


def test_nobody_is_there_yet() -> None:
    assert said([]) == said([launched()]) == {}


def test_a_rank_starts_until_it_has_its_model_and_its_data() -> None:
    assert said([launched(), hello(0)], after_s=60) == {0: "starting"}
    assert said([launched(), hello(0), hello(1), ready(0)]) == {0: "running", 1: "starting"}


def test_ranks_run() -> None:
    assert said([*begun(), *stepping(0), *stepping(1)]) == {0: "running", 1: "running"}


def test_after_its_last_step_it_evaluates_until_it_is_done() -> None:
    last = [*stepping(0, first=STEPS - 10), *stepping(1, first=STEPS - 10)]
    assert said([*begun(), *last], after_s=60) == {0: "evaluating", 1: "evaluating"}
    assert said([*begun(), *last, done(0)]) == {0: "done", 1: "evaluating"}


def test_a_rank_that_failed_has_failed_and_the_others_were_stopped() -> None:
    both = [*begun(), *stepping(0), *stepping(1), failed(1)]
    assert said(both) == {0: "running", 1: "failed"}
    assert said([*both, ended("failed", "why")]) == {0: "stopped", 1: "failed"}


@pytest.mark.parametrize("status", ["interrupted", "skipped", "failed"])
def test_when_a_launch_ends_early_nobody_runs_or_starts(status: str) -> None:
    assert said([*begun(), *stepping(0), ended(status)], after_s=60) == {0: "stopped", 1: "stopped"}


def test_when_a_launch_has_ended_well_all_are_done() -> None:
    told = [*begun(), *stepping(0), *stepping(1), done(0), done(1)]
    assert said(told, after_s=60) == said([*told, ended()], after_s=60) == {0: "done", 1: "done"}


def test_a_rank_that_was_not_heard_of_stands_still_and_the_others_wait_for_it() -> None:
    messages = [*begun(), *stepping(0), *stepping(1), beat(0, LAST_STEP_MS), beat(1, LAST_STEP_MS)]
    messages.append(beat(0, LAST_STEP_MS + 4_000))
    assert said(messages, after_s=2.9) == {0: "running", 1: "running"}
    assert said(messages, after_s=5) == {0: "waiting for rank 1 (5 s)", 1: "stalled (5 s)"}


def test_silence_counts_from_the_last_word_whichever_it_was() -> None:
    beaten = [*begun(1), *stepping(0), beat(0, LAST_STEP_MS - 20_000)]
    assert said(beaten, after_s=2) == {0: "running"}
    assert said([*beaten, beat(0, LAST_STEP_MS + 1_000)], after_s=5) == {0: "stalled (4 s)"}


def test_ranks_that_are_heard_of_and_make_no_step_stand_still() -> None:
    messages = [*begun(), *stepping(0), *stepping(1), beat(0, LAST_STEP_MS + 7_500), beat(1, LAST_STEP_MS + 7_500)]
    assert said(messages, after_s=8) == {0: "stalled (8 s)", 1: "stalled (8 s)"}


def test_a_step_that_takes_longer_than_many_usual_ones_is_too_long_and_no_other() -> None:
    messages = [*begun(1), *stepping(0, every_ms=1_000), beat(0, LAST_STEP_MS + 11_000)]
    assert said(messages, after_s=9.5) == {0: "running"}
    assert said(messages, after_s=11) == {0: "stalled (11 s)"}


def test_short_steps_may_take_some_seconds_for_once() -> None:
    messages = [*begun(1), *stepping(0, every_ms=1), beat(0, LAST_STEP_MS + 4_000)]
    assert said(messages, after_s=STALLED_S - 0.1) == {0: "running"}
    assert said(messages, after_s=STALLED_S + 0.4) == {0: "stalled (3 s)"}


def test_after_one_step_the_usual_one_is_not_known() -> None:
    messages = [*begun(1), step(0, 0, end_ms=LAST_STEP_MS), beat(0, LAST_STEP_MS + 4_000)]
    assert said(messages, after_s=2) == {0: "running"}
    assert said(messages, after_s=4) == {0: "stalled (4 s)"}


def test_a_rank_that_never_beats_is_not_silent() -> None:
    """It has no instruments, or has not run for a second yet: only its steps tell."""
    messages = [*begun(), *stepping(0, every_ms=1_000), *stepping(1, every_ms=1_000)]
    assert said(messages, after_s=5) == {0: "running", 1: "running"}
    assert said([*messages, beat(1, 0)], after_s=5) == {0: "running", 1: "stalled (5 s)"}


def test_nobody_waits_for_a_rank_that_is_over() -> None:
    going = [*begun(), *stepping(0), *stepping(1), beat(0, LAST_STEP_MS + 4_500), beat(1, LAST_STEP_MS)]
    for last in (failed(1), done(1)):
        assert said([*going, last], after_s=5)[0] == "stalled (5 s)"


def test_without_instruments_a_rank_tells_of_no_step_and_then_is_done() -> None:
    assert said([*begun(), trained(0), done(0)], after_s=60)[0] == "done"


def test_many_may_wait_for_one() -> None:
    ranks = 12
    messages = [*begun(ranks), *(each for rank in range(ranks) for each in stepping(rank))]
    messages += [beat(rank, LAST_STEP_MS + (0 if rank == 7 else 5_000)) for rank in range(ranks)]
    waiting = dict.fromkeys(range(ranks), "waiting for rank 7 (5 s)")
    assert said(messages, after_s=5) == waiting | {7: "stalled (5 s)"}


# What is known of their waiting


def watched(delay_ms: float, ranks: int = 2) -> RunMonitor:
    """Rank 1 is late in forward; rank 0 has come to its 50 steps' end."""
    works, _ = delayed(works_of(1, ranks=ranks, steps=50, skew=0.0), 1, "forward", lambda _: delay_ms)
    told = trace(works)
    monitor = RunMonitor()
    monitor.add([*begun(ranks), *(each for own in told.values() for each in own)])
    monitor.look(0)
    return monitor


def said_of(monitor: RunMonitor) -> dict[int, str]:
    now_ns = max(rank.ends[-1].at_ns for rank in monitor.live.ranks.values())
    assert monitor.judgement is not None
    return states(monitor.live, monitor.judgement.waits_for, now_ns)


def test_who_waits_is_told_for_whom() -> None:
    assert said_of(watched(25.0)) == {0: "waiting for rank 1", 1: "running"}
    assert said_of(watched(25.0, ranks=4)) == dict.fromkeys((0, 2, 3), "waiting for rank 1") | {1: "running"}


def test_a_little_waiting_is_not_worth_a_word() -> None:
    monitor = watched(0.0)
    assert wait_ms(monitor.judged, 0) is not None
    assert said_of(monitor) == {0: "running", 1: "running"}


def test_it_is_the_rank_that_was_waited_for_most() -> None:
    works, _ = delayed(works_of(1, ranks=3, steps=30, skew=0.0), 1, "forward", lambda step: 10.0 if step % 3 else 0.0)
    works, _ = delayed(works, 2, "forward", lambda step: 0.0 if step % 3 else 10.0)
    monitor = RunMonitor()
    monitor.add([*begun(3), *(each for own in trace(works).values() for each in own)])
    monitor.look(0)
    assert monitor.judgement is not None
    assert monitor.judgement.waits_for[0] == 1


def test_the_wait_of_a_step_is_the_median() -> None:
    monitor = watched(25.0)
    waited = [wait_ms(monitor.judged, rank) for rank in (0, 1)]
    assert waited[0] == pytest.approx(25, abs=2)
    assert waited[1] is not None
    assert waited[1] < 1


def test_of_a_rank_without_steps_in_common_nothing_is_known() -> None:
    assert (wait_ms([], 0), wait_ms(watched(25.0).judged, 9)) == (None, None)


def test_phases_are_medians_of_the_last_steps() -> None:
    live = fold(Live(), begun(1))
    assert phases_ms(live.ranks[0], []) is None
    fold(live, [step(0, 0, warmup=True)])
    assert phases_ms(live.ranks[0], []) is None
    slow = [step(0, number, phases_ms=(9, 9, 9, 9, 9)) for number in range(30)]
    fold(live, [*slow, *(step(0, 30 + number) for number in range(RECENT_STEPS))])
    assert phases_ms(live.ranks[0], []) == [1, 2, 3, 4, 5]
    fold(live, [step(0, 60, phases_ms=(500, 500, 500, 500, 500))])
    assert phases_ms(live.ranks[0], []) == [1, 2, 3, 4, 5]
