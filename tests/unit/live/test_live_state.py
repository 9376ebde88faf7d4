"""The state of a run right now, a fold of its messages; and what each rank is doing, in words."""

import msgspec
import pytest

from ddptui.live.fold import RATE_OVER, fold
from ddptui.live.headline import RECENT_STEPS, STALLED_S, phases_ms, rank_states, wait_ms
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import Live
from ddptui.wire.messages import Collective, Gpu
from ddptui.wire.records import Message
from tests.support.builders import (
    MS,
    done,
    ended,
    failed,
    failure,
    heartbeat,
    hello,
    journal,
    launched,
    load,
    pause,
    ready,
    step,
    trained,
)
from tests.support.traces import Told, delayed, trace, works_of


def live_of(*messages: Message) -> Live:
    """Of a launch of ranks 0 and 1."""
    return fold(Live(), [launched(), hello(0), hello(1), *messages])


def test_a_launch_is_running_until_it_has_ended() -> None:
    live = Live()
    assert (live.status, live.trial, live.finished, live.ranks) == ("idle", None, 0, {})
    assert (live.step, live.steps, live.loss) == (0, None, None)
    fold(live, [launched("a", 2)])
    assert (live.status, live.trial, live.repeat, live.finished) == ("running", "a", 2, 0)
    fold(live, [ended()])
    assert (live.status, live.trial, live.error, live.finished) == ("ok", "a", None, 1)
    fold(live, [*failure("a", error="why")])
    assert (live.status, live.error, live.finished) == ("failed", "why", 2)
    fold(live, [launched("b")])  # which forgets the ranks and the error of the last
    assert (live.status, live.trial, live.error, live.ranks, live.finished) == ("running", "b", None, {}, 2)


def test_a_rank_starts_runs_and_is_done_or_fails() -> None:
    live = fold(Live(), [launched(), hello(0, device="cuda:0"), hello(1)])
    rank, other = live.ranks.values()
    assert (rank.state, rank.device, rank.step, rank.steps) == ("starting", "cuda:0", 0, None)
    fold(live, [ready(0, steps=4)])
    assert (rank.state, rank.steps) == ("running", 4)
    fold(live, [step(0, 0, samples=5, loss=2.0)])
    assert (rank.state, rank.step, rank.samples, rank.loss) == ("running", 1, 5, 2.0)
    fold(live, [done(0), failed(1, "ValueError: no")])
    assert (rank.state, other.state) == ("done", "failed")


def test_a_heartbeat_tells_of_load_and_of_the_gpu_until_the_next() -> None:
    gpu = Gpu(busy_percent=97.0, used_bytes=3, total_bytes=9, watts=250.5, celsius=70)
    live = live_of(heartbeat(0, cpu_percent=12.5, gpu_bytes=2, gpu_reserved_bytes=4, gpu=gpu))
    rank = live.ranks[0]
    assert (rank.state, rank.cpu_percent, rank.rss_bytes) == ("starting", 12.5, 5_000)
    assert (rank.gpu, rank.gpu_bytes, rank.gpu_reserved_bytes) == (gpu, 2, 4)
    assert live.ranks[1].gpu == Gpu()
    fold(live, [heartbeat(0)])
    assert (rank.gpu, rank.gpu_bytes, rank.gpu_reserved_bytes) == (Gpu(), None, None)


def test_the_step_is_that_of_the_slowest_rank_and_the_loss_a_mean_by_sample() -> None:
    live = live_of(ready(0), ready(1), step(0, 0), step(0, 1, samples=6), step(1, 0, samples=2, loss=3.0))
    assert (live.step, live.steps) == (1, 4)
    assert live.loss == pytest.approx(1.5)  # (6 × 1 + 2 × 3) / 8
    assert live_of(step(0, samples=6), step(1, samples=0, loss=None)).loss == pytest.approx(1.0)


