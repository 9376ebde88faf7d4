"""The state of a run right now: a fold of its messages."""

import msgspec
import pytest

from ddptui.live.fold import RATE_OVER, fold
from ddptui.live.state import Live
from ddptui.wire.messages import Collective, Gpu, Position
from ddptui.wire.records import Message, Refused
from tests.support.builders import (
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


def live_of(*messages: Message) -> Live:
    """Of a launch of ranks 0 and 1."""
    return fold(Live(), [launched(), hello(0), hello(1), *messages])


def test_a_launch_is_running_until_it_has_ended() -> None:
    live = Live()
    assert (live.status, live.trial, live.finished, live.ranks) == ("idle", None, 0, {})
    assert (live.step, live.steps, live.loss, live.samples_per_s) == (0, None, None, None)
    fold(live, [launched("a", 2)])
    assert (live.status, live.trial, live.repeat, live.finished) == ("running", "a", 2, 0)
    fold(live, [ended()])
    assert (live.status, live.trial, live.error, live.finished) == ("ok", "a", None, 1)
    fold(live, [*failure("a", error="why")])
    assert (live.status, live.error, live.finished) == ("failed", "why", 2)
    fold(live, [launched("b")])  # which forgets the ranks and the error of the last
    assert (live.status, live.trial, live.error, live.ranks, live.finished) == ("running", "b", None, {}, 2)


def test_a_rank_starts_runs_and_is_done_or_fails() -> None:
    live = fold(Live(), [launched(), hello(0, pid=7, device="cuda:0"), hello(1)])
    rank, other = live.ranks.values()
    assert (rank.state, rank.pid, rank.device, rank.step, rank.steps) == ("starting", 7, "cuda:0", 0, None)
    fold(live, [ready(0, steps=4)])
    assert (rank.state, rank.steps) == ("running", 4)
    fold(live, [step(0, 0, samples=5, loss=2.0)])
    assert (rank.state, rank.step, rank.samples, rank.loss) == ("running", 1, 5, 2.0)
    assert rank.phases_ns == (1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000)
    fold(live, [done(0, dropped=3), failed(1, "ValueError: no")])
    assert (rank.state, rank.dropped, rank.error) == ("done", 3, None)
    assert (other.state, other.error) == ("failed", "ValueError: no")


def test_a_heartbeat_tells_of_load_and_losses_and_of_the_gpu_until_the_next() -> None:
    gpu = Gpu(busy_percent=97.0, used_bytes=3, total_bytes=9, watts=250.5, celsius=70)
    beat = msgspec.structs.replace(
        heartbeat(0, cpu_percent=12.5, dropped=2), gpu_bytes=2, gpu_reserved_bytes=4, gpu=gpu
    )
    live = live_of(beat)
    rank = live.ranks[0]
    assert (rank.state, rank.cpu_percent, rank.rss_bytes, rank.dropped) == ("starting", 12.5, 5_000, 2)
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
    assert live.samples_per_s is None  # one end makes no rate
    fold(live, [step(0, 1, end_ms=1_500, samples=8), step(1, 1, end_ms=1_250, samples=4)])
    assert [rank.steps_per_s for rank in live.ranks.values()] == pytest.approx([2, 4])
    assert live.samples_per_s == pytest.approx(2 * 8 + 4 * 4)
    fold(live, [step(0, 5 + number, end_ms=10_000 + 10 * number) for number in range(RATE_OVER)])
    assert len(live.ranks[0].ends) == RATE_OVER
    assert live.ranks[0].steps_per_s == pytest.approx(100)


def test_each_step_has_its_own_samples_and_those_between_reports_count() -> None:
    """The last batch of an epoch may be smaller; `watch --every 5` has one step in five reported."""
    ends = [step(0, 5 * number, end_ms=1_000 * number, samples=samples) for number, samples in enumerate((8, 8, 2))]
    live = fold(Live(), [launched(), hello(0), *ends])
    assert live.ranks[0].steps_per_s == pytest.approx(1)  # that it reports
    assert live.samples_per_s == pytest.approx(5 * (8 + 2) / 2)


def test_samples_that_nobody_counts_make_no_rate() -> None:
    live = live_of(*(step(0, number, end_ms=1_000 * number, samples=0) for number in range(3)))
    assert (live.ranks[0].samples_per_s, live.samples_per_s) == (None, None)


def test_without_instruments_a_rank_is_through_at_once() -> None:
    live = live_of(msgspec.structs.replace(ready(0, steps=4), flops=3e9), trained(0, loss=0.5))
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


def test_pauses_load_and_who_was_refused_are_kept_until_the_next_launch() -> None:
    refused = Refused(at_ns=5, count=3, why="a stranger")
    live = live_of(pause(0), load(1.5, 1.0), refused)
    assert (list(live.pauses), live.load, live.refused) == ([pause(0)], load(1.5, 1.0), refused)
    fold(live, [launched("b")])
    assert (list(live.pauses), live.load, live.refused) == ([], None, None)


@pytest.mark.parametrize(("collectives", "kept"), [(0, 200), (1, 200), (99, 50), (2_000, 25)])
def test_few_steps_are_kept_where_they_have_many_collectives(collectives: int, kept: int) -> None:
    told = tuple(Collective("all_reduce", number, 8, 1, 2, 2, 3) for number in range(collectives))
    live = live_of(*(msgspec.structs.replace(step(0, number), collectives=told) for number in range(300)))
    assert [each.step for each in live.ranks[0].recent] == list(range(300 - kept, 300))


def test_where_a_rank_is_is_known() -> None:
    there = Position(step=3, calls=1)
    assert live_of(msgspec.structs.replace(heartbeat(0), position=there)).ranks[0].position == there
