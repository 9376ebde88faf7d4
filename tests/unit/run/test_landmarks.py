"""Where a replay can go: what the first reading of a journal notes of its steps, and of the time before them."""

from collections.abc import Iterable

import msgspec
import pytest

from ddptui.analysis.clock_sync import Clocks
from ddptui.run import landmarks
from ddptui.run.landmarks import Course, Landmarks, Survey
from ddptui.wire.records import Injection, Message
from tests.support.builders import MS, ended, failed, hello, journal, launched, offset, ready, shown, step

FAR = 10**400  # no float is as large
BEGIN: list[Message] = [launched(), hello(0), hello(1)]


def noted(messages: Iterable[Message], end_ms: int = 9_500, by_ns: int = 0) -> Landmarks:
    clocks = Clocks()
    survey = Survey(clocks)
    for message in messages:
        clocks.add(message)
        survey.add(message)

    def to_console(sender: int | None, moment_ns: int) -> int:
        return by_ns + (moment_ns if sender is None else clocks.console_ns(sender, moment_ns))

    return survey.landmarks(end_ms * MS, by_ns, to_console)


def ends(*steps: tuple[int, int, float]) -> list[Message]:
    """Rank, step, and its end in ms."""
    return [step(rank, number, begin_ms=end_ms - 5, end_ms=end_ms) for rank, number, end_ms in steps]


def steps_ms(found: Landmarks) -> list[float]:
    return [moment_ns / MS for moment_ns in found.steps_ns]


def test_a_step_is_over_once_all_ranks_have_finished_it() -> None:
    found = noted([*BEGIN, *ends((0, 0, 3_010), (1, 0, 3_020), (1, 1, 3_030), (0, 1, 3_045)), ended()])
    assert steps_ms(found) == [3_020, 3_045]
    assert (found.trial, found.first_ns, found.end_ns) == ("a", 3_020 * MS, 9_500 * MS)
    assert found.marks == [BEGIN[0], ended()]


def test_ranks_send_some_steps_at_a_time() -> None:
    of_0, of_1 = ([(rank, number, 3_000 + 10 * number + rank) for number in range(50)] for rank in (0, 1))
    assert steps_ms(noted([*BEGIN, *ends(*of_0, *of_1)])) == [3_001 + 10 * number for number in range(50)]


def test_a_step_that_one_rank_has_not_reported_is_left_out() -> None:
    found = noted([*BEGIN, *ends((0, 0, 3_010), (0, 1, 3_020), (1, 1, 3_021), (0, 2, 3_030), (1, 2, 3_031))])
    assert steps_ms(found) == [3_021, 3_031]


def test_a_rank_that_is_too_far_ahead_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landmarks, "MOST_APART", 10)
    ahead = [(0, number, 3_000 + 10 * number) for number in range(100)]
    behind = [(1, number, 5_000 + 10 * number) for number in range(100)]
    assert steps_ms(noted([*BEGIN, *ends(*ahead, *behind)])) == [5_000 + 10 * number for number in range(90, 100)]


def test_steps_of_an_unknown_rank_are_left_out_and_of_ranks_that_begin_anew_counted_anew() -> None:
    assert steps_ms(noted([launched(), hello(0), *ends((1, 0, 3_000), (0, 0, 3_010))])) == [3_010]
    again = [hello(0), hello(1), *ends((0, 0, 4_010), (1, 0, 4_020))]
    assert steps_ms(noted([*BEGIN, *ends((0, 0, 3_010), (1, 0, 3_020), (0, 1, 3_030)), *again])) == [3_020, 4_020]


def test_the_clocks_of_other_hosts_are_compared_with_all_probes() -> None:
    far = msgspec.structs.replace(hello(1), clock="far", at_ns=502_000 * MS)
    steps = ends((0, 0, 3_010), (1, 0, 503_005), (0, 1, 3_020), (1, 1, 503_030))
    told = [launched(), hello(0), far, *steps, offset(1, at_ms=2_100, offset_ms=500_000, error_ms=0)]
    assert steps_ms(noted(told)) == pytest.approx([3_010, 3_030], abs=0.2)
    assert steps_ms(noted(told, by_ns=1_000 * MS)) == pytest.approx([4_010, 4_030], abs=0.2)


def test_clocks_that_jump_set_no_step_back() -> None:
    assert steps_ms(noted([launched(), hello(0), *ends((0, 0, 3_010), (0, 1, 2_000), (0, 2, 3_030))])) == [3_010, 3_030]