def test_the_rate_comes_from_the_ends_of_the_last_steps() -> None:
    live = live_of(step(0, 0, end_ms=1_000), step(1, 0, end_ms=1_000))
    assert [rank.samples_per_s for rank in live.ranks.values()] == [None, None]  # one end makes no rate
    fold(live, [step(0, 1, end_ms=1_500, samples=8), step(1, 1, end_ms=1_250, samples=4)])
    assert [rank.steps_per_s for rank in live.ranks.values()] == pytest.approx([2, 4])
    assert [rank.samples_per_s for rank in live.ranks.values()] == pytest.approx([2 * 8, 4 * 4])
    fold(live, [step(0, 5 + number, end_ms=10_000 + 10 * number) for number in range(RATE_OVER)])
    assert len(live.ranks[0].ends) == RATE_OVER
    assert live.ranks[0].steps_per_s == pytest.approx(100)


def test_each_step_has_its_own_samples_and_those_between_reports_count() -> None:
    """The last batch of an epoch may be smaller; `watch --every 5` has one step in five reported."""
    ends = [step(0, 5 * number, end_ms=1_000 * number, samples=samples) for number, samples in enumerate((8, 8, 2))]
    live = fold(Live(), [launched(), hello(0), *ends])
    assert live.ranks[0].steps_per_s == pytest.approx(1)  # that it reports
    assert live.ranks[0].samples_per_s == pytest.approx(5 * (8 + 2) / 2)


def test_samples_that_nobody_counts_make_no_rate() -> None:
    live = live_of(*(step(0, number, end_ms=1_000 * number, samples=0) for number in range(3)))
    assert live.ranks[0].samples_per_s is None


def test_without_instruments_a_rank_is_through_at_once() -> None:
    live = live_of(ready(0, flops=3e9), trained(0, loss=0.5))
    assert (live.ranks[0].step, live.ranks[0].loss, live.loss) == (4, 0.5, 0.5)
    assert [live.ranks[rank].flops for rank in (0, 1)] == [3e9, None]


TWO_LAUNCHES: list[Message] = [*journal("a"), *failure("b"), *journal("a", 2, ranks=3), launched("c"), hello(0)]


@pytest.mark.parametrize("cut", range(0, len(TWO_LAUNCHES) + 1, 5))
def test_folding_in_pieces_is_folding_at_once(cut: int) -> None:
    in_pieces = fold(fold(Live(), TWO_LAUNCHES[:cut]), TWO_LAUNCHES[cut:])
    one_by_one = Live()
    for message in TWO_LAUNCHES:
        fold(one_by_one, [message])
    assert in_pieces == one_by_one == fold(Live(), TWO_LAUNCHES)


def test_pauses_and_load_are_kept_until_the_next_launch() -> None:
    live = live_of(pause(0), load(1.5, 1.0))
    assert (list(live.pauses), live.load) == ([pause(0)], load(1.5, 1.0))
    fold(live, [launched("b")])
    assert (list(live.pauses), live.load) == ([], None)


@pytest.mark.parametrize(("collectives", "kept"), [(0, 200), (1, 200), (99, 50), (2_000, 25)])
def test_few_steps_are_kept_where_they_have_many_collectives(collectives: int, kept: int) -> None:
    told = tuple(Collective("all_reduce", number, 8, 1, 2, 2, 3) for number in range(collectives))
    live = live_of(*(msgspec.structs.replace(step(0, number), collectives=told) for number in range(300)))
    assert [each.step for each in live.ranks[0].recent] == list(range(300 - kept, 300))


# Ranks, in words


LAST_STEP_MS = 10_000
STEPS = 1_000


def begun(ranks: int = 2) -> list[Message]:
    here: list[Message] = [hello(rank, world_size=ranks) for rank in range(ranks)]
    return [launched(), *here, *(ready(rank, steps=STEPS) for rank in range(ranks))]


def stepping(rank: int, *, every_ms: float = 10, until_ms: float = LAST_STEP_MS, first: int = 0) -> list[Message]:
    """Ten steps of which the last is over at `until_ms`."""
    ends = [until_ms - (9 - number) * every_ms for number in range(10)]
    return [step(rank, first + number, begin_ms=end - every_ms, end_ms=end) for number, end in enumerate(ends)]


