"""Who stands still, where, and since when: heard from ranks that never were."""

from collections.abc import Iterable

import msgspec
import pytest

from ddptui.diagnosis.positions import RankProgress, Stall, different_collectives, records_kept
from ddptui.diagnosis.stall import StallDetector
from ddptui.wire.messages import Collective, Heartbeat, Position, RankMessage
from tests.support.builders import done, heartbeat, ready, step

S = 1_000_000_000  # ns
STALL_S = 20.0
IN_ALL_REDUCE = Position(step=5, passed=("data", "forward", "backward"), calls=1, number=0, kind="all_reduce")
IN_FORWARD = Position(step=5, passed=("data",))
IN_BARRIER = Position(step=5, calls=1, number=0, kind="barrier")
IN_REDUCE = Position(step=5, passed=("data", "forward"), calls=1, number=0, kind="reduce", root=0, bytes=4)
LEFT = Position(phase="between steps")
IN_BACKGROUND = msgspec.structs.replace(IN_ALL_REDUCE, passed=("data", "forward"), ahead=True)
IN_DDP = msgspec.structs.replace(IN_BACKGROUND, passed=("data", "forward"))
WAITS_FOR_FOUR = msgspec.structs.replace(IN_ALL_REDUCE, calls=4)
IN_GATHER = msgspec.structs.replace(IN_ALL_REDUCE, kind="gather")
LATER = Position(step=5, passed=("data",), calls=3, number=2, kind="broadcast", root=0)
OF_TWO = msgspec.structs.replace(IN_ALL_REDUCE, group=(0, 1))
THREE_CALLS, ONE_CALL = (msgspec.structs.replace(IN_BACKGROUND, calls=calls) for calls in (3, 1))
LARGER, SMALLER = (msgspec.structs.replace(IN_ALL_REDUCE, bytes=size) for size in (5980, 3292))
AHEAD, BEHIND = Position(step=7), "rank 0 is in step 7, in data; rank 1 is in step 5"
PASSED = ("data", "forward", "backward")
SENDS = Position(step=5, passed=PASSED, calls=2, number=0, kind="send", root=1)
RECEIVES = Position(step=5, passed=PASSED, calls=2, number=0, kind="recv", root=1)
RECEIVES_LATER = msgspec.structs.replace(RECEIVES, calls=4, number=3)


def beat(rank: int, position: Position, cpu_percent: float = 0.0) -> Heartbeat:
    return heartbeat(rank, cpu_percent=cpu_percent, position=position)


def made(rank: int, number: int, calls: int = 1) -> RankMessage:
    """A step with so many collectives."""
    return msgspec.structs.replace(
        step(rank, number), collectives=tuple(Collective("all_reduce", n, 8, 1, 2, 2, 3) for n in range(calls))
    )


class Launch:
    """Ranks that are where they are, beating once a second."""

    def __init__(self, ranks: int, *, stall_s: float = STALL_S, beats: bool = True) -> None:
        self.stall_detector = StallDetector(ranks, stall_s, beats=beats)
        self.now_s = 100.0
        for rank in range(ranks):
            self.add(ready(rank), made(rank, 4))

    def add(self, *messages: RankMessage) -> None:
        for message in messages:
            self.stall_detector.add(message, round(self.now_s * S))

    def stay(self, seconds: float, at: dict[int, Position], **states: str) -> Stall | None:
        """Let time go by with these ranks beating, and the others silent."""
        return self.until(seconds, [beat(rank, position) for rank, position in at.items()], **states)

    def until(self, seconds: float, beats: Iterable[RankMessage], **states: str) -> Stall | None:
        end_s = self.now_s + seconds
        processes = {rank: states.get(f"rank{rank}", "sleeping") for rank in range(8)}
        while self.now_s < end_s:
            self.now_s += 1
            self.add(*beats)
            if found := self.stall_detector.check(round(self.now_s * S), processes):
                return found
        return None


def headline(stall: Stall) -> str:
    return stall.why.splitlines()[0]


