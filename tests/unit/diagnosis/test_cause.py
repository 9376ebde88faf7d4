"""The first cause of a watched training's failure, from what its ranks and launchers have reported."""

from collections.abc import Mapping
from typing import Any

import pytest

from ddptui.config.command_presets import preset_of
from ddptui.diagnosis.cause import Evidence, ProcessEnd, first_cause
from ddptui.diagnosis.positions import CallCountMismatch, RankProgress
from ddptui.wire.messages import Place, Position
from ddptui.wire.records import Failure

[TRIAL] = preset_of(("train.py",), name=None, skip=3, steps=None, overrides={}).trials
LOST = "RuntimeError: [/a/pair.cc:561] Connection closed by peer [127.0.0.1]:1. This is typically caused by a remote"
LATE = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
MODULE = Place("train.py", 30, "<module>", True)
SAVING = (Place("train.py", 18, "Disk.write", True), Place("/lib/serialization.py", 9, "save", False), MODULE)
REDUCING = (Place("/lib/torch.py", 5, "wrapper", False), Place("/lib/torch.py", 7, "all_reduce", False), MODULE)
AFTER = Position(step=59, passed=("forward", "backward", "optimizer"), phase="between steps")
BACKWARD = Position(
    step=60, calls=1, number=0, kind="all_reduce", ahead=True, phase="backward", seq=61, bytes=132 * 1024
)


def progress(position: Position = AFTER, **fields: Any) -> RankProgress:
    return RankProgress(position=position, steps=60, trains=True, **fields)


WAITING = {0: progress(stack=SAVING), 1: progress(BACKWARD, stack=REDUCING)}  # rank 1 for rank 0
SIGNALS = ("SIGTERM", "SIGINT")


def ended(rank: int | None, error: str = "", at_ms: int = 1, **fields: Any) -> ProcessEnd:
    return ProcessEnd(rank=rank, error=error, at_ns=at_ms, **fields)


def evidence(*ends: ProcessEnd, world_size: int, **fields: Any) -> Evidence:
    return Evidence(**({"trial": TRIAL, "exit_code": 1, "ends": ends, "positions": {}} | fields), world_size=world_size)


def cause(*ends: ProcessEnd, positions: Mapping[int, RankProgress] | None = None, **fields: Any) -> Failure:
    known = positions or {}
    return first_cause(evidence(*ends, positions=known, **({"world_size": len(known)} | fields)))


def test_an_exception_of_a_rank_comes_before_the_lost_connections_of_the_others() -> None:
    raised = ended(1, "KeyError: 'val/f1'", at_ms=2, stack=(MODULE,), progress=progress())
    failure = cause(ended(0, LOST, at_ms=1), raised, ended(None, "ChildFailed: 1", at_ms=0))
    assert failure.summary == "rank 1 failed after step 59, at train.py:30: KeyError: 'val/f1'"
    assert (failure.rank, failure.step, failure.place, failure.error) == (1, 59, "train.py:30", "KeyError: 'val/f1'")
    lost = "RuntimeError: Connection closed by peer [127.0.0.1]:1. This is typically caused by a remote"
    assert failure.details == (f"rank 0 failed as a consequence: {lost}",)


def test_ranks_that_fail_alike_are_one_cause() -> None:
    refused = [
        ended(rank, f"train.py: error: unrecognized arguments: --local-rank={rank}", exit_code=2) for rank in (0, 1)
    ]
    failure = cause(*refused)
    assert failure.summary.startswith("ranks 0 and 1 ended with exit code 2: train.py: error: unrecognized arguments")
    assert failure.rank is None
    assert "torchrun" in failure.remedy


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (-9, "was killed by SIGKILL after step 59; its memory had grown by 900 MB"),
        (None, "died without an error message after step 59; its memory had grown by 900 MB"),
        (-11, "was killed by SIGSEGV after step 59"),
        (3, "ended with exit code 3 after step 59"),
    ],
)
def test_a_silent_death_is_named_with_its_signal_and_the_memory(code: int | None, how: str) -> None:
    died = ended(1, exit_code=code, progress=progress(), grown_bytes=900 * 2**20)
    failure = cause(died, ended(0, LOST, at_ms=2), ended(2, exit_code=-15, at_ms=3))
    assert failure.summary == f"rank 1 {how}"
    assert ("memory" in failure.remedy) == (code in (-9, None))


def test_ranks_whose_collectives_do_not_match_are_out_of_step_whichever_of_them_aborts() -> None:
    metric = Position(
        step=59, passed=AFTER.passed, calls=4, number=3, kind="all_reduce", phase="between steps", seq=61, bytes=4,
    )  # fmt: skip
    positions = {0: progress(BACKWARD, stack=REDUCING), 1: progress(metric, stack=REDUCING)}
    failure = cause(ended(1, exit_code=-6, progress=positions[1]), ended(0, LOST), positions=positions)
    assert failure.summary == (
        "ranks are in different collectives: rank 1 is in all_reduce (4 B) after step 59, train.py:30; "
        "rank 0 is in all_reduce (132 KB) of step 60, train.py:30"
    )
    assert (failure.rank, failure.step) == (1, 59)


def test_a_rank_that_the_others_waited_for_is_named_not_the_one_whose_time_ran_out() -> None:
    failure = cause(ended(1, LATE, progress=WAITING[1]), positions=WAITING)
    assert failure.summary == (
        "rank 0 kept rank 1 waiting: it was in write, train.py:18, called by save, train.py:30, after step 59; "
        "rank 1 waited in all_reduce (132 KB) of step 60, train.py:30, for the time limit of 6 s"
    )
    assert (failure.rank, failure.place) == (0, "train.py:18")
    assert failure.details[0] == "rank 0: Disk.write (train.py:18) < <module> (train.py:30)"