@pytest.mark.parametrize(
    ("messages", "first_ms"),
    [
        (journal(), 3_100),
        ([*BEGIN, ready(0), msgspec.structs.replace(ready(1), at_ns=2_700 * MS), ended("failed", "stalled")], 2_700),
        ([*BEGIN, failed(at_ms=2_600), failed(1, at_ms=2_650), ended("failed", "no")], 2_600),
        ([launched(), ended("failed", "no rank")], 9_500),
        ([launched()], 9_500),
        ([*BEGIN, shown(0), msgspec.structs.replace(shown(1), at_ns=3_200 * MS)], 3_200),
    ],
    ids=["a step", "ranks that were ready", "a failure", "the end", "nothing more", "primitives"],
)
def test_there_is_something_to_see_from(messages: list[Message], first_ms: int) -> None:
    assert noted(messages).first_ns == first_ms * MS


def launch(trial: str, first_ns: int, end_ns: int, *steps_ns: int) -> Landmarks:
    return Landmarks(trial, first_ns, end_ns, steps_ns or [first_ns])


COURSE = Course(0, 100, [launch("a", 10, 40, 10, 20, 30), launch("b", 60, 70), launch("a", 70, 100, 70, 80)])


@pytest.mark.parametrize(
    ("moment", "by", "reached", "skipped"),
    [(0, 0, 10, 10), (5, 1, 11, 5), (10, 5, 15, 0), (35, 4, 39, 0), (35, 5, 60, 20), (0, 35, 65, 30), (65, 5, 70, 0)],
)
def test_time_without_anything_to_see_is_left_out(moment: int, by: int, reached: int, skipped: int) -> None:
    assert COURSE.advance(moment, by) == (reached, skipped)


@pytest.mark.parametrize(("moment", "by", "reached"), [(35, 5, 30), (62, 5, 37), (65, 2, 63), (12, 5, 7), (75, 40, 35)])
def test_back_over_such_a_time(moment: int, by: int, reached: int) -> None:
    assert COURSE.back(moment, by) == reached


@pytest.mark.parametrize(
    ("moment", "by", "reached"),
    [(0, 1, 10), (10, 1, 20), (15, -1, 0), (25, -1, 10), (25, 1, 30), (30, 1, 60), (60, -1, 30), (99, 1, 100)],
)
def test_steps_are_counted_over_all_launches(moment: int, by: int, reached: int) -> None:
    assert COURSE.step(moment, by) == reached


@pytest.mark.parametrize(("moment", "number"), [(9, -1), (10, 0), (59, 0), (60, 1), (70, 2)])
def test_a_launch_counts_from_its_first_step(moment: int, number: int) -> None:
    assert COURSE.launch(moment) == number


def test_of_a_trial_the_first_launch_is_meant() -> None:
    assert (COURSE.of_trial("a"), COURSE.of_trial("b"), COURSE.of_trial("c")) == (0, 1, None)


@pytest.mark.parametrize(
    ("end_ns", "moment_ns", "share"),
    [(100, FAR, 1), (100, -FAR, 0), (FAR, FAR, 1), (FAR, 5, 0), (-FAR, 5, 0), (100, 25, 0.25)],
    ids=["after it", "before it", "its end", "its begin", "after an end before its begin", "in it"],
)
def test_a_moment_outside_the_run_is_at_its_begin_or_end(end_ns: int, moment_ns: int, share: float) -> None:
    assert Course(0, end_ns, [launch("a", moment_ns, moment_ns)]).first_shares == [share]


def test_a_run_without_launches_has_no_place_to_go_to() -> None:
    empty = Course(0, 0, [])
    assert (empty.step(0, 1), empty.advance(0, 5), empty.back(0, 5), empty.launch(0)) == (0, (5, 0), -5, -1)
    assert empty.share(0) == 0


def test_changes_by_hand_are_noted_with_their_moments() -> None:
    changed = [Injection(at_ns=at_ms * MS, bottleneck=()) for at_ms in (3_150, 3_300)]
    found = noted([*journal()[:-1], *changed, journal()[-1]])
    assert list(found.changes_ns) == [3_150 * MS, 3_300 * MS]
    course = Course(3_000 * MS, 4_000 * MS, [found])
    assert course.change_shares == [0.15, 0.3]
