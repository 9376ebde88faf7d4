"""The workers of a DataLoader, as another process sees them: real ones."""

import os
import time

import pytest
from torch.utils.data import DataLoader, Dataset

from workers.instruments.heartbeat import LoaderMeter

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
