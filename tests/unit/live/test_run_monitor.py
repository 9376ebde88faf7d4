"""What is worked out for somebody who watches a run."""

import msgspec

from ddptui.analysis.cautions import FEWEST_STEPS
from ddptui.live.monitor import LAST_STEPS, RunMonitor
from ddptui.live.state import RECENT_NS
from ddptui.wire.messages import Step
from ddptui.wire.records import Message
from tests.support.builders import ended, hello, journal, launched
from tests.support.traces import USUAL_MS, delayed, trace, works_of


def seen(messages: list[Message]) -> RunMonitor:
    watched = RunMonitor()
    watched.add(messages)
    watched.look(0)
    return watched


def late(steps: int, delay: float = 25.0, *, warmup: int = 0) -> list[Message]:
    """A launch of two ranks, of which rank 1 is late in forward; as it would be heard, step by step."""
    works, _ = delayed(works_of(1, steps=steps), 1, "forward", lambda _: delay)
    told = trace(works)
    heard = [own for pair in zip(*told.values(), strict=True) for own in pair]
    heard = [msgspec.structs.replace(own, warmup=own.step < warmup) for own in heard]
    return [launched(), *(hello(rank) for rank in (0, 1)), *heard]


def test_arrivals_are_those_of_the_last_steps_that_all_have_finished() -> None:
    messages = late(30)
    watched = seen(messages[:-1])  # rank 1 has not told of the last one
    assert [step.number for step in watched.joined] == list(range(29))
    assert watched.last == list(watched.joined)[-LAST_STEPS:]
    for arrived in watched.last:
        assert set(arrived.last_arrivals.values()) <= {0, 1}
        assert next(iter(arrived.last_arrivals.values())) == 1
        assert arrived.ranks[0].wait_ns > 20e6


def test_looking_often_shows_what_looking_once_shows() -> None:
    often, once = RunMonitor(), seen(late(30))
    for message in late(30):
        often.add([message])
        often.look(0)
    assert often.joined == once.joined


def test_a_new_launch_begins_with_nothing() -> None:
    watched = seen([*late(30), launched("next")])
    assert (list(watched.joined), watched.judgement, watched.culprit) == ([], None, None)


def test_before_the_first_step_nobody_has_arrived() -> None:
    watched = seen([launched(), hello(0), hello(1)])
    assert watched.last == []
    assert watched.judge() is None


def test_the_culprit_of_the_last_seconds_is_named() -> None:
    judgement = seen(late(100)).judge()
    assert judgement is not None
    assert judgement.culprit is not None
    assert (judgement.culprit.rank, judgement.culprit.phase) == (1, "forward")


def test_nobody_is_named_before_there_is_enough_to_go_by() -> None:
    for steps, named in ((FEWEST_STEPS - 1, False), (FEWEST_STEPS, True)):
        judgement = seen(late(steps)).judge()
        assert judgement is not None
        assert (judgement.culprit is not None) == named


def test_the_warm_up_is_not_judged() -> None:
    judgement = seen(late(2 * FEWEST_STEPS, warmup=FEWEST_STEPS + 1)).judge()
    assert judgement is not None
    assert judgement.culprit is None
    assert len(judgement.aligned.steps) == FEWEST_STEPS - 1


def test_what_is_long_over_is_not_judged_any_more() -> None:
    """Rank 1 is late in the first hundred steps; then it is not, for longer than the verdict looks back."""
    steps_of_26_ms = [4 * part for part in USUAL_MS]
    clean = works_of(1, steps=200, usual_ms=steps_of_26_ms)
    works, _ = delayed(clean, 1, "forward", lambda step: 100.0 if step < 100 else 0.0)
    told = trace(works)
    early = seen([launched(), hello(0), hello(1), *told[0][:100], *told[1][:100]]).judge()
    now = seen([launched(), hello(0), hello(1), *told[0], *told[1]]).judge()
    assert early is not None
    assert now is not None
    assert early.culprit is not None
    assert now.culprit is None
    first = min(own.step.begin_ns for own in now.aligned.steps[0].ranks.values())
    assert told[0][-1].end_ns - first < 1.1 * RECENT_NS


def test_what_is_drawn_while_a_launch_starts_is_the_one_before() -> None:
    monitor = RunMonitor()
    first = [*journal("a")]
    monitor.add(first)
    monitor.look(0)
    assert monitor.shown is monitor
    steps, losses = monitor.last, {rank: state.losses.points for rank, state in monitor.live.ranks.items()}
    assert steps
    assert all(losses.values())
    second = [*journal("b")]
    begins = next(place for place, message in enumerate(second) if isinstance(message, Step) and not message.warmup)
    monitor.add(second[:begins])
    monitor.look(0)
    assert monitor.last == []
    assert monitor.shown.last == steps
    assert monitor.shown.live.trial == "a"
    assert {rank: state.losses.points for rank, state in monitor.shown.live.ranks.items()} == losses
    monitor.add(second[begins:-1])
    monitor.look(0)
    assert monitor.shown is monitor


def test_a_launch_without_steps_leaves_the_picture_of_the_one_before_it() -> None:
    monitor = RunMonitor()
    monitor.add([*journal("a"), launched("b"), ended("failed"), launched("c")])
    assert monitor.shown.live.trial == "a"
    assert monitor.shown.before is None
