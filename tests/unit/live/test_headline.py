"""How a run goes, in one sentence; how far it has come, and how long it may still take."""

import msgspec
import pytest
from msgspec.structs import replace

from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.live import headline
from ddptui.live.fold import RATE_OVER, fold
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import Live
from ddptui.wire.messages import Position, Slept, Step
from ddptui.wire.records import Injection, Load, Message, Notice
from tests.support.builders import (
    LAUNCHED_MS,
    MS,
    SAVING,
    done,
    ended,
    failure,
    fingerprint,
    heartbeat,
    hello,
    journal,
    launched,
    preset_of,
    ready,
    step,
    two_trials,
)
from tests.support.traces import delayed, heard, trace, works_of

LATE = Bottleneck(at="forward", ranks=(1,), sleep_ms=20)


def ranks_of(ranks: int) -> Preset:
    mode = {"launch": "single"} if ranks == 1 else {"world_size": ranks}
    return preset_of({"trial": [{"name": "a", **mode}]})


def said(*messages: Message, states: dict[int, str] | None = None, ranks: int = 2, now_ns: int = 0) -> str:
    monitor = RunMonitor()
    monitor.add(messages)
    monitor.judgement = monitor.judge()
    return headline.headline_text(monitor, states or {}, ranks_of(ranks), now_ns)


def trained_together(
    late_ms: float, *, ranks: int = 2, noise: float = 0.05, slower: float = 1.0, at: str = "forward"
) -> list[Message]:
    """A hundred steps, in which rank 1 is late."""
    works, _ = delayed(works_of(1, ranks=ranks, noise=noise, skew=0.0), 1, at, lambda _: late_ms)
    if slower != 1.0:
        works = [{rank: [round(part * (slower if rank == 1 else 1)) for part in own] for rank, own in step.items()}
                 for step in works]  # fmt: skip
    return [launched(), *(hello(rank, world_size=ranks) for rank in range(ranks)), *heard(trace(works))]


def test_what_a_check_finds_wrong_is_said_before_who_is_late() -> None:
    def of(rank: int) -> Message:
        read = {"parameters": {"weight": f"{rank}"}, "gradients": {"weight": "1"}, "settings": {"learning rate": "0.1"}}
        return replace(fingerprint(rank, 2), **read)

    first, *rest = trained_together(20)
    monitor = RunMonitor()
    monitor.add([replace(first, watched=True), *rest[:2], of(0), of(1), *rest[2:22]])
    monitor.look(0, at_once=True)
    assert (monitor.checked.lights, headline.checks(monitor)) == ([], "")  # ranks may just not have averaged yet
    monitor.add(rest[22:])
    monitor.look(0, at_once=True)
    assert headline.headline_text(monitor, {}, ranks_of(2), 0).startswith("The ranks began with different parameters")
    assert headline.checks(monitor) == "✗ in sync"
    monitor.add([replace(first, watched=True), *rest])
    monitor.look(0, at_once=True)
    assert headline.checks(monitor) == ""


QUEUED = Notice(at_ns=1, text="job 17 is queued: Resources")
STILL = Notice(at_ns=1, text="no step for 20 s: rank 0 is in step 3\nrank 0: save (train.py:18)")
BEGUN = [launched(), hello(0), hello(1)]
KILLED = "rank 1 was killed by SIGKILL"


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "starting: importing torch"),
        ([launched(), QUEUED], "job 17 is queued: Resources"),
        ([launched(), QUEUED, Notice(at_ns=2, text="job 17 runs on n1")], "job 17 runs on n1"),
        ([launched(), QUEUED, hello(1)], "starting: 1 of 2 ranks connected"),
        ([launched(), QUEUED, launched()], "starting: 0 of 2 ranks connected"),
        ([launched(), STILL], "no step for 20 s: rank 0 is in step 3"),
        ([*BEGUN, step(0)], "starting: 2 of 2 ranks connected, 1 ready"),
        ([*BEGUN, ready(0), ready(1)], "starting: the first step is under way"),
        ([*BEGUN, step(0), step(1)], "no waits measured yet"),
        (journal("a"), "done"),
        ([launched(), ended("interrupted")], "interrupted"),
        ([launched(), ended("skipped")], "skipped"),
        ([launched(), ended("failed")], "failed: no reason is known"),
        (failure("a", error=f"{KILLED}\nthe log's end"), f"failed: {KILLED}"),
    ],
)
def test_until_something_is_measured_it_says_how_far_it_is_or_how_it_ended(messages: list[Message], words: str) -> None:
    assert said(*messages) == words


def test_one_rank_has_nobody_to_wait_for() -> None:
    assert said(launched(), ranks=1) == "starting: 0 of 1 rank connected"
    assert said(launched(), hello(0, world_size=1), step(0), ranks=1) == "one process, so there is nobody to wait for"