def beat(rank: int, after_ms: float) -> Message:
    """So long after the last steps."""
    return heartbeat(rank, at_ns=round((LAST_STEP_MS + after_ms) * MS))


def said(messages: list[Message], after_s: float = 0.0) -> dict[int, str]:
    """So long after the last steps, of which no waiting is known."""
    return rank_states(fold(Live(), messages), {}, round((LAST_STEP_MS + after_s * 1000) * MS))


BOTH = [*begun(), *stepping(0), *stepping(1)]
ALL_STEPS = [*begun(), *stepping(0, first=STEPS - 10), *stepping(1, first=STEPS - 10)]
BOTH_RUN = {0: "running", 1: "running"}


@pytest.mark.parametrize(
    ("messages", "after_s", "found"),
    [
        ([], 0, {}),
        ([launched()], 0, {}),
        ([launched(), hello(0)], 60, {0: "starting"}),
        ([launched(), hello(0), hello(1), ready(0)], 0, {0: "running", 1: "starting"}),
        (BOTH, 0, BOTH_RUN),
        (ALL_STEPS, 60, {0: "evaluating", 1: "evaluating"}),
        ([*ALL_STEPS, done(0)], 60, {0: "done", 1: "evaluating"}),
        ([*BOTH, failed(1)], 0, {0: "running", 1: "failed"}),
        ([*BOTH, failed(1), ended("failed", "why")], 0, {0: "stopped", 1: "failed"}),
        *(
            ([*begun(), *stepping(0), ended(status)], 60, {0: "stopped", 1: "stopped"})
            for status in ("failed", "skipped")
        ),
        ([*BOTH, done(0), done(1)], 60, {0: "done", 1: "done"}),
        ([*BOTH, done(0), done(1), ended()], 60, {0: "done", 1: "done"}),
        ([*begun(1), trained(0), done(0)], 60, {0: "done"}),  # without instruments
    ],
)
def test_what_a_rank_does_is_what_it_said_last(messages: list[Message], after_s: float, found: dict[int, str]) -> None:
    assert said(messages, after_s) == found


def test_a_rank_that_was_not_heard_of_stands_still_and_the_others_wait_for_it() -> None:
    messages = [*BOTH, beat(0, 0), beat(1, 0), beat(0, 4_000)]
    assert said(messages, after_s=2.9) == BOTH_RUN
    assert said(messages, after_s=5) == {0: "waiting for rank 1 (5 s)", 1: "stalled (5 s)"}
    ranks = 12
    many = [*begun(ranks), *(each for rank in range(ranks) for each in stepping(rank))]
    many += [beat(rank, 0 if rank == 7 else 5_000) for rank in range(ranks)]
    waiting = dict.fromkeys(range(ranks), "waiting for rank 7 (5 s)")
    assert said(many, after_s=5) == waiting | {7: "stalled (5 s)"}


def test_silence_counts_from_the_last_word_whichever_it_was() -> None:
    beaten = [*begun(1), *stepping(0), beat(0, -20_000)]
    assert said(beaten, after_s=2) == {0: "running"}
    assert said([*beaten, beat(0, 1_000)], after_s=5) == {0: "stalled (4 s)"}


def test_ranks_that_are_heard_of_and_make_no_step_stand_still() -> None:
    assert said([*BOTH, beat(0, 7_500), beat(1, 7_500)], after_s=8) == {0: "stalled (8 s)", 1: "stalled (8 s)"}


@pytest.mark.parametrize(
    ("steps", "heard_ms", "runs_s", "stalled_s"),
    [
        (stepping(0, every_ms=1_000), 11_000, 9.5, 11),  # many usual ones
        (stepping(0, every_ms=1), 4_000, STALLED_S - 0.1, STALLED_S + 0.4),  # short ones may take some seconds for once
        ([step(0, 0, end_ms=LAST_STEP_MS)], 4_000, 2, 4),  # the usual one is not known
    ],
)
def test_a_step_that_takes_longer_than_many_usual_ones_is_too_long_and_no_other(
    steps: list[Message], heard_ms: float, runs_s: float, stalled_s: float
) -> None:
    messages = [*begun(1), *steps, beat(0, heard_ms)]
    assert said(messages, after_s=runs_s) == {0: "running"}
    assert said(messages, after_s=stalled_s) == {0: f"stalled ({int(stalled_s)} s)"}


