"""How long a thread had no core, read from the kernel beside a process that wants the same core; and its loaders."""

import errno
import os
import threading
import time

import pytest
from torch.utils.data import DataLoader, Dataset

from tests.support.failing import failing_with
from tests.support.load import busy_processes
from workers.instruments.heartbeat import LoaderMeter
from workers.instruments.sampler import RunQueue

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="this kernel counts no queues")


def work(s: float) -> None:
    """Keep a core busy for so much CPU time."""
    begin = time.thread_time()
    while time.thread_time() - begin < s:
        pass


@pytest.fixture
def one_core() -> list[float]:
    """What a thread found that shared its core with another process: CPU time and time without a core, in s."""
    found: list[float] = []

    def share() -> None:
        core = min(os.sched_getaffinity(0))
        with busy_processes(1) as [busy]:
            os.sched_setaffinity(busy.pid, {core})
            os.sched_setaffinity(0, {core})  # of this thread alone
            queue = RunQueue()
            begin = time.monotonic()
            work(0.2)
            found.extend([time.monotonic() - begin - 0.2, queue.taken().queued_ns / 1e9])
            queue.close()

    thread = threading.Thread(target=share)
    thread.start()
    thread.join()
    return found


def test_the_time_without_a_core_is_told(one_core: list[float]) -> None:
    missing_s, queued_s = one_core
    assert queued_s > 0.05
    assert queued_s == pytest.approx(missing_s, rel=0.2, abs=0.02)  # what is missing is no more than that


def test_each_time_is_told_once() -> None:
    queue = RunQueue()
    work(0.05)
    assert queue.taken().cpu_ns >= 50_000_000
    assert queue.taken().cpu_ns < 50_000_000
    queue.close()


def test_a_queue_that_cannot_be_read_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", failing_with(errno.ENOENT))
    queue = RunQueue()
    assert queue.taken() == (0, 0)
    queue.close()


# The workers of a DataLoader, as another process sees them: real ones

SOON_S = 30.0


class Rows(Dataset[int]):
    """Rows of which each takes long, on a core or asleep."""

    def __init__(self, *, busy: bool) -> None:
        self._busy = busy

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, at: int) -> int:
        end = time.monotonic() + 0.2
        while self._busy and time.monotonic() < end:
            pass
        time.sleep(max(0.0, end - time.monotonic()))
        return at


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "asleep"])
def test_their_number_and_what_they_do_is_read(busy: bool) -> None:
    iterator = iter(DataLoader(Rows(busy=busy), num_workers=2))
    next(iterator)
    meter, seen = LoaderMeter(), list[bool]()
    assert meter.read() == ()  # of the first reading, no CPU time is known
    for _ in range(5):
        for _ in range(4):  # else the workers would have nothing to do
            next(iterator)
        found = meter.read()
        assert len(found) == 2
        seen += [worker.state == "running" or (worker.cpu_percent or 0.0) > 20 for worker in found]
    assert (sum(seen) > len(seen) / 2) == busy
    iterator._shutdown_workers()  # type: ignore[attr-defined]


def test_other_children_are_no_workers() -> None:
    child = os.fork()
    if child == 0:
        time.sleep(SOON_S)
        os._exit(0)
    try:
        meter = LoaderMeter()
        assert (meter.read(), meter.read()) == ((), ())
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