def test_who_is_waited_for_is_named_with_how_late_it_is_and_where() -> None:
    words = said(*trained_together(25.0))
    assert words.startswith("Rank 1 holds everyone up: ")
    late_ms = float(words.removeprefix("Rank 1 holds everyone up: ").partition(" ms a step, in forward. ")[0])
    assert late_ms == pytest.approx(25, rel=0.05)
    # half the ranks: 25 ms of a step of 32
    assert words.endswith(". Ranks idle 39% of the time for a late rank, 3% in transfers")
    assert said(*trained_together(25.0), states={0: "running", 1: "waiting for rank 0"}) == words  # who goes on
    assert "idle 58% of the time for a late rank" in said(*trained_together(25.0, ranks=4))  # all but one wait
    assert "a step, in aggregate. " in said(*trained_together(25.0, at="aggregate"))
    assert "a step, in every phase (× 2.99). " in said(*trained_together(0.0, slower=3.0))


@pytest.mark.parametrize(("queued_ms", "others", "is_said"), [(60.0, 1.0, True), (0.0, 1.0, False), (60.0, 0.0, False)])
def test_a_rank_is_late_whose_core_other_programs_have(queued_ms: float, others: float, is_said: bool) -> None:
    works, _ = delayed(works_of(1, skew=0.0), 1, "forward", lambda step: 0.0 if step % 3 else 60.0)
    told = trace(works)
    told[1] = [replace(step, queued_ns=0 if step.step % 3 else round(queued_ms * MS)) for step in told[1]]
    steps = heard(told)
    words = said(launched(), hello(0), hello(1), *steps, Load(at_ns=steps[-1].end_ns, busy=1.5, own=1.5 - others))
    assert words.startswith("Rank 1 holds everyone up, because other programs use its core. ⚠ disturbed. ") == is_said
    assert words.count("⚠") == bool(others)


def test_where_it_may_be_chance_or_nobody_stands_out_that_is_said() -> None:
    words = said(*trained_together(0.0))
    assert words.endswith("in transfers")
    assert "holds everyone up" not in words
    assert " of the time for a late rank, " in words
    works = works_of(1, skew=0.0)
    for place, name in ((0, 1), (1, 0)):
        works, _ = delayed(works, name, "forward", lambda step, place=place: 25.0 if step % 2 == place else 0.0)
    words = said(launched(), hello(0), hello(1), *heard(trace(works)))
    assert words.startswith("Ranks wait by turns: no rank stands out. Ranks idle")
    words = said(*trained_together(25.0)[: 3 + 2 * 5])
    doubt = "The others waited for rank 1 78% of the time; the cause is uncertain, since 5 steps are few. "
    assert words.startswith(doubt)
    assert "no rank stands out" not in words
    *before, last = trained_together(25.0)
    words = said(*before, replace(last, collectives=()))
    assert words.startswith("ranks call different operations: ")
    assert "waiting for" not in words


def test_a_rank_that_the_lab_itself_delays_is_named_as_such_and_not_doubted() -> None:
    preset = preset_of({"trial": [{"name": "a", "world_size": 2, "bottleneck": [msgspec.to_builtins(LATE)]}]})
    monitor = RunMonitor()
    few = trained_together(20.0)[: 3 + 2 * 5]
    slept = [
        replace(step, slept=(Slept("forward", step.begin_ns, step.begin_ns + 1),)) if step.rank == 1 else step
        for step in few[3:]
        if isinstance(step, Step)
    ]
    monitor.add([*few[:3], *slept])
    monitor.look(0)
    words = headline.headline_text(monitor, {}, preset, 0)
    assert words.startswith("The trial delays rank 1 by 20 ms in forward; rank 0 waits ")
    assert " ms a step for it. Ranks idle " in words


@pytest.mark.parametrize(("ranks", "waits"), [(2, "; rank 0 waits "), (4, "; the 3 others wait ")])
def test_what_the_user_delays_comes_first_and_then_how_long_the_others_wait(ranks: int, waits: str) -> None:
    put_in = Injection(at_ns=1_000, bottleneck=(LATE,))  # before the steps
    told = trained_together(25.0, ranks=ranks)
    words = said(*told[: 1 + ranks], put_in, *told[1 + ranks :])
    assert words.startswith(f"You delay rank 1 by 20 ms in forward{waits}25")
    assert " ms a step for it · Measured: 25" in words
    assert "holds everyone up" not in words


