"""A run told again: at any speed, standing still, on and back; and in the end all of it, as it was."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from ddptui.run.playback import SPEEDS, Playback
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from ddptui.wire.messages import Step
from ddptui.wire.records import Launched, Message
from tests.support.builders import (
    MS,
    fingerprint,
    heartbeat,
    hello,
    journal,
    launched,
    pause,
    replayed,
    step,
    two_trials,
    write_run,
)

S = 1_000_000_000  # ns
PRESET = two_trials()
LAUNCH_EVERY_S = 10
BEGIN_S, END_S = 1.0, 3 * LAUNCH_EVERY_S + 9.5
FIRST_S, LAUNCH_S = 3.1, 6.4  # when all ranks had finished the first step; from there to the launch's end


class Clock:
    """Goes on only when it is told to."""

    def __init__(self) -> None:
        self.ns = 77 * S

    def __call__(self) -> int:
        return self.ns

    def wait(self, seconds: float) -> None:
        self.ns += round(seconds * S)


def later(messages: Iterable[Message], seconds: float) -> list[Message]:
    moments = ("at_ns", "begin_ns", "end_ns")
    return [
        msgspec.structs.replace(
            each, **{name: getattr(each, name) + round(seconds * S) for name in moments if hasattr(each, name)}
        )
        for each in messages
    ]


JOURNALS = [
    later(journal(trial, repeat), number * LAUNCH_EVERY_S)
    for number, (trial, repeat) in enumerate([("a", 1), ("b", 1), ("a", 2), ("b", 2)])
]
ALL = [message for messages in JOURNALS for message in messages]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_run(tmp_path_factory.mktemp("runs"), PRESET, *JOURNALS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def played(run: Run, clock: Clock) -> Playback:
    return Playback(run, PRESET, clock)


def moment_of(message: Message) -> int:
    """When what a message tells was over."""
    return getattr(message, "at_ns", 0) or getattr(message, "end_ns", 0)


def at_s(played: Playback) -> float:
    return played.now_ns() / S


def share(played: Playback) -> float:
    return played.course.share(played.now_ns())


def until(seconds: float) -> list[Message]:
    """What had happened by then. In these journals nothing is told late."""
    return [message for message in ALL if moment_of(message) <= round(seconds * S)]  # which are whole nanoseconds


def test_at_first_there_is_what_happened_first(played: Playback, clock: Clock) -> None:
    assert at_s(played) == BEGIN_S
    assert played.drain() == [JOURNALS[0][0]]
    assert played.drain() == []
    assert not played.is_over
    assert played.error is None
    played.pause()
    clock.wait(60)
    assert at_s(played) == BEGIN_S  # standing still, it leaves out nothing


def test_all_of_it_in_pieces_is_what_the_journals_hold(played: Playback, clock: Clock, run: Run) -> None:
    told = []
    while not played.is_over:
        told += played.drain()
        clock.wait(0.37)
    assert told == replayed(run, PRESET) == ALL
    assert played.results == results_of(run, PRESET)
    assert played.results.status == "ok"
    clock.wait(100)
    assert (at_s(played), played.drain()) == (END_S, [])
    assert played.unread == []
    at_once = Playback(run, PRESET, clock)
    clock.wait(1000)
    assert at_once.drain() == ALL
    assert (at_once.is_over, at_once.results) == (True, played.results)


def test_its_time_goes_as_much_faster_from_then_on_as_was_asked(played: Playback, clock: Clock) -> None:
    clock.wait(2)
    played.faster(-100)
    at, speeds = FIRST_S + 2, []
    for _ in SPEEDS:
        speeds.append(played.speed)
        clock.wait(0.01)
        at += 0.01 * played.speed
        assert at_s(played) == pytest.approx(at)
        played.faster(1)
    assert (tuple(speeds), played.speed) == (tuple(SPEEDS), SPEEDS[-1])
    played.faster(-1)
    assert played.speed == SPEEDS[-2]


def test_paused_it_stands_still_and_then_goes_on_from_there(played: Playback, clock: Clock) -> None:
    clock.wait(1.5)
    played.pause()
    assert played.paused
    clock.wait(60)
    assert at_s(played) == FIRST_S + 1.5
    assert played.drain() == until(FIRST_S + 1.5)
    played.pause()
    assert not played.paused
    assert at_s(played) == FIRST_S + 1.5
    clock.wait(0.5)
    assert at_s(played) == FIRST_S + 2


def test_further_back_it_is_told_from_the_beginning(played: Playback, clock: Clock) -> None:
    played.seek(25)
    assert (at_s(played), played.restarted) == (BEGIN_S + 25, False)
    assert [len(trial.repeats) for trial in played.results.trials] == [0, 0]  # only with what was drained
    played.drain()
    assert [len(trial.repeats) for trial in played.results.trials] == [1, 1]
    played.seek(-10)
    assert played.restarted
    assert at_s(played) == BEGIN_S + 15
    assert [len(trial.repeats) for trial in played.results.trials] == [0, 0]
    assert played.drain() == until(BEGIN_S + 15)
    assert not played.restarted
    assert [len(trial.repeats) for trial in played.results.trials] == [1, 0]
    played.seek(-3)
    played.seek(3)  # and on again before anybody looked
    assert played.restarted
    assert played.drain() == until(at_s(played))
    played.seek(-1e6)
    assert (at_s(played), played.restarted, played.is_over) == (BEGIN_S, True, False)


# What is left out: the time from a launch's end to the first step of the next


def test_it_does_not_wait_for_launches_to_start(played: Playback, clock: Clock) -> None:
    clock.wait(0.5 + LAUNCH_S)
    assert at_s(played) == FIRST_S + LAUNCH_EVERY_S
    assert {message.trial for message in played.drain() if isinstance(message, Launched)} == {"a", "b"}
    clock.wait(3.5)  # past this launch's steps: nobody has drained them
    played.step(1)
    assert played.now_ns() == min(message.end_ns for message in JOURNALS[2] if isinstance(message, Step))


def test_a_jump_into_such_a_time_goes_past_it(played: Playback, clock: Clock) -> None:
    played.seek(10)
    clock.wait(0.01)
    assert at_s(played) == pytest.approx(FIRST_S + LAUNCH_EVERY_S, abs=0.011)
    played.seek(1)
    played.seek(-2)  # else the first step would come back at once
    assert at_s(played) == pytest.approx(FIRST_S + LAUNCH_S - 1, abs=0.011)


# Step by step


def test_a_step_is_one_of_all_ranks_on_and_back(played: Playback, clock: Clock) -> None:
    ends = sorted({message.end_ns for message in ALL if isinstance(message, Step)})
    played.drain()
    for _ in ends[:7]:  # in a burst
        played.step(1)
    for _ in ends[:7]:
        played.step(-1)
    for end_ns in ends:
        played.step(1)
        assert (played.now_ns(), played.paused) == (end_ns, True)
        told = [message for message in played.drain() if isinstance(message, Step)]
        assert [(message.rank, message.end_ns) for message in told] == [(0, end_ns), (1, end_ns)]
        clock.wait(3)
        assert played.now_ns() == end_ns
    for end_ns in reversed(ends[:-1]):
        played.step(-1)
        assert (played.now_ns(), played.paused) == (end_ns, True)
        clock.wait(3)
        assert played.drain() == until(end_ns / S)


def test_before_the_first_step_is_the_beginning_and_after_the_last_one_the_end(played: Playback) -> None:
    played.step(1)
    played.step(-1)
    assert (at_s(played), played.paused) == (BEGIN_S, True)
    played.seek(1e6)
    played.step(-1)
    assert at_s(played) < END_S
    played.step(1)
    played.step(1)
    assert (at_s(played), played.drain()) == (END_S, ALL)


# Trials, and places of the run


def test_it_begins_at_a_trials_first_launch_and_its_first_step(played: Playback) -> None:
    assert played.seek_trial("b")
    assert at_s(played) == FIRST_S + LAUNCH_EVERY_S
    assert played.drain() == until(FIRST_S + LAUNCH_EVERY_S)
    assert not played.paused
    assert not played.seek_trial("c")
    assert at_s(played) == FIRST_S + LAUNCH_EVERY_S


def test_it_goes_from_launch_to_launch(played: Playback, clock: Clock) -> None:
    clock.wait(1)
    for number in (1, 2, 3):
        assert played.seek_launch(1)
        assert at_s(played) == FIRST_S + number * LAUNCH_EVERY_S
    played.seek(2)
    assert not played.seek_launch(1)
    assert at_s(played) == FIRST_S + 3 * LAUNCH_EVERY_S + 2
    for number in (2, 1, 0):
        assert played.seek_launch(-1)
        assert at_s(played) == FIRST_S + number * LAUNCH_EVERY_S
    played.seek(2)
    assert not played.seek_launch(-1)
    assert at_s(played) == FIRST_S
    assert played.drain() == until(FIRST_S)


def test_a_share_of_the_run_is_of_its_time(played: Playback) -> None:
    played.seek_share(0.5)  # in the middle of the second launch
    assert at_s(played) == pytest.approx((BEGIN_S + END_S) / 2, abs=3)
    assert share(played) == pytest.approx(0.5, abs=0.1)
    played.seek_share(0)
    assert (at_s(played), share(played)) == (BEGIN_S, 0)
    played.seek_share(1)
    assert (at_s(played), share(played)) == (END_S, 1)


def test_what_came_late_is_told_at_its_moment(tmp_path: Path, clock: Clock) -> None:
    """A rank's words come some at a time: what one says of an earlier moment may stand behind what another said. What
    has no moment stays behind the words before it."""
    begin: list[Message] = [launched(), hello(0), hello(1)]
    last, untimed, beat, still = step(0, end_ms=3_500), fingerprint(0), heartbeat(1), pause(1)
    assert beat.at_ns < still.end_ns < last.end_ns
    played = Playback(write_run(tmp_path, PRESET, [*begin, last, untimed, beat, still]), PRESET, clock)
    played.go_to(3_100 * MS)
    assert played.drain() == [*begin, beat, still]
    played.go_to(3_490 * MS)
    assert played.drain() == []
    played.go_to(3_500 * MS)
    assert played.drain() == [last, untimed]


def test_a_launch_without_an_end_is_over_after_its_last_word(tmp_path: Path, clock: Clock) -> None:
    """The console was killed."""
    run = write_run(tmp_path, PRESET, JOURNALS[0], JOURNALS[1])
    path = run.repeat_folder("b", 1) / "messages.jsonl"
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[:-1]) + b'\n{"type":"Ended","at_')
    played = Playback(run, PRESET, clock)
    clock.wait(1000)
    assert played.drain() == [*JOURNALS[0], *JOURNALS[1][:-1]]
    assert played.is_over
    assert [len(trial.repeats) for trial in played.results.trials] == [1, 0]


def test_a_damaged_journal_is_noted_as_in_the_reports(tmp_path: Path, clock: Clock) -> None:
    run = write_run(tmp_path, PRESET, *JOURNALS)
    path = run.repeat_folder("a", 1) / "messages.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"{spoilt}\n", *lines[5:]]))
    assert Playback(run, PRESET, clock).unread == results_of(run, PRESET).unread != []


def test_a_run_in_which_nothing_happened_can_be_played(tmp_path: Path, clock: Clock) -> None:
    played = Playback(Run.create(tmp_path, PRESET, {}), PRESET, clock)
    acts: list[Callable[[], object]] = [played.pause, partial(played.faster, 1), partial(played.seek_trial, "a")]
    for by in (1, -1):
        acts += [partial(act, by) for act in (played.step, played.seek, played.seek_share, played.seek_launch)]
    for act in acts:
        act()
        clock.wait(1)
        assert (played.now_ns(), played.drain(), played.is_over) == (0, [], True)
    assert (played.results.status, played.restarted) == ("interrupted", False)
    assert (share(played), played.seek_launch(1), played.seek_launch(-1)) == (0.0, False, False)