def test_a_stopped_rank_is_named_with_the_collective_that_it_keeps_the_others_from() -> None:
    found = Launch(3).stay(STALL_S, {0: IN_ALL_REDUCE, 2: IN_ALL_REDUCE}, rank1="stopped")
    assert headline(found) == (
        "rank 1 has not arrived at all_reduce 0 of step 5: it is stopped, as by SIGSTOP; "
        "ranks 0 and 2 wait there; no progress for 20 s"
    )
    assert found.rank == 1
    assert "--set stall_s=60" in found.why.splitlines()[1]


@pytest.mark.parametrize(
    ("positions", "words", "suspect"),
    [
        (
            (IN_ALL_REDUCE, IN_FORWARD, IN_ALL_REDUCE),
            "rank 1 has not arrived at all_reduce 0 of step 5: it is in step 5, in forward; ranks 0 and 2 wait there",
            1,
        ),
        (  # of two collectives the first is the one that counts
            (LATER, IN_ALL_REDUCE),
            "rank 0 has gone past all_reduce 0 of step 5: rank 1 waits there; rank 0 is in broadcast 2 of step 5",
            0,
        ),
        # a collective of a group needs only its members
        ((OF_TWO, IN_FORWARD, IN_FORWARD), "rank 1 has not arrived at all_reduce 0 of step 5: it is in step 5", 1),
        (
            (IN_ALL_REDUCE, WAITS_FOR_FOUR),  # all at once, and then a wait for each
            "ranks 0 and 1 wait in all_reduce 0 of step 5, which does not finish; no progress for 20 s",
            None,
        ),
        (
            (THREE_CALLS, ONE_CALL, THREE_CALLS),
            "rank 1 has not arrived at all_reduce 1 of step 5: it is in step 5, in backward; ranks 0 and 2 wait there",
            1,
        ),
        (
            (LARGER, SMALLER, LARGER),
            "ranks are in different collectives: rank 1 is in all_reduce 0 of step 5 (3.21 KB); "
            "ranks 0 and 2 are in all_reduce 0 of step 5 (5.84 KB); ",
            1,
        ),
        ((LARGER, SMALLER), "ranks are in different collectives: ", None),
        (
            (SENDS, IN_BARRIER, RECEIVES),
            "ranks are in different collectives: rank 1 is in barrier 0 of step 5, in data; rank 0 is in send 0 of "
            "step 5, past its backward; rank 2 is in recv 0 of step 5, past its backward; no progress for 20 s",
            1,
        ),
        ((SENDS, IN_BARRIER, RECEIVES_LATER), "ranks are in different collectives: rank 1 is in barrier 0", 1),
        (
            (SENDS, SENDS, RECEIVES_LATER),
            "ranks 0 and 1 are in send 0 of step 5; rank 2 is in recv 3 of step 5; ",
            None,
        ),
        (
            (SENDS, LEFT, RECEIVES),
            "rank 1 has not arrived at recv/send 0 of step 5: it has left its training loop after 5 steps; "
            "ranks 0 and 2 wait there",
            1,
        ),
        # a rank is in the phase that is known
        ((AHEAD, IN_FORWARD), f"{BEHIND}, in forward; ", 1),
        ((AHEAD, Position(step=5)), f"{BEHIND}, in data; ", 1),
        ((AHEAD, Position(step=5, phase="between steps")), f"{BEHIND}; ", 1),  # without a loader, maybe in forward
        ((AHEAD, Position(step=5, passed=PASSED, phase="between steps")), f"{BEHIND}, past its backward; ", 1),
        ((AHEAD, Position(step=5, passed=("backward",), phase="optimizer")), f"{BEHIND}, in optimizer; ", 1),
    ],
)
def test_who_waits_where_and_who_has_not_arrived_is_said(
    positions: tuple[Position, ...], words: str, suspect: int | None
) -> None:
    found = Launch(len(positions)).stay(STALL_S, dict(enumerate(positions)))
    assert headline(found).startswith(words)
    assert found.suspect == suspect


def test_ranks_of_one_stopped_process_are_named_together_though_one_was_heard_for_longer() -> None:
    launch = Launch(2)
    assert launch.until(1, [beat(1, Position())]) is None
    found = launch.stay(STALL_S, {}, rank0="stopped", rank1="stopped")
    assert headline(found).startswith("ranks 0 and 1 are stopped, as by SIGSTOP; no progress for")