def test_delays_by_hand_are_said_until_the_next_launch() -> None:
    going = [launched(), hello(0), hello(1), step(0), step(1)]
    put_in = Injection(at_ns=4_000 * MS, bottleneck=(LATE,))
    taken_out = Injection(at_ns=5_000 * MS, bottleneck=())
    assert said(*going, put_in) == "You delay rank 1 by 20 ms in forward; no step has shown it yet"
    rare = replace(LATE, every=5, jitter="exponential")
    assert said(
        *going, replace(put_in, bottleneck=(rare, replace(LATE, at="aggregate", ranks=(0, 1), per="call")))
    ) == (
        "You delay rank 1 by about 20 ms in forward, in 1 step of 5 and ranks 0 and 1 by 20 ms a call in aggregate; "
        "no step has shown it yet"
    )
    assert said(*going, put_in, taken_out) == "You have removed all delays"
    assert said(*going, put_in, ended(), *going) == "no waits measured yet"


WAITS = Position(step=100, passed=("data",), calls=1, number=0, kind="all_reduce")


def test_ranks_that_stand_still_come_first() -> None:
    put_in = Injection(at_ns=4_000 * MS, bottleneck=(LATE,))
    still = {0: "stalled (5 s)", 1: "stalled (5 s)"}
    beats = [heartbeat(0, position=WAITS), heartbeat(1, position=Position(step=100, passed=("data",)))]
    assert said(*trained_together(0.0), *beats, put_in, states=still) == (
        "rank 1 has not arrived at all_reduce 0 of step 100: it is in step 100, in forward; rank 0 waits there "
        "· You delay rank 1 by 20 ms in forward"
    )
    going = [*trained_together(0.0), heartbeat(0, position=WAITS), heartbeat(1, position=replace(WAITS, step=99))]
    last_ns = max(message.end_ns for message in going if isinstance(message, Step))
    beats_on = heartbeat(0, position=WAITS, at_ns=last_ns + 9_000 * MS)  # a silent one may not be where it was last
    states = {0: "waiting for rank 1 (5 s)", 1: "stalled (5 s)"}
    words = said(*going, beats_on, states=states, now_ns=last_ns + 9_500 * MS)
    assert words.startswith("rank 1 has not arrived at all_reduce 0 of step 100: it sends no heartbeats; rank 0")
    many = [*trained_together(0.0, ranks=4), *(heartbeat(rank, position=WAITS) for rank in range(4))]
    words = said(*many, states=dict.fromkeys(range(4), "stalled (4 s)"), ranks=4)
    assert words == "ranks 0–3 wait in all_reduce 0 of step 100, which does not finish"


COMMAND = {"kind": "command", "trial": [{"name": "a", "launch": "command", "command": ["true"]}]}


def test_of_a_watched_rank_the_line_of_its_code_is_said_also_when_it_has_left_its_loop() -> None:
    monitor = RunMonitor()
    assert headline.headline_text(monitor, {}, preset_of(COMMAND), 0) == "starting"
    reduces = Position(step=100, calls=1, number=0, kind="all_reduce", seq=9, bytes=4096)
    saves = heartbeat(1, position=Position(step=99), stack=SAVING)
    monitor.add([*trained_together(0.0), heartbeat(0, position=reduces), saves, done(2)])
    still = {0: "stalled (20 s)", 1: "stalled (20 s)"}
    words = headline.headline_text(monitor, still, preset_of(COMMAND), 0)
    assert words.startswith("rank 1 ")
    assert "in save, train.py:18" in words
    assert "rank 0 waits" in words
    assert "all_reduce (4 KB) of step 100" in words
    monitor.add([done(1)])
    assert "has left its training loop after 100 steps" in headline.headline_text(monitor, still, preset_of(COMMAND), 0)


def two(*messages: Message) -> str:
    monitor = RunMonitor()
    for message in messages:
        monitor.add([message])
        monitor.look(getattr(message, "end_ns", 0) + 10**9)
    preset = preset_of({"trial": [{"name": "a", "world_size": 2}, {"name": "b", "world_size": 2}]})
    return headline.headline_text(monitor, {}, preset, 0)


def test_the_verdict_on_a_trial_stays_until_the_next_one_has_one() -> None:
    late = "a: Rank 1 holds everyone up: "
    told = [*trained_together(20), ended()]
    assert two(*told).startswith(f"done · {late}")
    assert two(*told, launched("b")).startswith(f"starting: 0 of 2 ranks connected · {late}")
    assert late not in two(*told, launched("b"), *trained_together(0)[1:])
    failed = two(*told[:-1], ended("failed", "killed"), launched("b"))
    assert failed == "starting: 0 of 2 ranks connected"
    assert two(*failure("b"), *journal("a")) == f"failed: b ({KILLED})"


# Progress


FOUR = two_trials()  # launches, where all goes well
ALONE = preset_of({"trial": [{"name": "a"}]})
AFTER_10_S = (LAUNCHED_MS + 10_000) * MS


def live_of(*messages: Message) -> Live:
    return fold(Live(), messages)


