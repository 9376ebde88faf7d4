"""A run read into memory: in order, thinned if it is long; where it can go, and the states on the way."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ddptui.analysis.clocks import Clocks
from ddptui.live.fold import fold
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import Live
from ddptui.run import playback
from ddptui.run.playback import AROUND, MOST_EVENTS, Course, Playback, RecordedLaunch, Recording
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
    journal,
    launched,
    offset,
    preset_of,
    ready,
    shown,
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
    messages: list[Message] = [launched(trial, at_ms=1000 * begin_s + 1)]
    messages += [hello(rank, at_ns=begin_ns + S) for rank in (0, 1)]
    messages += [fingerprint(0), *(ready(rank, at_ns=begin_ns + 2 * S) for rank in (0, 1))]
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
    monkeypatch.setattr(playback, "STATE_EVERY", 50)


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
    st.tuples(st.just("faster"), st.integers(-8, 8)),
    st.tuples(st.just("seek_trial"), st.sampled_from(["a", "b", "c"])),
    st.tuples(st.sampled_from(["pause", "drain"]), st.none()),
)


@pytest.mark.usefixtures("small")
@settings(deadline=None, max_examples=80)
@given(acts=st.lists(ACTS, max_size=20))
@example(acts=[("seek", 10.0), ("drain", None), ("seek", -1.0), ("step", 1)])
@example(acts=[("seek_share", 0.5), ("step", -1)])  # from a launch's beginning to the end of another
@example(acts=[("drain", None), ("go_to", 8 * S)])  # between two launches
def test_wherever_it_goes_the_state_is_of_all_messages_so_far(run: Run, acts: list[tuple[str, Any]]) -> None:
    now_ns = [0]
    played = Playback(run, PRESET, lambda: now_ns[0])
    told = Told(played)
    for name, how_much in [*acts, ("drain", None)]:
        match name:
            case "wait":
                now_ns[0] += round(how_much * S)
            case "drain":
                told.drain()
            case "pause":
                played.pause()
            case _:
                getattr(played, name)(how_much)
        assert played.course.begin_ns <= played.now_ns() <= played.end_ns
    until = [message for moment_ns, message in told_by(played.recording) if moment_ns <= played.now_ns()]
    assert told.live == fold(Live(), until)
    assert played.drained == len(until)
    over = sum(isinstance(message, Ended) for message in until)
    assert sum(len(trial.repeats) + (trial.status == "failed") for trial in played.results.trials) == over


def test_going_to_a_launch_leaves_out_most_of_what_is_before_and_goes_on_from_there(run: Run, small: None) -> None:
    jumped, monitor = Playback(run, PRESET, lambda: 0), RunMonitor()
    jumped.pause()
    assert jumped.seek_trial("b")
    assert jumped.restarted
    assert jumped.drained >= 550  # of 608 until there
    jumped.go_to(jumped.end_ns - S // 2)
    monitor.live = jumped.state()
    monitor.add(jumped.drain())
    monitor.look(jumped.now_ns())
    assert monitor.live.finished == 1
    assert [step.number for step in monitor.joined][-1] > 30


# Thinned


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for some hundred steps."""
    monkeypatch.setattr(playback, "MOST_EVENTS", 1_000)


def numbers(messages: list[Message], rank: int) -> list[int]:
    return [step.step for step in _steps(messages) if step.rank == rank]


@pytest.mark.usefixtures("few")
def test_of_a_long_run_the_same_steps_of_all_ranks_are_kept_and_all_other_messages(tmp_path: Path) -> None:
    messages = long_launch(3_000, late=5)
    beats: list[Message] = [heartbeat(at_ns=(3 + at) * S) for at in range(30)]
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
        monkeypatch.setattr(playback, "MOST_EVENTS", most)
        kept, monitor = Recording(run, PRESET), RunMonitor()
        assert (kept.every > 1) is is_thinned
        of_step: dict[int, dict[int, int]] = {}
        for at in range(0, len(kept.messages), 20):
            monitor.add(kept.messages[at : at + 20])
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


# Where a replay can go


FAR = 10**400  # no float is as large
BEGIN: list[Message] = [launched(), hello(0), hello(1)]


def noted(messages: Iterable[Message], by_ns: int = 0) -> Course:
    launch_of = RecordedLaunch(Clocks())
    launch_of.by_ns = by_ns
    for message in messages:
        launch_of.clocks.add(message)
        launch_of.messages.append(message)
    course = Course()
    course.add(launch_of.timed())
    return course


def ends(*steps: tuple[int, int, float]) -> list[Message]:
    """Rank, step, and its end in ms."""
    return [step(rank, number, begin_ms=end_ms - 5, end_ms=end_ms) for rank, number, end_ms in steps]


def steps_ms(found: Course) -> list[float]:
    return [moment_ns / MS for moment_ns in found.steps_ns]


AGAIN = [hello(rank, at_ns=4_000 * MS) for rank in (0, 1)]
OF_EACH = [(rank, number, 3_000 + 10 * number + rank) for rank in (0, 1) for number in range(50)]


