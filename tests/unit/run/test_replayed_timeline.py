"""A run read back from its journals: in the order of moments, a window of it in memory, whatever the files hold."""

import tracemalloc
from collections.abc import Callable
from itertools import count
from operator import itemgetter
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ddptui.live.fold import fold
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import Live
from ddptui.run import playback, timeline
from ddptui.run.playback import Playback
from ddptui.run.timeline import Timeline, at_once
from ddptui.store import journal
from ddptui.store.outcomes import results_of
from ddptui.store.runs import Run
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended, Message
from tests.support.builders import (
    MS,
    ended,
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
from tests.support.launches import told_by

PRESET = two_trials()
S = 1_000_000_000  # ns
A_LINE = 300  # bytes, or a little less


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
    """Windows of some lines, in place of megabytes."""
    monkeypatch.setattr(journal, "BYTES_AT_ONCE", 4 * A_LINE)
    monkeypatch.setattr(timeline, "AHEAD", 20 * A_LINE)
    monkeypatch.setattr(playback, "AT_ONCE", 40 * A_LINE)
    monkeypatch.setattr(playback, "KEEP_EVERY", 50 * A_LINE)
    monkeypatch.setattr(playback, "MOST_KEPT", 4)


@pytest.mark.usefixtures("small")
def test_ranks_that_were_late_are_told_in_the_order_of_moments(tmp_path: Path) -> None:
    messages = long_launch(200, late=6)
    told = told_by(Timeline(write_run(tmp_path, PRESET, messages), PRESET, []).reader())
    moments = [moment for moment, _ in told]
    assert moments == sorted(moments)
    steps = [(moment, message) for moment, message in told if isinstance(message, Step)]
    assert steps == sorted(((message.end_ns, message) for message in _steps(messages)), key=itemgetter(0))
    assert [message for _, message in steps] != _steps(messages)
    assert sorted(map(repr, messages)) == sorted(repr(message) for _, message in told)


@pytest.mark.usefixtures("small")
def test_what_stands_farther_from_its_moment_than_the_window_is_told_late_but_told(tmp_path: Path) -> None:
    messages = long_launch(200, late=100)
    run = write_run(tmp_path, PRESET, messages)
    told = [message for _, message in told_by(Timeline(run, PRESET, []).reader())]
    assert sorted(map(repr, told)) == sorted(map(repr, messages))
    for rank in (0, 1):
        assert [each for each in _steps(told) if each.rank == rank] == [
            each for each in _steps(messages) if each.rank == rank
        ]
    played = Playback(run, PRESET, lambda: 0)
    played.seek(1e6)
    drained = played.drain()
    while not played.is_over:
        drained += played.drain()
    assert drained == told


def _steps(messages: list[Message]) -> list[Step]:
    return [message for message in messages if isinstance(message, Step)]


@pytest.mark.parametrize("late", [0, 6, 100])
@pytest.mark.usefixtures("small")
def test_from_any_place_a_reader_goes_on_as_the_first_one_did(late: int, tmp_path: Path) -> None:
    journals = long_launch(60, late=late), long_launch(20, "b", late=late, begin_s=10)
    whole = Timeline(write_run(tmp_path, PRESET, *journals), PRESET, [])
    told, reader, found = told_by(whole.reader()), whole.reader(), 0
    for number in count():
        if place := reader.place():
            found += 1
            other = whole.reader(place)
            assert told_by(other) == told[number:]
            assert other.progress.messages == len(told)
        if reader.is_over:
            break
        reader.take()
    assert found > 20


class Told:
    """What a screen keeps of a replay: the state, which it gives back to be kept."""

    def __init__(self, played: Playback, reads: list[Callable[[], None]] | None = None) -> None:
        self.played = played
        self.live = Live()
        self._reads = [] if reads is None else reads  # that a thread has still to do

    def drain(self) -> int:
        if self.played.restarted:
            self.live = self.played.start.live()
        messages = self.played.drain()
        fold(self.live, messages)
        self.played.keep(self.live)
        return len(messages)

    def drain_all(self) -> None:
        while self.read() or self.drain() or self.played.restarted:
            pass

    def read(self) -> bool:
        """Let the thread do one read; whether there was one."""
        if self._reads:
            self._reads.pop(0)()
            self.drain()
            return True
        return False


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
    st.tuples(st.sampled_from(["drain", "drain_all", "read"]), st.none()),
)


