"""Why a launch failed: which rank went first, and how."""

from typing import Any

import pytest

from ddptui.config.trial import Trial
from ddptui.diagnosis.failure import explain_end, explain_failure, with_log
from ddptui.diagnosis.known_errors import SHARED_MEMORY
from ddptui.diagnosis.memory import memory_remedy
from ddptui.text.words import printable
from ddptui.wire.records import Failure
from tests.support.builders import failed
from tests.unit.diagnosis.test_known_errors import DATA, DUPLICATE, LESS_ON_GPU, NCCL, OOM, SHM, SYSTEM, WATCHDOG

ROOT_CAUSE = """\
ChildFailedError:
workers.launch FAILED
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 10)
Root Cause (first observed failure):
[0]:
  time      : 2030-01-02
  host      : here
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 11)
"""
VICTIM = "RuntimeError: Connection closed by peer [127.0.0.1]:1"


def explained(**known: Any) -> Failure:
    nothing: dict[str, Any] = {
        "trial": Trial(), "exit_code": 1, "launcher_log": "", "rank_logs": {},
        "failed": [], "silent": [], "missing": [],
    }  # fmt: skip
    return explain_failure(**(nothing | known))


def first_line(**known: Any) -> str:
    return explained(**known).text.splitlines()[0]


@pytest.mark.parametrize(
    ("code", "how"), [(-9, "was killed by SIGKILL"), (-200, "was killed by signal 200"), (3, "ended with exit code 3")]
)
def test_our_launchers_and_torchrun_have_seen_who_went_first(code: int, how: str) -> None:
    ours = f"some warning\nrank 1 ended with exit code {code}\nrank 0 ended with exit code 1\n"
    assert first_line(launcher_log=ours, silent=[0]) == f"rank 1 {how}"
    assert first_line(launcher_log=ROOT_CAUSE.format(code=code), silent=[0]) == f"rank 1 {how}"


def test_the_first_to_fail_is_the_cause() -> None:
    words = [failed(0, "ValueError: late", at_ms=2), failed(1, "KeyError: 'early'", at_ms=1)]
    assert first_line(failed=words) == "rank 1 failed: KeyError: 'early'"
    assert first_line(exit_code=-15, failed=words[:1]) == "rank 0 failed: ValueError: late"  # not the launcher's signal
    seen = "rank 0 ended with exit code 1"
    assert first_line(launcher_log=seen, failed=words) == "rank 0 failed: ValueError: late"


@pytest.mark.parametrize("said", [VICTIM, "RuntimeError: Broken pipe"])
def test_a_rank_whose_peer_is_gone_is_not_the_cause_and_of_victims_alone_the_first_is_named(said: str) -> None:
    words = [failed(0, said, at_ms=2), failed(1, "KeyError: 'cause'", at_ms=3), failed(2, said, at_ms=1)]
    assert first_line(failed=words) == "rank 1 failed: KeyError: 'cause'"
    assert first_line(failed=words[:1], silent=[2, 1]) == "rank 2 died without an error message"
    lost = "rank 2: another rank ended and closed its connections: its own error is the cause"
    assert first_line(failed=[words[0], words[2]]) == lost


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"exit_code": -9}, "the launcher was killed by SIGKILL"),
        ({"exit_code": -15, "silent": [0, 1]}, "the launcher was killed by SIGTERM"),
        ({"exit_code": None, "silent": [1]}, "rank 1 died without an error message"),
        ({"exit_code": 2, "missing": [1, 2]}, "rank 1 never connected; the launcher ended with exit code 2"),
        ({"exit_code": 0}, "the ranks ended without a result; the launcher ended with exit code 0"),
    ],
)
def test_without_last_words_it_is_said_who_is_gone(known: dict[str, Any], words: str) -> None:
    assert first_line(**known) == words


def test_the_end_of_the_ranks_own_log_is_shown_else_the_launchers() -> None:
    def shown(own: str, *silent: int) -> list[str]:
        return [*explained(launcher_log="launcher", rank_logs={0: "zero", 1: own}, silent=silent).details]

    assert (shown("one", 1), shown("", 1), shown("one")) == (["one"], ["launcher"], ["launcher"])