def test_a_rank_that_is_stopped_in_the_midst_of_a_collective_does_not_wait_there() -> None:
    launch = Launch(2)
    launch.add(beat(0, IN_ALL_REDUCE), beat(1, IN_ALL_REDUCE))
    found = launch.stay(STALL_S, {0: IN_ALL_REDUCE}, rank1="stopped")
    assert headline(found) == (
        "rank 1 is stopped, as by SIGSTOP; rank 0 waits in all_reduce 0 of step 5; no progress for 20 s"
    )
    assert found.rank == 1


@pytest.mark.parametrize("stood_still", [False, True])
def test_it_is_said_in_time_and_not_before_and_a_console_that_stood_still_itself_blames_nobody(
    stood_still: bool,
) -> None:
    launch = Launch(2)
    if stood_still:
        launch.now_s += 100
        launch.stall_detector.restart_timers(round(launch.now_s * S))
    assert launch.stay(STALL_S - 3, {0: IN_ALL_REDUCE, 1: IN_FORWARD}) is None
    assert launch.stay(3, {0: IN_ALL_REDUCE, 1: IN_FORWARD}) is not None


def test_a_rank_that_left_a_collective_out_is_named_though_all_went_on() -> None:
    launch = Launch(3)
    launch.add(made(0, 5), made(1, 5, calls=0), made(2, 5))
    for number in (6, 7):
        launch.add(*(made(rank, number) for rank in range(3)))
    found = launch.stay(STALL_S, dict.fromkeys(range(3), Position()))
    assert headline(found) == (
        "rank 1 has been out of step with the others since step 5: there, rank 1 called 0 collectives, the others 1; "
        "now ranks 0–2 have made their last step (7); no progress for 20 s"
    )
    assert found.rank == 1


def test_ranks_that_come_further_do_not_stall_and_one_is_enough() -> None:
    together, alone = Launch(2), Launch(2)
    for number in range(5, 30):
        together.add(made(0, number), made(1, number))
        assert together.stay(2, {0: IN_ALL_REDUCE, 1: IN_FORWARD}) is None
        there = Position(step=5, passed=("data",), calls=number)
        assert alone.stay(2, {0: IN_ALL_REDUCE, 1: there}) is None


def test_a_delay_that_was_put_in_is_no_stall_however_long() -> None:
    asleep = msgspec.structs.replace(IN_FORWARD, asleep=True)
    assert Launch(2).stay(10 * STALL_S, {0: IN_ALL_REDUCE, 1: asleep}) is None


@pytest.mark.parametrize("position", [IN_FORWARD, IN_BACKGROUND])
def test_a_rank_that_computes_is_given_ten_times_as_long(position: Position) -> None:
    launch = Launch(2)
    computes = [beat(0, IN_ALL_REDUCE), beat(1, position, cpu_percent=99.0)]
    assert launch.until(9 * STALL_S, computes) is None
    assert launch.until(2 * STALL_S, computes) is not None
    spins = [beat(0, IN_ALL_REDUCE, cpu_percent=100.0), beat(1, position)]
    assert Launch(2).until(STALL_S, spins) is not None


def test_a_rank_that_waits_for_a_disk_now_and_then_is_given_as_long() -> None:
    launch = Launch(2)
    for _ in range(18):
        assert launch.stay(9, {0: IN_ALL_REDUCE, 1: IN_FORWARD}) is None
        assert launch.stay(1, {0: IN_ALL_REDUCE, 1: IN_FORWARD}, rank1="disk-sleep") is None
    assert launch.stay(STALL_S, {0: IN_ALL_REDUCE, 1: IN_FORWARD}, rank1="disk-sleep") is not None


def test_a_silent_rank_stalls_the_launch_though_others_go_on() -> None:
    launch, found, number = Launch(2), None, 5
    while found is None and number < 60:
        launch.add(made(0, number))
        found = launch.stay(1, {0: Position(step=number)})
        number += 1
    assert headline(found) == "rank 1 sends no heartbeats (process sleeping); no progress for 20 s"