def test_a_dead_loader_worker_is_the_cause_although_the_error_is_a_lost_connection() -> None:
    reset = ended(
        1, "ConnectionResetError: [Errno 104] Connection reset by peer", workers=((77, -9),), stack=(MODULE,),
        progress=progress(Position(step=78, phase="data")),
    )  # fmt: skip
    failure = cause(ended(0, LOST, at_ms=0), reset)
    assert failure.summary == (
        "rank 1 failed in data of step 78, at train.py:30: its DataLoader worker (process 77) was killed by SIGKILL"
    )
    assert failure.remedy


def test_a_launchers_own_error_counts_if_no_rank_has_one() -> None:
    error = "DistNetworkError: The server socket has failed to listen. port: 29733, code: -98, name: EADDRINUSE"
    failure = cause(ended(None, error), port_holder=lambda port: f"process 7 (python, {port})")
    assert failure.summary == f"the command failed: {error}"
    assert failure.remedy.startswith("port 29733 is in use by process 7 (python, 29733): ")


def test_a_signal_from_outside_is_the_cause_and_a_standstill_before_it_is_kept() -> None:
    killed, interrupted = (f"the command was killed by {name}, which another process sent" for name in SIGNALS)
    launcher = {number: ended(None, f"SignalException: Process 7 got signal: {number}", at_ms=9) for number in (15, 2)}
    ends = [ended(0, exit_code=-15), ended(1, exit_code=-15), launcher[15]]
    assert cause(*ends).summary == killed
    [stood, *_] = cause(*ends, positions=WAITING, stood_s=31.4).details
    assert stood.startswith(
        "no step for 31 s before: rank 0 has not arrived at all_reduce (132 KB) of step 60: it is in wr"
    )
    # ranks that end with the launcher are not accused, and an interrupt is no cause
    assert cause(*(ended(rank, progress=progress()) for rank in (0, 1)), launcher[15]).summary == killed
    pressed = [ended(rank, "KeyboardInterrupt", progress=progress()) for rank in (0, 1)]
    assert cause(*pressed, launcher[2]).summary == interrupted


def test_an_exception_that_was_being_handled_is_the_cause_of_what_followed_in_its_except_block() -> None:
    for error, said in (
        (
            f"{LATE}\norigin: train.py:9: FloatingPointError: loss scale fell below 1e-8",
            "train.py:9: FloatingPointError: loss scale fell below 1e-8",
        ),
        (
            "RuntimeError: no schedule\norigin: train.py:9: KeyError: 'lr'",
            "train.py:30: RuntimeError: no schedule (after train.py:9: KeyError: 'lr')",
        ),
    ):
        failure = cause(ended(1, error, stack=(MODULE,), progress=progress()))
        assert failure.summary == f"rank 1 failed after step 59, at {said}"


def test_a_thread_that_has_failed_is_named_with_the_rank_that_waits_for_it() -> None:
    late = ended(1, LATE, progress=WAITING[1])
    failure = cause(late, positions=WAITING, threads={0: "OSError: cut off, at train.py:3"})
    assert failure.summary.endswith("; a thread of rank 0 had failed: OSError: cut off, at train.py:3")
    assert failure.remedy == ""


def test_a_step_in_which_ranks_called_different_numbers_of_collectives_comes_before_what_it_led_to() -> None:
    mismatch = CallCountMismatch(10, {0: 1, 1: 0, 2: 1})
    positions = WAITING | {2: progress(BACKWARD)}
    failure = cause(ended(1, LATE, progress=WAITING[1]), positions=positions, mismatch=mismatch)
    assert failure.summary == (
        "rank 1 has been out of step with the others since step 10: there, rank 1 called 0 collectives, the others 1"
    )
    assert failure.rank == 1


def test_ranks_that_never_came_are_named() -> None:
    error = "DistStoreError: Timed out after 31 seconds waiting for clients. 2/3 clients joined."
    failure = cause(ended(0, error), world_size=3, joining=[0, 1])
    assert failure.summary == "rank 2 never called init_process_group: ranks 0 and 1 wait there"
    assert failure.rank == 2
    other = cause(ended(0, error), world_size=4, launched=2, joining=[0, 1])
    assert other.summary.startswith("the script asks for a world size of 4, and its launcher has started 2 ranks: ")


def test_ranks_that_find_old_addresses_after_a_restart_are_named_once_and_none_is_said_to_be_missing() -> None:
    mesh = "RuntimeError: Gloo connectFullMesh failed with [/src/gloo/pair.cc:152] timed out: Connection refused"
    group = Place(file="train.py", line=6, function="<module>", own=True)
    failure = cause(ended(0, mesh, stack=(group,)), world_size=2, joining=[0])
    words = "RuntimeError: Gloo connectFullMesh failed with timed out: Connection refused"
    assert failure.summary == f"rank 0 failed, at train.py:6: {words}"
    assert "from before a restart" in failure.remedy
    assert not failure.details
    failure = cause(*(ended(rank, f"{words}, remote=[127.0.0.1]:470{rank}") for rank in (0, 1)), joining=[0, 1])
    assert failure.summary == f"ranks 0 and 1 failed: {words}, remote=[127.0.0.1]:4700"
    assert not failure.details