def running(steps: int = 0, of: int | None = 4) -> list[Message]:
    """A launch of which so many steps are over."""
    told: list[Message] = [step(rank, number) for number in range(steps) for rank in (0, 1)]
    return [launched("b"), hello(0), hello(1), *(ready(rank, of) for rank in (0, 1)), *told]


def left(live: Live, preset: Preset = FOUR, now_ns: int = AFTER_10_S) -> float | None:
    return headline.left_s(preset, live, now_ns)


def test_how_far_an_epoch_is_stands_for_steps_whose_number_is_not_known() -> None:
    assert headline.steps(live_of(*running(2))) == "step 2 of 4"
    assert headline.steps(live_of(*running(of=None))) == ""
    assert headline.steps(live_of(*running(2, of=None))) == "step 2"
    places = (Position(epoch=3, batch=8, batches=32), Position(epoch=4, batch=1, batches=32))  # one is ahead
    beats = [heartbeat(rank, position=place) for rank, place in enumerate(places)]
    assert headline.steps(live_of(*running(2, of=None), *beats)) == "step 2 · 25% of epoch 3"


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_a_trial_that_is_over_early_is_spared_its_other_repeats(status: str) -> None:
    preset = two_trials(repeats=5)
    first = live_of(*journal("a"), launched("b"), ended(status))
    assert headline.launches(preset, first) == 5 + 1
    third = live_of(*journal("a"), launched("b", 3), ended(status), launched("a", 4))
    assert headline.launches(preset, third) == 5 + 3


@pytest.mark.parametrize(
    ("messages", "left_s"),
    [
        ([], None),
        ([launched("a")], None),
        (running(steps=0), None),
        (journal("a"), 30),  # 1 of 4 in 10 s
        ([*journal("a"), *journal("b"), *journal("a", 2)], 10 / 3),
        ([*journal("a"), *running(steps=2), ended("failed")], 10 / 2 * 1),  # its steps are not counted again
        ([*journal("a"), *journal("b", launched_ms=LAUNCHED_MS + 9_000)], 10),  # the clock begins with the first
        ([*journal("a"), *journal("b"), *journal("a", 2), *journal("b", 2)], None),
        ([*journal("a"), *failure("b"), *journal("a", 2)], None),
    ],
)
def test_what_is_left_takes_as_long_as_what_was(messages: list[Message], left_s: float | None) -> None:
    assert left(live_of(*messages)) == (left_s and pytest.approx(left_s))


def test_what_is_left_of_a_run_that_was_resumed_takes_as_long_as_what_was_since_then() -> None:
    resumed = live_of(*journal("a"), *journal("b"))
    resumed.resumed = 1
    assert left(resumed) == pytest.approx(20)


def test_a_launch_that_has_just_begun_will_take_as_long_as_those_before_it() -> None:
    begun = live_of(*journal("a"), launched("b", at_ms=LAUNCHED_MS + 8_000))
    assert left(begun) == pytest.approx(6 + 2 * 8)  # it has run for 2 of 8 s
    assert left(begun, now_ns=AFTER_10_S + 1_000 * MS) == pytest.approx(5 + 2 * 8)  # and a second later
    assert left(begun, now_ns=AFTER_10_S + 60_000 * MS) == pytest.approx(2 * 8)


def test_of_the_launch_that_runs_its_steps_tell_once_they_have_found_their_pace() -> None:
    """One of 100 steps, 10 ms each."""

    def going(steps: int, *before: Message) -> Live:
        told = [step(rank, number, end_ms=3_000 + 10 * number) for number in range(steps) for rank in (0, 1)]
        return live_of(*before, launched("a"), hello(0), hello(1), ready(0, 100), ready(1, 100), *told)

    assert left(going(RATE_OVER - 1), ALONE) is None
    assert left(going(40), ALONE) == pytest.approx(0.6)
    assert left(going(80), ALONE) == pytest.approx(0.2)
    assert left(going(80)) == pytest.approx(0.2 + 3 * 10.2)  # the others as long as this one, all in all
    assert left(going(40, *journal("a"))) == pytest.approx(0.6)  # whatever those before it took
    assert left(live_of(*journal("a")), ALONE) is None


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (0.9, "0:00"), (59.99, "0:59"), (60, "1:00"), (605, "10:05"), (3600, "60:00")]
)
def test_time_is_shown_as_on_a_stopwatch(seconds: float, shown: str) -> None:
    assert headline.clock(seconds) == shown


def test_how_much_of_a_run_is_over() -> None:
    def part(*messages: Message) -> float:
        return headline.part_done(FOUR, live_of(*messages))

    half = running(2)
    assert (part(), part(*running(0))) == (0.0, 0.0)
    assert part(*half) == 0.5 / 4
    assert part(*half, ended()) == 1 / 4
    assert part(*half, ended("skipped")) == 1 / 3  # its second repeat is spared
    assert part(*half, ended(), *[launched("b"), ended()] * 3) == 1.0
