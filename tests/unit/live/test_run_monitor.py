"""What is worked out for somebody who watches a run."""

import msgspec
import pytest

from ddptui.config.trial import Bottleneck
from ddptui.live.headline import wait_ms
from ddptui.live.monitor import YOUNG_NS, RunMonitor
from ddptui.live.state import RECENT_NS
from ddptui.wire.messages import Slept, Step
from ddptui.wire.records import Injection, Message
from tests.support.builders import ended, hello, journal, launched
from tests.support.traces import USUAL_MS, delayed, heard, trace, works_of


def seen(messages: list[Message]) -> RunMonitor:
    watched = RunMonitor()
    watched.add(messages)
    watched.look(0)
    return watched


def late(steps: int, delay: float = 25.0, *, warmup: int = 0) -> list[Message]:
    """A launch of two ranks, of which rank 1 is late in forward; as it would be heard, step by step."""
    works, _ = delayed(works_of(1, steps=steps), 1, "forward", lambda _: delay)
    steps = [msgspec.structs.replace(own, warmup=own.step < warmup) for own in heard(trace(works))]
    return [launched(), hello(0), hello(1), *steps]


def test_judged_are_the_last_steps_that_all_have_finished() -> None:
    messages = late(30)
    watched = seen(messages[:-1])  # rank 1 has not told of the last one
    assert [step.number for step in watched.joined] == list(range(29))
    assert watched.judged == list(watched.joined)
    for arrived in watched.judged:
        assert set(arrived.last_arrivals.values()) <= {0, 1}
        assert next(iter(arrived.last_arrivals.values())) == 1
        assert arrived.ranks[0].wait_ns > 20e6
    often = RunMonitor()
    for message in messages[:-1]:
        often.add([message])
        often.look(0)
    assert often.joined == watched.joined


def test_nobody_is_named_before_there_is_enough_to_go_by() -> None:
    for steps, named in ((7, False), (8, True)):
        judgement = seen(late(steps)).judge()
        assert judgement is not None
        culprit = judgement.analysis.culprit
        assert (culprit and (culprit.rank, culprit.phase)) == ((1, "forward") if named else None)
    judgement = seen(late(40, warmup=33)).judge()  # the warm-up is not judged
    assert judgement is not None
    assert (judgement.analysis.culprit, len(judgement.steps)) == (None, 7)


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
    assert early.analysis.culprit is not None
    assert now.analysis.culprit is None
    first = min(own.step.begin_ns for own in now.steps[0].ranks.values())
    assert told[0][-1].end_ns - first < 1.1 * RECENT_NS


# Delays that are changed by hand

QUIET = 100  # steps before a delay is put in


def changed(delay: float, *, steps: int, taken_out: int | None = None, lag: int = 0) -> list[Message]:
    """Rank 1 gets a delay in forward by hand, which is taken out before a later step. lag: steps until it knows."""
    end = taken_out if taken_out is not None else steps
    late = range(QUIET + lag, end + (lag if taken_out is not None else 0))
    works, _ = delayed(works_of(1, steps=steps, skew=0.0), 1, "forward", lambda step: delay if step in late else 0.0)
    told = trace(works)
    told[1] = [
        msgspec.structs.replace(own, slept=(Slept("forward", own.begin_ns, own.begin_ns + round(delay * 1e6)),))
        if own.step in late
        else own
        for own in told[1]
    ]
    messages: list[Message] = [launched(), hello(0), hello(1)]
    for pair in zip(*told.values(), strict=True):
        if pair[0].step in (QUIET, taken_out):
            delays = (PUT_IN,) if pair[0].step == QUIET else ()
            messages.append(Injection(at_ns=min(own.begin_ns for own in pair), bottleneck=delays))
        messages += pair
    return messages


PUT_IN = Bottleneck(at="forward", ranks=(1,), sleep_ms=25)