@pytest.mark.parametrize(
    ("messages", "ends_ms"),
    [
        ([*BEGIN, *ends((0, 0, 3_010), (1, 0, 3_020), (1, 1, 3_030), (0, 1, 3_045)), ended()], [3_020, 3_045]),
        ([*BEGIN, *ends(*OF_EACH)], [3_001 + 10 * number for number in range(50)]),  # some steps at a time
        ([*BEGIN, *ends((0, 0, 3_010), (0, 1, 3_020), (1, 1, 3_021), (0, 2, 3_030), (1, 2, 3_031))], [3_021, 3_031]),
        ([launched(), hello(0), *ends((1, 0, 3_000), (0, 0, 3_010))], [3_010]),  # rank 1 is not known
        ([*BEGIN, *ends((0, 0, 3_010), (1, 0, 3_020), (0, 1, 3_030)), *AGAIN, *ends((0, 0, 4_010), (1, 0, 4_020))],
         [3_020, 4_020]),
        ([launched(), hello(0), *ends((0, 0, 3_010), (0, 1, 2_000), (0, 2, 3_030))], [2_000, 3_030]),  # clocks jump
    ],
)  # fmt: skip
def test_a_step_is_over_once_all_ranks_have_finished_it(messages: list[Message], ends_ms: list[int]) -> None:
    assert steps_ms(noted(messages)) == ends_ms


def test_trials_ends_and_changes_by_hand_are_noted_with_their_moments() -> None:
    changed = [Injection(at_ns=at_ms * MS, bottleneck=()) for at_ms in (3_150, 3_300)]
    found = noted([*journal()[:-1], *changed, journal()[-1]])
    assert found.changes_ns == [3_150 * MS, 3_300 * MS]
    assert (found.trials, found.firsts_ns, found.end_ns) == (["a"], [3_100 * MS], ended().at_ns)
    assert (COURSE.trials, COURSE.firsts_ns) == (["a", "b", "a"], [10, 60, 70])
    assert (COURSE.begin_ns, COURSE.end_ns) == (0, 100)


def test_the_clocks_of_other_hosts_are_compared_with_all_probes() -> None:
    far = msgspec.structs.replace(hello(1), clock="far", at_ns=502_000 * MS)
    steps = ends((0, 0, 3_010), (1, 0, 503_005), (0, 1, 3_020), (1, 1, 503_030))
    told = [launched(), hello(0), far, *steps, offset(1, at_ms=2_100, offset_ms=500_000, error_ms=0)]
    assert steps_ms(noted(told)) == pytest.approx([3_010, 3_030], abs=0.2)
    assert steps_ms(noted(told, by_ns=1_000 * MS)) == pytest.approx([4_010, 4_030], abs=0.2)


@pytest.mark.parametrize(
    ("messages", "first_ms"),
    [
        (journal(), 3_100),
        ([*BEGIN, ready(0), ready(1, at_ns=2_700 * MS), ended("failed", "stalled")], 2_700),
        ([*BEGIN, failed(at_ms=2_600), failed(1, at_ms=2_650), ended("failed", "no")], 9_500),
        ([launched(), ended("failed", "no rank")], 9_500),
        ([launched()], launched().at_ns / MS),
        ([*BEGIN, shown(0), shown(1, at_ns=3_200 * MS)], 3_200),
    ],
    ids=["a step", "ranks that were ready", "a failure", "the end", "nothing more", "primitives"],
)
def test_there_is_something_to_see_from(messages: list[Message], first_ms: int) -> None:
    assert noted(messages).firsts_ns == [first_ms * MS]


def launch_of(trial: str, begin: int, end: int, *ends: int) -> list[tuple[int, Message]]:
    steps = [(at, step(0, number)) for number, at in enumerate(ends)]
    return [(begin, launched(trial)), (begin, hello(0)), *steps, (end, ended())]


def course_of(*launches: list[tuple[int, Message]]) -> Course:
    course = Course()
    for each in launches:
        course.add(each)
    return course


COURSE = course_of(launch_of("a", 0, 40, 10, 20, 30), launch_of("b", 45, 70, 60), launch_of("a", 70, 100, 70, 80))


@pytest.mark.parametrize(
    ("moment", "idle"),
    [(0, (0, 10)), (5, (0, 10)), (10, (10, 10)), (39, (39, 39)), (40, (40, 60)), (59, (40, 60)), (65, (65, 65))],
)
def test_from_a_launchs_end_to_the_next_first_step_nothing_is_to_be_seen(moment: int, idle: tuple[int, int]) -> None:
    assert COURSE.idle(moment) == idle
    assert (Course().idle(0), Course().share(0)) == ((0, 0), 0)


@pytest.mark.parametrize(
    ("end", "moment", "share"),
    [(100, FAR, 1), (100, -FAR, 0), (FAR, FAR, 1), (FAR, 5, 0), (100, 25, 0.25)],
    ids=["after it", "before it", "its end", "its begin", "in it"],
)
def test_a_moment_outside_the_run_is_at_its_begin_or_end(end: int, moment: int, share: float) -> None:
    assert course_of(launch_of("a", 0, end)).share(moment) == share
