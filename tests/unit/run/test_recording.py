"""A run read into memory: in the order of moments, with states on the way, and thinned if it is long."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ddptui.live.fold import fold
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import Live
from ddptui.run import recording
from ddptui.run.playback import Playback
from ddptui.run.recording import AROUND, MOST_EVENTS, Recording
from ddptui.store.runs import Run
from ddptui.wire.messages import Heartbeat, Step
from ddptui.wire.records import Ended, Injection, Message
from tests.support.builders import (
    MS,
    ended,
    failed,
    fingerprint,
    heartbeat,
    hello,
    launched,
    preset_of,
    ready,
    step,
    two_trials,
    write_run,
)
from tests.support.launches import late_launch, told_by

PRESET = two_trials()
S = 1_000_000_000  # ns


def long_launch(steps: int, trial: str = "a", *, late: int = 0, begin_s: int = 0) -> list[Message]:
    """Two ranks. The journal has the second one's steps `late` steps after the first one's."""
    of_rank = [[_step(rank, number, begin_s) for number in range(steps)] for rank in (0, 1)]
    begin_ns = begin_s * S
    messages: list[Message] = [msgspec.structs.replace(launched(trial), at_ns=begin_ns + MS)]
    messages += [hello(rank, at_ns=begin_ns + S) for rank in (0, 1)]
    messages += [fingerprint(0), *(msgspec.structs.replace(ready(rank), at_ns=begin_ns + 2 * S) for rank in (0, 1))]
    for number in range(steps + late):
        messages += of_rank[0][number : number + 1] + of_rank[1][max(0, number - late) : max(0, number - late + 1)]
    end_ms = 1000 * begin_s + 3_000 + 10 * steps
    return [*messages, msgspec.structs.replace(ended(), at_ns=end_ms * MS)]


def _step(rank: int, number: int, begin_s: int) -> Step:
    begin_ms = 1000 * begin_s + 3_000 + 10 * number
    return step(rank, number, begin_ms=begin_ms, end_ms=begin_ms + 9 + rank, loss=1 / (1 + number))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few messages from one state to the next, in place of thousands."""
    monkeypatch.setattr(recording, "STATE_EVERY", 50)


def read(folder: Path, *journals: list[Message]) -> Recording:
    return Recording(write_run(folder, PRESET, *journals), PRESET)


@pytest.mark.parametrize("late", [6, 100])
def test_ranks_that_were_late_are_told_in_the_order_of_moments(tmp_path: Path, late: int) -> None:
    messages = long_launch(200, late=late)
    told = told_by(read(tmp_path, messages))
    moments = [moment for moment, _ in told]
    assert moments == sorted(moments)
    steps = [message for _, message in told if isinstance(message, Step)]
    assert steps == sorted(_steps(messages), key=lambda step: step.end_ns) != _steps(messages)
    assert sorted(map(repr, messages)) == sorted(repr(message) for _, message in told)


def _steps(messages: list[Message]) -> list[Step]:
    return [message for message in messages if isinstance(message, Step)]


class Told:
    """What a screen keeps of a replay."""

    def __init__(self, played: Playback) -> None:
        self.played = played
        self.live = Live()

    def drain(self) -> int:
        """Take in what is due. Returns the number of messages."""
        if self.played.restarted:
            self.live = self.played.state()
        messages = self.played.drain()
        fold(self.live, messages)
        return len(messages)


JOURNALS = [long_launch(300, late=3), long_launch(100, "b", begin_s=10)]
TOTAL_S = 10 + 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_run(tmp_path_factory.mktemp("runs"), PRESET, *JOURNALS)


ACTS = st.one_of(
    st.tuples(st.just("wait"), st.floats(0, 3)),
    st.tuples(st.just("seek"), st.floats(-TOTAL_S, TOTAL_S)),
    st.tuples(st.sampled_from(["step", "seek_launch"]), st.integers(-2, 2)),
    st.tuples(st.just("seek_share"), st.floats(0, 1)),
    st.tuples(st.just("go_to"), st.integers(0, TOTAL_S * S)),
    st.tuples(st.just("drain"), st.none()),
)


@pytest.mark.usefixtures("small")
@settings(deadline=None, max_examples=150)
@given(acts=st.lists(ACTS, max_size=20))
@example(acts=[("seek", 10.0), ("drain", None), ("seek", -1.0), ("step", 1)])
@example(acts=[("seek_share", 0.5), ("step", -1)])  # from a launch's beginning to the end of another
@example(acts=[("drain", None), ("go_to", 8 * S)])  # between two launches
def test_wherever_it_goes_the_state_is_that_of_all_messages_until_then(
    run: Run, acts: list[tuple[str, float | None]]
) -> None:
    now_ns = [0]
    played = Playback(run, PRESET, lambda: now_ns[0])
    told = Told(played)
    for name, how_much in [*acts, ("drain", None)]:
        match name:
            case "wait":
                now_ns[0] += round((how_much or 0) * S)
            case "drain":
                told.drain()
            case _:
                getattr(played, name)(how_much)
    until = [message for moment_ns, message in told_by(played.recording) if moment_ns <= played.now_ns()]
    assert told.live == fold(Live(), until)
    assert played.drained == len(until)
    over = sum(isinstance(message, Ended) for message in until)
    assert sum(len(trial.repeats) + (trial.status == "failed") for trial in played.results.trials) == over