def followed(messages: list[Message]) -> RunMonitor:
    """As on the screen: looked at four times a second."""
    watched, looked_ns = RunMonitor(), 0
    for message in messages:
        watched.add([message])
        if isinstance(message, Step) and message.end_ns - looked_ns > 250e6:
            looked_ns = message.end_ns
            watched.look(looked_ns)
    watched.look(looked_ns)
    return watched


@pytest.mark.parametrize("lag", [0, 3])
@pytest.mark.parametrize("delay", [25.0, 500.0])
def test_after_two_steps_a_delay_put_in_by_hand_is_all_that_is_judged(delay: float, lag: int) -> None:
    watched = followed(changed(delay, steps=QUIET + lag + 2, lag=lag))
    assert [step.number for step in watched.joined] == [QUIET + lag, QUIET + lag + 1]
    watched.look(2**62)
    judgement = watched.judgement
    assert judgement is not None
    assert (judgement.steps, judgement.rank, judgement.waits_for) == (list(watched.joined), 1, {0: 1})
    assert (judgement.analysis.culprit, judgement.doubted) == (None, None)  # nothing is claimed yet
    assert wait_ms(judgement.steps, 0) == pytest.approx(delay, abs=2)


def test_before_the_first_step_with_new_delays_nothing_is_judged() -> None:
    *before, put_in = changed(25.0, steps=QUIET + 1)[:-2]
    watched = followed(before)
    assert watched.judgement is not None
    watched.add([put_in])
    watched.look(2**62)
    assert (watched.judgement, watched.judged, watched.shown) == (None, [], watched)


def test_what_was_taken_out_is_not_judged_any_more_and_nobody_is_blamed_in_its_place() -> None:
    messages = changed(25.0, steps=1_000, taken_out=200)
    out = next(place for place, message in enumerate(messages) if isinstance(message, Injection) and place > 250)
    watched = followed(messages[:out])
    assert watched.culprit == 1
    out_ns = messages[out].at_ns  # type: ignore[union-attr]
    named = set()
    for message in messages[out:]:
        watched.add([message])
        watched.look(getattr(message, "end_ns", 0))
        judgement = watched.judgement
        if judgement and judgement.steps[-1].ranks[0].step.end_ns - out_ns < YOUNG_NS:
            named |= {judgement.rank, judgement.doubted, *judgement.waits_for.values()}
    assert named == {None}
    assert {step.number >= 200 for step in watched.judged} == {True}


def test_a_delay_that_stays_is_measured_once_three_seconds_have_shown_it() -> None:
    young, grown = (followed(changed(25.0, steps=QUIET + steps)).judgement for steps in (50, 150))
    assert young is not None
    assert grown is not None
    assert (young.analysis.culprit, young.rank) == (None, 1)
    assert grown.analysis.culprit is not None
    assert (grown.analysis.culprit.rank, grown.analysis.culprit.phase) == (1, "forward")


def test_what_is_drawn_while_a_launch_starts_is_the_one_before() -> None:
    monitor = RunMonitor()
    first = [*journal("a")]
    monitor.add(first)
    monitor.look(0)
    assert monitor.shown is monitor
    steps, losses = list(monitor.joined), {rank: state.losses.points for rank, state in monitor.live.ranks.items()}
    assert steps
    assert all(losses.values())
    second = [*journal("b")]
    begins = next(place for place, message in enumerate(second) if isinstance(message, Step) and not message.warmup)
    monitor.add(second[:begins])
    monitor.look(0)
    assert not monitor.joined
    assert list(monitor.shown.joined) == steps
    assert monitor.shown.live.trial == "a"
    assert {rank: state.losses.points for rank, state in monitor.shown.live.ranks.items()} == losses
    monitor.add(second[begins:-1])
    monitor.look(0)
    assert monitor.shown is monitor
    monitor.add([ended(), launched("c"), ended("failed"), launched("d")])  # one without steps leaves the one before it
    assert (monitor.shown.live.trial, monitor.shown.before) == ("b", None)
