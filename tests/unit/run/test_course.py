"""Where a replay can go: the steps of all ranks, the first of each launch, changes of delays, and what is skipped."""

from collections.abc import Iterable

import msgspec
import pytest

from ddptui.analysis.clock_sync import Clocks
from ddptui.run.recording import Course, RecordedLaunch
from ddptui.wire.records import Injection, Message
from tests.support.builders import MS, ended, failed, hello, journal, launched, offset, ready, shown, step

FAR = 10**400  # no float is as large
BEGIN: list[Message] = [launched(), hello(0), hello(1)]


def noted(messages: Iterable[Message], by_ns: int = 0) -> Course:
    launch = RecordedLaunch(Clocks())
    launch.by_ns = by_ns
    for message in messages:
        launch.clocks.add(message)
        launch.messages.append(message)
    course = Course()
    course.add(launch.timed())
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
        ([*BEGIN, ready(0), msgspec.structs.replace(ready(1), at_ns=2_700 * MS), ended("failed", "stalled")], 2_700),
        ([*BEGIN, failed(at_ms=2_600), failed(1, at_ms=2_650), ended("failed", "no")], 9_500),
        ([launched(), ended("failed", "no rank")], 9_500),
        ([launched()], launched().at_ns / MS),
        ([*BEGIN, shown(0), msgspec.structs.replace(shown(1), at_ns=3_200 * MS)], 3_200),
    ],
    ids=["a step", "ranks that were ready", "a failure", "the end", "nothing more", "primitives"],
)
def test_there_is_something_to_see_from(messages: list[Message], first_ms: int) -> None:
    assert noted(messages).firsts_ns == [first_ms * MS]


def launch(trial: str, begin: int, end: int, *ends: int) -> list[tuple[int, Message]]:
    steps = [(at, step(0, number)) for number, at in enumerate(ends)]
    return [(begin, launched(trial)), (begin, hello(0)), *steps, (end, ended())]


def course_of(*launches: list[tuple[int, Message]]) -> Course:
    course = Course()
    for each in launches:
        course.add(each)
    return course


COURSE = course_of(launch("a", 0, 40, 10, 20, 30), launch("b", 45, 70, 60), launch("a", 70, 100, 70, 80))


@pytest.mark.parametrize(
    ("moment", "idle"),
    [(0, (0, 10)), (5, (0, 10)), (10, (10, 10)), (39, (39, 39)), (40, (40, 60)), (59, (40, 60)), (65, (65, 65))],
)
def test_from_a_launchs_end_to_the_first_step_of_the_next_nothing_is_to_be_seen(
    moment: int, idle: tuple[int, int]
) -> None:
    assert COURSE.idle(moment) == idle
    assert (Course().idle(0), Course().share(0)) == ((0, 0), 0)


@pytest.mark.parametrize(
    ("end", "moment", "share"),
    [(100, FAR, 1), (100, -FAR, 0), (FAR, FAR, 1), (FAR, 5, 0), (100, 25, 0.25)],
    ids=["after it", "before it", "its end", "its begin", "in it"],
)
def test_a_moment_outside_the_run_is_at_its_begin_or_end(end: int, moment: int, share: float) -> None:
    assert course_of(launch("a", 0, end)).share(moment) == share