def test_the_last_lines_of_a_log_are_shown_without_blank_ones_and_long_ones_cut() -> None:
    log = "\n".join(f"line {number}\n   " for number in range(20))
    assert with_log("headline", log).splitlines() == ["headline", *(f"line {number}" for number in range(12, 20))]
    assert with_log("headline", "") == with_log("headline", "", name="rank-1.log") == "headline"
    assert with_log("headline", "line", name="rank-1.log") == "headline\nthe end of rank-1.log:\nline"
    assert with_log("headline", "x" * 1_000).splitlines()[1] == "x" * 300


GLOO = """\
terminate called after throwing an instance of 'gloo::EnforceNotMet'
  what():  [enforce fail at pair.cc:464] op.preamble.length <= op.nbytes. 684 vs 8. Received data size doesn't match
"""
OUT_OF_STEP = (
    "the ranks are out of step: gloo received 684 bytes where it expected 8; all ranks must make the same calls"
)
DUMP = "\n".join(
    [
        "Fatal Python error: Aborted", "",
        *("Thread 0x7f8c (most recent call first):", *(f'  File "zmq/{n}.py", line 1 in poll' for n in range(70)), ""),
        *("{}hread 0x7f8d (most recent call first):", *(f'  File "own/{n}.py", line 1 in own' for n in range(40)), ""),
        "Extension modules: numpy (total: 1)",
    ]
)  # fmt: skip
OF_THREAD, OF_ANOTHER = DUMP.format("Current t"), DUMP.format("T")
INNERMOST = [f'  File "own/{n}.py", line 1 in own' for n in range(4)]


@pytest.mark.parametrize("after", ["", OF_THREAD, OF_ANOTHER, "frame #0: abort\n" * 20])
def test_what_native_code_said_is_found_before_the_dump_of_all_threads(after: str) -> None:
    log = f"rank 1  epoch 0  step 0  loss 2.4929\nfault, step 9: mismatch\n{GLOO}{after}"
    failure = explained(launcher_log="rank 1 ended with exit code -6", rank_logs={1: log})
    assert failure.summary.startswith(f"rank 1 was killed by SIGABRT: {OUT_OF_STEP}")
    assert failure.rank == 1
    assert failure.details[:4] == tuple(log.splitlines()[:4])
    assert len(failure.details) <= 8


def test_of_a_crash_the_innermost_lines_of_its_thread_are_shown() -> None:
    shown = with_log("headline", f"a line\n{OF_THREAD}").splitlines()[1:]
    head = ["a line", "Fatal Python error: Aborted", "Current thread 0x7f8d (most recent call first):"]
    assert shown == [*head, *INNERMOST]
    assert with_log("headline", f"a line\n{OF_ANOTHER}").splitlines()[1:] == head[:2]


LEFT = "rank 0  left the training loop\n"


@pytest.mark.parametrize(
    ("code", "log", "rank"), [(-6, GLOO, 0), (-6, f"{LEFT.replace('0', '1')}{GLOO}", 1), (-6, "", 1), (-9, GLOO, 1)]
)
def test_a_rank_that_has_left_its_loop_is_the_cause_of_anothers_size_error(code: int, log: str, rank: int) -> None:
    failure = explained(launcher_log=f"rank 1 ended with exit code {code}", rank_logs={0: LEFT, 1: log})
    assert failure.rank == rank
    left = f"rank 0 has left its training loop, and rank 1 has not: it was killed by SIGABRT: {OUT_OF_STEP}"
    assert failure.summary.startswith("rank 1 was killed" if rank else left)


@pytest.mark.parametrize(
    ("known", "rank"),
    [
        ({"failed": [failed(1, "KeyError: 'cause'")]}, 1),
        ({"failed": [failed(1, VICTIM)]}, None),
        ({"silent": [2]}, 2),
        ({"missing": [1]}, 1),
        ({"missing": [1, 2]}, None),
        ({"one_process": True}, 0),
        ({"exit_code": -9}, None),
    ],
)
def test_a_failure_names_the_rank_that_is_its_cause_if_it_is_known(known: dict[str, Any], rank: int | None) -> None:
    assert explained(**known).rank == rank