def test_a_rank_that_never_beats_is_not_silent() -> None:
    """It has no instruments, or has not run for a second yet: only its steps tell."""
    messages = [*begun(), *stepping(0, every_ms=1_000), *stepping(1, every_ms=1_000)]
    assert said(messages, after_s=5) == BOTH_RUN
    assert said([*messages, beat(1, -LAST_STEP_MS)], after_s=5) == {0: "running", 1: "stalled (5 s)"}


def test_nobody_waits_for_a_rank_that_is_over() -> None:
    for last in (failed(1), done(1)):
        assert said([*BOTH, beat(0, 4_500), beat(1, 0), last], after_s=5)[0] == "stalled (5 s)"


# What is known of their waiting


def watched(told: Told) -> RunMonitor:
    monitor = RunMonitor()
    monitor.add([*begun(len(told)), *(each for own in told.values() for each in own)])
    monitor.look(0)
    return monitor


def late_monitor(delay_ms: float, ranks: int = 2) -> RunMonitor:
    """Rank 1 is late_monitor in forward; rank 0 has come to its 50 steps' end."""
    works, _ = delayed(works_of(1, ranks=ranks, steps=50, skew=0.0), 1, "forward", lambda _: delay_ms)
    return watched(trace(works))


def said_of(monitor: RunMonitor) -> dict[int, str]:
    now_ns = max(rank.ends[-1].at_ns for rank in monitor.live.ranks.values())
    assert monitor.judgement is not None
    return rank_states(monitor.live, monitor.judgement.waits_for, now_ns)


def test_who_waits_is_told_for_whom_but_not_of_a_little_waiting() -> None:
    assert said_of(late_monitor(25.0)) == {0: "waiting for rank 1", 1: "running"}
    assert said_of(late_monitor(25.0, ranks=4)) == dict.fromkeys((0, 2, 3), "waiting for rank 1") | {1: "running"}
    assert wait_ms(late_monitor(0.0).judged, 0) is not None
    assert said_of(late_monitor(0.0)) == BOTH_RUN


def test_it_is_the_rank_that_was_waited_for_most() -> None:
    works, _ = delayed(works_of(1, ranks=3, steps=30, skew=0.0), 1, "forward", lambda step: 10.0 if step % 3 else 0.0)
    works, _ = delayed(works, 2, "forward", lambda step: 0.0 if step % 3 else 10.0)
    judgement = watched(trace(works)).judgement
    assert judgement is not None
    assert judgement.waits_for[0] == 1


def test_the_wait_of_a_step_is_the_median_over_steps_in_common() -> None:
    steps = late_monitor(25.0).judged
    assert wait_ms(steps, 0) == pytest.approx(25, abs=2)
    assert wait_ms(steps, 1) == pytest.approx(0, abs=1)
    assert (wait_ms([], 0), wait_ms(steps, 9)) == (None, None)


def test_phases_are_medians_of_the_last_steps() -> None:
    live = fold(Live(), [*begun(1), step(0, 0, warmup=True)])
    assert phases_ms(live.ranks[0], []) is None
    slow = [step(0, number, phases_ms=(9, 9, 9, 9, 9)) for number in range(30)]
    fold(live, [*slow, *(step(0, 30 + number) for number in range(RECENT_STEPS))])
    assert phases_ms(live.ranks[0], []) == [1, 2, 3, 4, 5]
    fold(live, [step(0, 60, phases_ms=(500, 500, 500, 500, 500))])
    assert phases_ms(live.ranks[0], []) == [1, 2, 3, 4, 5]