def test_going_to_a_launch_leaves_out_most_of_what_is_before_and_shows_the_same(run: Run, small: None) -> None:
    now_ns = [0]
    played, jumped = (Playback(run, PRESET, lambda: now_ns[0]) for _ in range(2))
    watched = Watched(played), Watched(jumped)
    jumped.pause()
    while played.now_ns() < played.course.firsts_ns[1]:
        now_ns[0] += S // 4
        watched[0].look()
    played.pause()
    assert jumped.seek_trial("b")
    assert jumped.restarted
    assert jumped.drained >= 550  # of 608 until there
    for each in (played, jumped):
        each.go_to(played.end_ns - S // 2)
    for _ in range(3):
        for each in (played, jumped):
            each.step(1)
        for screen in watched:
            screen.look()
        assert watched[0].seen() == watched[1].seen()
    assert watched[1].monitor.live.finished == 1
    assert watched[1].monitor.joined


class Watched:
    """A replay as a screen follows it."""

    def __init__(self, played: Playback) -> None:
        self.played = played
        self.monitor = RunMonitor()

    def look(self) -> None:
        """Take in all that is due, and look."""
        if self.played.restarted:
            self.monitor = RunMonitor()
            self.monitor.live = self.played.state()
        self.monitor.add(self.played.drain())
        self.monitor.look(self.played.now_ns())

    def seen(self) -> tuple[object, ...]:
        monitor = self.monitor
        return monitor.live, list(monitor.joined), monitor.judge(), monitor.mismatch, self.played.results


# Thinned


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for some hundred steps."""
    monkeypatch.setattr(recording, "MOST_EVENTS", 1_000)


def numbers(messages: list[Message], rank: int) -> list[int]:
    return [step.step for step in _steps(messages) if step.rank == rank]


@pytest.mark.usefixtures("few")
def test_of_a_long_run_the_same_steps_of_all_ranks_are_kept_and_all_other_messages(tmp_path: Path) -> None:
    messages = long_launch(3_000, late=5)
    beats: list[Message] = [msgspec.structs.replace(heartbeat(), at_ns=(3 + at) * S) for at in range(30)]
    kept = read(tmp_path, [*messages[:-1], *beats, messages[-1]])
    assert kept.every == 16
    regular = [*range(0, 2_999 - AROUND, 16), *range(2_999 - AROUND, 3_000)]
    assert numbers(kept.messages, 0) == numbers(kept.messages, 1) == regular
    assert len(kept.messages) - len(_steps(kept.messages)) == len(messages) - 6_000 + 30
    assert sum(isinstance(message, Heartbeat) for message in kept.messages) == 30
    assert len(kept.course.steps_ns) == len(regular)  # the keys go from one that is shown to the next


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("mark", [Injection(at_ns=0, bottleneck=()), failed(1)], ids=["a change", "an error"])
def test_around_a_change_of_delays_and_an_error_all_steps_are_kept(tmp_path: Path, mark: Message) -> None:
    messages = long_launch(4_000)
    at = next(at for at, message in enumerate(messages) if isinstance(message, Step) and message.step == 1_203)
    mark = msgspec.structs.replace(mark, at_ns=_steps(messages)[0].begin_ns + 1_203 * 10 * MS)
    kept = read(tmp_path, [*messages[:at], mark, *messages[at:]])
    assert kept.every >= 8
    for rank in (0, 1):
        own = numbers(kept.messages, rank)
        assert [number for number in own if 1_150 < number < 1_250 and number % kept.every] == [
            number for number in range(1_202 - AROUND, 1_202 + AROUND + 1) if number % kept.every
        ]


def test_kept_steps_have_the_waits_that_they_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path, PRESET, late_launch(ms=5.0, steps=600))
    waits: list[dict[int, dict[int, int]]] = []
    for most, is_thinned in ((MOST_EVENTS, False), (1_000, True)):
        monkeypatch.setattr(recording, "MOST_EVENTS", most)
        kept, monitor = Recording(run, PRESET), RunMonitor()
        assert (kept.every > 1) is is_thinned
        of_step: dict[int, dict[int, int]] = {}
        for message in kept.messages:
            monitor.add([message])
            monitor.look(0, at_once=True)
            of_step |= {each.number: {rank: own.wait_ns for rank, own in each.ranks.items()} for each in monitor.joined}
        waits.append(of_step)
    assert 20 < len(waits[1]) < len(waits[0]) / 2
    assert waits[1] == {number: waits[0][number] for number in waits[1]}
    assert any(own[0] > MS for own in waits[1].values())


@pytest.mark.usefixtures("few")
def test_all_launches_of_a_run_are_thinned_alike(tmp_path: Path) -> None:
    kept = read(tmp_path, long_launch(300), long_launch(900, "b", begin_s=20))
    first, second = (
        {step.step for step in _steps(kept.messages) if (step.begin_ns < 20 * S) is is_first}
        for is_first in (True, False)
    )
    assert kept.every > 1
    assert [number for number in sorted(first) if number < 250] == [*range(0, 250, kept.every)]
    assert [number for number in sorted(second) if number < 250] == [*range(0, 250, kept.every)]
    assert len(_steps(kept.messages)) <= 1_000


@pytest.mark.usefixtures("few")
def test_a_run_full_of_errors_is_kept_whole(tmp_path: Path) -> None:
    messages = long_launch(600)
    first = next(at for at, message in enumerate(messages) if isinstance(message, Step))
    for at in range(len(messages) - 2, first, -40):
        at_ns = getattr(messages[at], "end_ns", 0)
        messages.insert(at, Injection(at_ns=at_ns, bottleneck=()))
    kept = read(tmp_path, messages)
    assert len(kept.messages) == len(messages)


def test_primitives_are_replayed_from_the_beginning(tmp_path: Path, small: None) -> None:
    """Their screen keeps the results of all launches, which no state has."""
    trials = [{"name": name, "primitives": "see"} for name in "ab"]
    preset = preset_of({"title": "What?", "kind": "primitives", "trial": trials})
    played = Playback(write_run(tmp_path, preset, *JOURNALS), preset, lambda: 0)
    assert played.seek_trial("b")
    assert not played.restarted