@pytest.mark.usefixtures("small")
@settings(deadline=None, max_examples=150)
@given(acts=st.lists(ACTS, max_size=20), in_a_thread=st.booleans())
@example(acts=[("seek", 10.0), ("drain_all", None), ("seek", -1.0), ("step", 1)], in_a_thread=True)
@example(acts=[("seek_share", 0.5), ("step", -1)], in_a_thread=False)  # from a launch's beginning to the end of another
@example(acts=[("drain_all", None), ("go_to", 8 * S)], in_a_thread=False)  # between two launches
def test_wherever_it_goes_the_state_is_that_of_all_messages_until_then(
    run: Run, acts: list[tuple[str, float | None]], in_a_thread: bool
) -> None:
    now_ns, reads = [0], list[Callable[[], None]]()
    played = Playback(run, PRESET, lambda: now_ns[0], read=reads.append if in_a_thread else at_once)
    told = Told(played, reads)
    for name, how_much in [*acts, ("drain_all", None)]:
        match name:
            case "wait":
                now_ns[0] += round((how_much or 0) * S)
            case "drain" | "drain_all" | "read":
                getattr(told, name)()
            case _:
                getattr(played, name)(how_much)
    until = [message for moment_ns, message in told_by(played._timeline.reader()) if moment_ns <= played.now_ns()]
    assert told.live == fold(Live(), until)
    assert played._reader.progress.messages == len(until)
    over = sum(isinstance(message, Ended) for message in until)
    assert sum(len(trial.repeats) + (trial.status == "failed") for trial in played.results.trials) == over