def test_a_rank_that_starts_may_take_its_time_unless_it_is_silent_but_must_come_further_some_day() -> None:
    def starting() -> Launch:
        launch = Launch(2)
        launch.stall_detector = StallDetector(2, STALL_S, start_s=5 * STALL_S)
        launch.add(heartbeat(0), heartbeat(1))
        return launch

    launch = starting()
    assert launch.stay(4 * STALL_S, {0: Position(), 1: Position()}) is None
    assert headline(launch.stay(STALL_S, {0: Position()}, rank1="stopped")).startswith("rank 1 is stopped")
    found = starting().stay(6 * STALL_S, {0: Position(), 1: Position()})
    assert headline(found) == "ranks 0 and 1 have not begun to train; no progress for 100 s"
    assert "stall_s" not in found.why
    assert starting().stay(50 * STALL_S, {0: Position(), 1: Position(asleep=True)}) is None


LONE = {  # the position of rank 1, and of the others; and their phases
    "a barrier before the step": (IN_BARRIER, IN_ALL_REDUCE, ", in data", ", past its backward"),
    "a metric's reduce": (IN_REDUCE, IN_ALL_REDUCE, ", in backward", ", past its backward"),
    "beside several at once": (IN_BARRIER, WAITS_FOR_FOUR, ", in data", ", past its backward"),
    "beside a gather": (IN_REDUCE, IN_GATHER, ", in backward", ", past its backward"),
    "a barrier beside DDP": (IN_BARRIER, IN_DDP, ", in data", ", in backward"),
    "a reduce beside DDP": (IN_REDUCE, IN_DDP, "", ""),
}


@pytest.mark.parametrize(("own", "others", "phase", "their_phase"), LONE.values(), ids=LONE)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_in_a_collective_of_its_own_is_named_first(
    ranks: int, own: Position, others: Position, phase: str, their_phase: str
) -> None:
    found = Launch(ranks).stay(STALL_S, dict.fromkeys(range(ranks), others) | {1: own})
    they = "rank 0 is" if ranks == 2 else "ranks 0, 2 and 3 are"
    there = f"{others.kind} 0 of step 5{their_phase if ranks == 2 else their_phase.replace('its', 'their')}"
    assert headline(found) == (
        f"ranks are in different collectives: rank 1 is in {own.kind} 0 of step 5{phase}; {they} in {there}; "
        "no progress for 20 s"
    )
    assert found.suspect == 1


def test_ranks_are_told_in_one_order_whichever_was_heard_first() -> None:
    positions = {rank: RankProgress(position=at) for rank, at in ((2, RECEIVES), (1, IN_BARRIER), (0, SENDS))}
    words, *_ = different_collectives(positions)
    assert [part.split(" is ")[0] for part in words.partition(": ")[2].split("; ")] == ["rank 1", "rank 0", "rank 2"]


def test_who_is_done_is_waited_for_by_nobody() -> None:
    launch = Launch(2)
    launch.add(done(0))
    assert launch.stay(STALL_S - 3, {1: Position()}) is None
    assert headline(launch.stay(STALL_S, {1: Position()})).startswith("rank 1 has made its last step (4)")
    launch.add(done(1))
    assert launch.stay(5 * STALL_S, {}) is None


@pytest.mark.parametrize(("state", "stall_detector"), [("sleeping", False), ("stopped", True)])
def test_without_instruments_only_a_stopped_process_is_seen(state: str, stall_detector: bool) -> None:
    launch = Launch(2, beats=False)
    assert launch.stay(STALL_S - 3, {}, rank1=state) is None
    assert (launch.stay(STALL_S, {}, rank1=state) is not None) is stall_detector


def test_a_line_leads_to_what_ranks_have_left_and_there_is_none_without() -> None:
    assert records_kept([], "trial-a/repeat-1") == ""
    assert records_kept([0, 2, 3, 4], "trial-a/repeat-1") == (
        "\nthe last collectives of ranks 0 and 2–4, by torch's flight recorder: trial-a/repeat-1/*.flight.json in the "
        "run's folder"
    )


def test_a_replica_without_samples_is_compared_with_nobody() -> None:
    launch = Launch(2)
    launch.add(made(0, 5), msgspec.structs.replace(made(1, 5, calls=0), samples=0))
    assert "out of step" not in headline(launch.stay(STALL_S, {0: IN_ALL_REDUCE, 1: IN_FORWARD}))
