"""What is said of a training that is watched and stands still, is started again, fails, or is heard of no more."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ddptui.config.command_presets import preset_of
from ddptui.engines.rank_server import RankServer
from ddptui.run import supervisor, watch_supervisor
from ddptui.run.watch_supervisor import LOST_AFTER_S, NO_STEP_S, WatchSupervisor
from ddptui.store.journal import RepeatJournal
from ddptui.wire.messages import Failed, Position
from ddptui.wire.records import Notice, Restarted
from ddptui.wire.relay_file import Event
from tests.support.builders import SAVING, done, failed, heartbeat, hello, step

[TRIAL] = preset_of(("train.py",), name=None, skip=3, steps=None, overrides={}).trials


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def monotonic_ns(self) -> int:
        return int(self.now * 1e9)

    def passes(self, seconds: float, supervisor: WatchSupervisor) -> None:
        """Time goes on, and the console looks once a second."""
        for _ in range(int(seconds)):
            self.now += 1
            supervisor.is_over()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watch_supervisor, "time", clock)
    monkeypatch.setattr(supervisor, "time", clock)
    return clock


@pytest.fixture
def hub() -> Iterator[RankServer]:
    with RankServer(0) as hub:
        yield hub


Watch = Callable[..., WatchSupervisor]


@pytest.fixture
def watch(hub: RankServer, tmp_path: Path, clock: Clock) -> Watch:
    """Makes supervisors. events: what the processes of the command have written when the console looks for the second
    time; ranks: how many there are, where that is known; elsewhere: they run on other hosts."""

    def supervisor_of(*events: Event, ranks: int = 0, elsewhere: bool = False) -> WatchSupervisor:
        waiting: list[Event] = []
        launch = SimpleNamespace(
            ends_with_ranks=elsewhere,
            exit_code=None,
            end_reason=lambda: None,
            add_rank=lambda _: None,
            take_notices=list,
            process_status=lambda _: None,
            take_events=lambda: [waiting.pop(0) for _ in events if waiting],
        )
        hub.world_size = ranks
        with (tmp_path / "journal").open("wb") as journal:
            watched = WatchSupervisor(TRIAL, hub, launch, RepeatJournal(tmp_path, 1, journal))  # type: ignore[arg-type]
        watched.is_over()
        waiting += events
        return watched

    return supervisor_of


def notices(supervisor: WatchSupervisor) -> list[str]:
    """The texts of the new notices; there must be no other new records."""
    records = list(supervisor.take_records())
    assert all(isinstance(record, Notice) for record in records)
    return [record.text for record in records if isinstance(record, Notice)]


def ends(supervisor: WatchSupervisor, code: int) -> bool:
    """The command ends; whether the launch is over."""
    supervisor.launch.exit_code = code  # type: ignore[misc]
    return supervisor.is_over()


def event(what: str = "failed", **fields: Any) -> Event:
    return msgspec.convert({"what": what, "at_ns": 1, "pid": 1, **fields}, Event)


def test_after_a_minute_without_a_step_that_is_said_once(watch: Watch, clock: Clock) -> None:
    supervisor = watch()
    clock.passes(NO_STEP_S - 1, supervisor)
    assert notices(supervisor) == []
    clock.passes(1, supervisor)
    [notice] = notices(supervisor)
    assert notice == "no step for 60 s: no rank was seen: no process computed a gradient with torch"
    assert notices(supervisor) == []


def test_elsewhere_nothing_is_said_before_the_first_rank(watch: Watch, clock: Clock, hub: RankServer) -> None:
    supervisor = watch(elsewhere=True)
    clock.passes(10 * NO_STEP_S, supervisor)
    assert (notices(supervisor), supervisor.is_over()) == ([], False)
    hub.hellos[0] = hello(0)
    supervisor.add([hello(0)])
    clock.passes(TRIAL.stall_s - 1, supervisor)
    assert notices(supervisor) == []
    clock.passes(1, supervisor)
    assert notices(supervisor) == ["no step for 20 s: rank 0 has not begun to train"]
    assert supervisor.ended().error == "1 rank connected, but no step of an optimizer was seen"


def test_silent_ranks_elsewhere_are_lost_unless_the_console_slept(watch: Watch, clock: Clock) -> None:
    supervisor = watch(elsewhere=True)
    supervisor.add([hello(0), step(0, 0)])
    clock.now += 5 * LOST_AFTER_S  # in one leap
    assert not supervisor.is_over()
    assert notices(supervisor) == []
    clock.passes(LOST_AFTER_S + 1, supervisor)
    assert supervisor.is_over()
    assert supervisor.ended().error == "no message from its ranks for 60 s: they were killed, or cannot be reached"


def test_ranks_started_again_have_yet_to_train_and_why_is_said(watch: Watch, clock: Clock) -> None:
    supervisor = watch(ranks=2, elsewhere=True)
    supervisor.add([hello(0), hello(1), step(0), step(1), done(0), failed(1, "RuntimeError: out of data")])
    assert notices(supervisor) == []
    supervisor.add([done(1)])
    assert supervisor.has_trained()
    supervisor.add([hello(1), hello(0)])
    assert not supervisor.has_trained()
    [restarted] = supervisor.take_records()
    assert isinstance(restarted, Restarted)
    assert restarted.failure.summary == "rank 1 failed after step 0: RuntimeError: out of data"
    assert notices(supervisor) == []
    supervisor.add([step(0, 1), step(1, 1), done(0), done(1)])
    assert supervisor.is_over()
    assert supervisor.ended().failure is None  # the failure of the attempt before is over


def test_a_rank_that_has_failed_elsewhere_is_waited_for_until_lost(watch: Watch, clock: Clock) -> None:
    supervisor = watch(ranks=2, elsewhere=True)
    out = Failed(rank=1, at_ns=0, error="RuntimeError: out of data")
    supervisor.add([hello(0), hello(1), step(0), step(1), done(0), out])
    assert not supervisor.is_over()  # its launcher may start it again
    supervisor.add([hello(1), step(1), done(1)])
    assert (supervisor.is_over(), supervisor.ended().status) == (True, "ok")
    supervisor.add([hello(1), out])
    clock.passes(LOST_AFTER_S + 1, supervisor)
    why = "rank 1 failed before its first step: RuntimeError: out of data"
    assert (supervisor.is_over(), supervisor.ended().error) == (True, why)


REDUCES = Position(step=1, calls=1, number=0, kind="all_reduce", seq=2, bytes=400)


TRAINED = [hello(0), hello(1), step(0), step(1)]
STANDS_STILL = [*TRAINED, heartbeat(0, position=REDUCES), heartbeat(1, position=Position(step=1), stack=SAVING)]


def test_a_standstill_is_said_once_and_the_next_one_again(watch: Watch, clock: Clock) -> None:
    supervisor = watch(ranks=2)
    supervisor.add(STANDS_STILL)
    clock.passes(TRIAL.stall_s - 1, supervisor)
    assert notices(supervisor) == []
    clock.passes(1, supervisor)
    [notice] = notices(supervisor)
    assert notice.startswith("no step for 20 s: rank 1 ")
    assert "in save, train.py:18" in notice
    assert "rank 0 waits" in notice
    assert "\n" not in notice
    clock.passes(10 * TRIAL.stall_s, supervisor)
    assert notices(supervisor) == []
    supervisor.add([step(0, 1), step(1, 1), *(heartbeat(rank, position=Position(step=2)) for rank in (0, 1))])
    clock.passes(TRIAL.stall_s, supervisor)
    [notice] = notices(supervisor)
    assert notice.startswith("no step for 20 s: ranks 0 and 1 are in step 2, in data")


@pytest.mark.parametrize(
    ("step_s", "over", "after_s"),
    [(0.01, (), 20), (10, (), 50), (0.01, (done(1),), 20), (0.01, (done(0), done(1)), None)],
)
def test_a_standstill_is_longer_than_five_usual_steps_and_there_is_none_at_the_end(
    watch: Watch, clock: Clock, step_s: float, over: tuple[Any, ...], after_s: float | None
) -> None:
    supervisor = watch()
    first = 3_000
    steps = [step(rank, 0, begin_ms=first, end_ms=first + 1000 * step_s) for rank in (0, 1)]
    supervisor.add([hello(0), hello(1), *steps, *over])
    clock.passes((after_s or 1000) - 1, supervisor)
    assert notices(supervisor) == []
    clock.passes(1, supervisor)
    assert len(notices(supervisor)) == (after_s is not None)


LOST = "RuntimeError: [pair.cc:561] Connection closed by peer [127.0.0.1]:1"
BANNER = "ChildFailedError: train.py FAILED"
ADDRESS = "DistNetworkError: The server socket has failed to listen on any local network address. EADDRINUSE"


@pytest.mark.parametrize(
    ("last", "events", "summary", "rank"),
    [
        (  # the launcher knows the signal of a rank that died without a word
            (failed(1, ""), failed(0, LOST)), (event(error=BANNER, failures=[[1, 101, -9], [0, 100, 1]]),),
            "rank 1 was killed by SIGKILL after step 0", 1,
        ),
        (  # a launcher that knows processes only
            (failed(1, ""),), (event(error=BANNER, failures=[[1, 101, -11]]),),
            "rank 1 was killed by SIGSEGV after step 0", 1,
        ),
        ((failed(1, ""),), (), "rank 1 died without an error message after step 0", 1),
        ((), (event(error=BANNER, failures=[[1, 101, 7]]),), "rank 1 ended with exit code 7 after step 0", 1),
        (  # its observer was closed, as after destroy_process_group: it is found by its process
            (done(1),), (event(pid=101, error="ValueError: no metric", exit=1),),
            "rank 1 failed after step 0: ValueError: no metric", 1,
        ),
        # A child of a rank has the rank's environment, but is not the rank.
        ((), (event(pid=7, rank=1, error="ValueError: no", exit=1),), "the command failed: ValueError: no", None),
        ((), (), "the command ended with exit code 1", None),
        ((), (event(pid=7, error=ADDRESS),), f"the command failed: {ADDRESS}", None),
    ],
)  # fmt: skip
def test_the_first_cause_is_found_from_what_ranks_and_launchers_report(
    watch: Watch, last: tuple[Any, ...], events: tuple[Event, ...], summary: str, rank: int | None
) -> None:
    supervisor = watch(*events)
    supervisor.add([*TRAINED, *last])
    assert ends(supervisor, 1)
    ended = supervisor.ended()
    assert ended.failure
    assert (ended.status, ended.failure.summary, ended.failure.rank) == ("failed", summary, rank)
    assert ended.error == ended.failure.text


def test_a_late_rank_is_where_it_stood_when_the_others_gave_up_on_it(watch: Watch) -> None:
    supervisor = watch(ranks=2)
    supervisor.add(STANDS_STILL)
    gives_up = failed(0, "RuntimeError: Timed out waiting 6000ms for recv operation to complete")
    supervisor.add([msgspec.structs.replace(gives_up, position=REDUCES), failed(1, "", at_ms=9_000)])  # it has saved
    ends(supervisor, 1)
    assert (supervisor.ended().error or "").startswith("rank 1 kept rank 0 waiting: it was in save, train.py:18")


@pytest.mark.parametrize(("stands_s", "status"), [(0, "interrupted"), (TRIAL.stall_s + 1, "failed")])
def test_a_training_that_is_ended_from_outside_has_not_failed_unless_it_stood_still(
    watch: Watch, clock: Clock, stands_s: float, status: str
) -> None:
    unseen = watch()
    clock.passes(NO_STEP_S, unseen)
    assert len(notices(unseen)) == 1
    ends(unseen, -signal.SIGTERM)
    assert unseen.ended().status == "interrupted"  # of which no rank was seen
    killed = event(pid=7, error="SignalException: Process 7 got signal: 15", exit=1)
    supervisor = watch(killed, ranks=2)
    supervisor.add(STANDS_STILL)
    clock.passes(stands_s, supervisor)
    notices(supervisor)
    supervisor.add([failed(0, ""), failed(1, "")])
    ends(supervisor, 1)
    assert supervisor.ended().status == status


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, "ok"), (1, "failed"), (-signal.SIGINT, "interrupted"), (128 + signal.SIGINT, "interrupted")],
)
def test_a_silent_end_is_no_failure_if_the_command_ends_well(watch: Watch, code: int, status: str) -> None:
    supervisor = watch()
    supervisor.add([hello(0), hello(1), step(0), step(1), failed(0, ""), failed(1, "")])  # as by os._exit
    ends(supervisor, code)
    ended = supervisor.ended()
    assert (ended.status, ended.failure is None) == (status, status != "failed")


def test_the_exit_code_of_a_command_that_is_a_rank_itself_is_the_ranks(watch: Watch) -> None:
    supervisor = watch()
    supervisor.add([hello(0, world_size=1), step(0), failed(0, "")])
    supervisor.launch.pid = 100  # type: ignore[attr-defined]
    ends(supervisor, -signal.SIGKILL)
    assert (supervisor.ended().error or "").startswith("rank 0 was killed by SIGKILL after step 0")


def test_ranks_that_wait_in_init_process_group_and_those_that_never_came(watch: Watch, clock: Clock) -> None:
    joins = [event("joins", pid=100 + rank, rank=rank, world=3) for rank in (0, 1)]
    supervisor = watch(*joins)
    clock.passes(TRIAL.stall_s + 1, supervisor)
    wait = "ranks 0 and 1 wait in init_process_group; rank 2 has not called it"
    assert notices(supervisor) == [f"no step for 20 s: {wait}"]
    clock.passes(NO_STEP_S, supervisor)
    assert notices(supervisor) == []
    assert supervisor.ended().error == wait
    ends(supervisor, 1)
    assert (supervisor.ended().error or "").startswith("rank 2 never called init_process_group: ranks 0 and 1 wait")