PYTHON = "/usr/lib/python3.11/multiprocessing"
TRACKER = f"""\
{PYTHON}/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 14 leaked semaphore objects
  warnings.warn('resource_tracker: There appear to be %d '
{PYTHON}/resource_tracker.py:267: UserWarning: resource_tracker: '/mp-5x': [Errno 2] No such file or directory
  warnings.warn('resource_tracker: %r: %s' % (name, e))
"""
TRACKER_SINCE_3_12 = f"""\
{PYTHON}/resource_tracker.py:279: UserWarning: resource_tracker: There appear to be 1 leaked semaphore objects: '/mp-5x'
  warnings.warn(
"""
SHARER = f"""\
Traceback (most recent call last):
  File "{PYTHON}/resource_sharer.py", line 138, in _serve
    with self._listener.accept() as conn:
         ^^^^^^^^^^^^^^^^^^^^^^^
  File "{PYTHON}/connection.py", line 399, in _recv
    raise EOFError
EOFError
"""
OWN = f"""\
Traceback (most recent call last):
  File "{PYTHON}/resource_sharer.py", line 57, in detach
    with _resource_sharer.get_connection(self._id) as conn:
ConnectionRefusedError: [Errno 111] Connection refused
"""


@pytest.mark.parametrize("afterwards", [TRACKER_SINCE_3_12, SHARER, SHARER + TRACKER, TRACKER.rstrip()])
def test_what_pythons_helpers_say_after_a_killed_rank_is_left_out(afterwards: str) -> None:
    assert with_log("headline", f"fault, step 5: kill\n{afterwards}") == "headline\nfault, step 5: kill"
    assert with_log("headline", f"{afterwards.rstrip()}\n  its own line") == "headline\n  its own line"
    own = f"a.py:1: UserWarning: mine\n  warnings.warn('mine')\n{OWN}".rstrip()
    assert with_log("headline", f"{own}\n{afterwards}") == f"headline\n{own}"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain – ünï 图", "plain – ünï 图"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("tab\tdel\x7fcsi\x9b", r"tab\tdel\x7fcsi\x9b"),
        ("right\u202eleft half\udcff", r"right\u202eleft half\udcff"),
        ("two\nlines", r"two\nlines"),
    ],
)
def test_control_characters_are_spelled_out(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_nothing_a_rank_says_reaches_the_terminal_unspelled() -> None:
    evil = "\x1b[31mred\x1b[0m\x9b2J\u202e"
    told = explained(rank_logs={0: f"{evil}\r{evil}"}, failed=[failed(0, evil)])
    assert all(char.isprintable() or char == "\n" for char in told.text)


LOST = "the process that forks the ranks was killed by SIGKILL"


@pytest.mark.parametrize(
    ("why", "memory_was_short", "expected"),
    [
        (LOST, True, f"{LOST}: the kernel killed it because memory ran out; {memory_remedy(Trial())}"),
        (LOST, False, LOST),
        ("job 17 was canceled by root", True, "job 17 was canceled by root"),
    ],
)
def test_a_process_of_the_engine_that_the_kernel_killed_for_memory_is_told_so(
    why: str, memory_was_short: bool, expected: str
) -> None:
    assert explain_end(why, Trial(), "a line\n", memory_was_short).text.splitlines() == [expected, "a line"]


def told(**known: Any) -> list[str]:
    return explained(**known).text.splitlines()


def alone(code: int, log: str) -> str:
    """The first sentence about a failed launch of one process with this log."""
    return first_line(exit_code=code, one_process=True, rank_logs={0: log})


def test_the_rank_is_named_and_its_log_follows_and_an_error_of_several_lines_is_one() -> None:
    first, *rest = told(failed=[failed(1, OOM)], rank_logs={1: "Traceback\n  a line"})
    assert first == f"rank 1 ran out of memory on cuda:0: 20.00 GiB asked, 3.50 GiB free of 79.11 GiB; {LESS_ON_GPU}"
    assert rest == ["Traceback", "  a line"]
    [line] = told(failed=[failed(0, DUPLICATE)])
    assert line.startswith("rank 0: NCCL does not allow two ranks on one GPU, here ranks 1 and 0: share_gpu = true")


WORKER = "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly"
BUS_ERROR = "ERROR: Unexpected bus error encountered in worker. This might be\n"
NCCL_ERROR = NCCL.format("unhandled system error", SYSTEM, "")
NO_ROOM = f"a note\n{SHM} (size 9637888), error: No space left on device (28)\nTraceback\n"


@pytest.mark.parametrize(
    ("error", "log", "says"),
    [
        (NCCL_ERROR, "", "NCCL failed: ncclSystemError"),
        (NCCL_ERROR, NO_ROOM, f"rank 0: NCCL finds no room in /dev/shm; {SHARED_MEMORY}"),
        (WORKER, "", "for an unknown reason"),
        (WORKER, f"Traceback\n{DATA.format(7, 'Killed')}\n", "ended (Killed): memory may be short"),
        (WORKER, BUS_ERROR, "/dev/shm is full"),
        ("ValueError: no", BUS_ERROR, "failed: ValueError: no"),
    ],
)
def test_what_nccl_or_a_dataloader_wrote_to_the_log_is_better_than_its_error(error: str, log: str, says: str) -> None:
    assert says in first_line(failed=[failed(0, error)], rank_logs={0: log})


def test_a_rank_that_said_nothing_is_explained_by_its_log() -> None:
    killed = {"launcher_log": "rank 1 ended with exit code -6", "silent": [1]}
    assert first_line(**killed) == "rank 1 was killed by SIGABRT"
    frames = "\n".join(f"frame #{number}: c10d::f()" for number in range(20))
    first = first_line(**killed, rank_logs={1: f"{WATCHDOG}\n{frames}"})
    assert first.startswith("rank 1 was killed by SIGABRT: NCCL timed out in allreduce after 600 s")
    out_of_memory = "rank 0 was killed by SIGABRT: ran out of memory on cuda:0"
    assert alone(-6, f"RuntimeError: {OOM}").startswith(out_of_memory)


DRIVER = (
    "/torch/cuda/__init__.py:180: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found "
    "version 12040). Please update your GPU driver (Triggered internally at CUDAFunctions.cpp:109.)\n"
    "  return torch._C._cuda_getDeviceCount() > 0\n"
)


def test_a_warning_in_the_log_is_not_the_cause_nor_blamed_is_who_ended_well() -> None:
    assert alone(7, DRIVER) == "rank 0 ended with exit code 7"
    assert "too old" in alone(7, DRIVER + DRIVER.replace("UserWarning", "RuntimeError"))
    assert alone(0, OOM) == "rank 0 ended with exit code 0"


@pytest.mark.parametrize("kind", ["kill", "exit", "abort"])
def test_a_fault_that_was_put_in_is_the_cause_whatever_else_the_log_says(kind: str) -> None:
    assert alone(7, f"RuntimeError: {OOM}\nfault, step 10: {kind}\n") == "rank 0 ended with exit code 7"
    assert "ran out of memory" in alone(7, f"RuntimeError: {OOM}\nfault, step 10: skip\n")


@pytest.mark.parametrize(
    "victim",
    [
        WATCHDOG,
        "DistBackendError: NCCL communicator was aborted on rank 0.",
        "DistBackendError: NCCL error in: x, socketProgress: Connection closed by remote peer node<4711>",
        "RuntimeError: [x.cc:81] Timed out waiting 1800000ms for recv operation to complete",
    ],
)
def test_who_lost_another_rank_is_not_the_cause(victim: str) -> None:
    words = [failed(0, victim, at_ms=1), failed(1, OOM, at_ms=2)]
    assert first_line(failed=words).startswith("rank 1 ran out of memory")
    ended_first = "rank 0 ended with exit code 1\n"  # while the cause still tidied up
    assert first_line(failed=words, launcher_log=ended_first).startswith("rank 1 ran out of memory")
    assert first_line(failed=words[:1], launcher_log=ended_first).startswith("rank 0")