@pytest.fixture(scope="module")
def one_launch(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_run(tmp_path_factory.mktemp("runs"), PRESET, long_launch(400, late=3))


@pytest.fixture
def played(one_launch: Run, small: None) -> Playback:
    """To its end."""
    played = Playback(one_launch, PRESET, lambda: 0)
    played.seek(1e6)
    Told(played).drain_all()
    return played


def test_of_very_many_messages_some_are_left_for_the_next_look(one_launch: Run, small: None) -> None:
    played = Playback(one_launch, PRESET, lambda: 0)
    told = Told(played)
    played.seek(1e6)
    seen, moments = [], []
    while not played.is_over:
        seen.append(told.drain())
        moments.append(played.now_ns())
    assert max(seen) <= 2 * 40
    assert len(seen) > 10
    assert moments == sorted(moments)
    assert moments[0] < moments[-1] == played.end_ns


def test_going_back_it_is_told_from_a_state_on_the_way(played: Playback) -> None:
    before_ns = played.now_ns()
    played.seek(-1)
    assert played.restarted
    skipped = played.start.place.progress.messages
    assert skipped > 0
    assert played.start.place.progress.until_ns <= before_ns - S
    told = Told(played)
    told.drain_all()
    assert skipped < played._reader.progress.messages
    assert told.live == fold(
        Live(), [message for moment_ns, message in told_by(played._timeline.reader()) if moment_ns <= before_ns - S]
    )


def test_going_on_to_where_it_has_been_is_a_short_cut(played: Playback) -> None:
    played.seek(-1e6)
    assert (played.restarted, played.start) == (True, playback.BEGINNING)
    Told(played).drain_all()
    assert not played.restarted
    played.seek(6)
    assert played.restarted
    assert played.start.place.progress.messages > 100


def test_going_to_a_launch_leaves_out_all_before_and_shows_the_same(run: Run, small: None) -> None:
    now_ns = [0]
    played, jumped = (Playback(run, PRESET, lambda: now_ns[0]) for _ in range(2))
    watched = Watched(played), Watched(jumped)
    jumped.pause()
    while not played.course.launch(played.now_ns()):
        now_ns[0] += S // 4
        watched[0].look()
    played.pause()
    assert jumped.seek_trial("b")
    assert (jumped.restarted, jumped.start.place.launch, jumped.start.over) == (True, 1, frozenset({0}))
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
        is_behind = True
        while is_behind or self.played.restarted:
            if self.played.restarted:
                self.monitor = RunMonitor()
                self.monitor.live = self.played.start.live()
            messages = self.played.drain()
            self.monitor.add(messages)
            self.played.keep(self.monitor.live)
            is_behind = bool(messages)
        self.monitor.look(self.played.now_ns())

    def seen(self) -> tuple[object, ...]:
        monitor = self.monitor
        return monitor.live, list(monitor.joined), monitor.judge(), monitor.mismatch, self.played.results


def test_going_back_step_by_step_reads_little_again(played: Playback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played, "_kept", {})  # as between two kept states of a very long run
    monkeypatch.setattr(played, "_keep_every", 2**40)
    monkeypatch.setattr(played, "_near", None)
    told = Told(played)
    played.step(-1)
    assert played.start == playback.BEGINNING
    told.drain_all()
    total = played._reader.progress.messages
    for _ in range(5):
        played.step(-1)
        assert played.restarted
        assert total - played.start.place.progress.messages < 2 * 40
        told.drain_all()
    assert told.live.step == 400 - 6


def test_few_states_are_kept_of_a_run_however_long(played: Playback) -> None:
    assert 2 <= len(played._kept) <= 4
    assert played._keep_every > playback.KEEP_EVERY


def test_of_a_journal_that_was_lost_meanwhile_the_rest_is_left_out(tmp_path: Path, small: None) -> None:
    run = write_run(tmp_path, PRESET, *JOURNALS)
    played = Playback(run, PRESET, lambda: 0)
    path = run.repeat_folder("a", 1) / "messages.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"{spoilt}\n")
    (run.repeat_folder("b", 1) / "messages.jsonl").unlink()
    told = Told(played)
    played.seek(5.9)
    told.drain_all()
    assert 100 < told.live.step < 200
    played.seek(1e6)
    told.drain_all()
    assert played.is_over
    assert played.now_ns() == played.end_ns


def test_the_outcome_of_a_launch_is_worked_out_once(run: Run, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Playback(run, PRESET, lambda: 0)
    played.seek(1e6)
    Told(played).drain_all()
    assert played.results == results_of(run, PRESET)
    monkeypatch.setattr(playback, "outcome_of_messages", lambda messages: pytest.fail("again"))
    played.seek(-1e6)
    Told(played).drain_all()
    assert [len(trial.repeats) for trial in played.results.trials] == [0, 0]
    played.seek(1e6)
    Told(played).drain_all()
    assert played.results == results_of(run, PRESET)


def peak_bytes(run: Run) -> int:
    """Of memory, while it is opened and told to its end."""
    tracemalloc.start()
    played = Playback(run, PRESET, lambda: 0)
    played.seek(1e6)
    told = Told(played)
    told.drain_all()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert played.is_over
    return peak


def test_a_long_run_takes_no_more_memory_than_a_short_one(tmp_path: Path, small: None) -> None:
    def beats(launches_s: int) -> list[Message]:
        messages = (msgspec.structs.replace(heartbeat(), at_ns=(3_000 + place) * MS) for place in range(launches_s))
        return [launched(), hello(0), *messages]

    short, long = (peak_bytes(write_run(tmp_path / str(size), PRESET, beats(size))) for size in (1_000, 8_000))
    assert long < 1.3 * short


def test_primitives_are_replayed_from_the_beginning(tmp_path: Path, small: None) -> None:
    """Their screen keeps the results of all launches, which no state has."""
    trials = [{"name": name, "primitives": "see"} for name in "ab"]
    preset = preset_of({"title": "What?", "kind": "primitives", "trial": trials})
    played = Playback(write_run(tmp_path, preset, *JOURNALS), preset, lambda: 0)
    assert played.seek_trial("b")
    assert not played.restarted
