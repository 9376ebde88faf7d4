"""What a DataLoader's workers do is said of a rank that is late in data."""

import pytest
from msgspec.structs import replace

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.heartbeats import Loaders
from ddptui.findings.words import evidence
from ddptui.wire.messages import LoaderWorker
from tests.support.builders import heartbeat


def seen(*workers: LoaderWorker) -> Loaders:
    loaders = Loaders()
    for _ in range(5):
        loaders.add(replace(heartbeat(), loaders=workers))
    loaders.add(heartbeat())  # between two epochs there are none
    return loaders


LATE = {"late_ms": 20.0, "of_waiting_share": 0.9}


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        ([LoaderWorker(99.0, "running")] * 2, "Its 2 loader workers are busy all the time"),
        ([LoaderWorker(99.0, "asleep")], "Its 1 loader worker is busy all the time"),
        ([LoaderWorker(20.0, "running")] * 2, "Its 2 loader workers are busy all the time"),  # they lack a core
        ([LoaderWorker(3.0, "disk")], "Its 1 loader worker waits for the disk"),
        ([LoaderWorker(2.0, "asleep")] * 2, "Its 2 loader workers hardly compute: they sleep, or wait for a file, a"),
        ([LoaderWorker(50.0, "asleep")] * 2, "Its 2 loader workers are busy 50% of the time"),
        ([LoaderWorker(None, "asleep")], "Its 1 loader worker hardly computes"),
    ],
)
def test_what_they_do_is_said_in_a_sentence(workers: list[LoaderWorker], told: str) -> None:
    late = Finding(kind=Kind.LATE_RANK, rank=1, phase="data", numbers=LATE | seen(*workers).numbers)
    assert told in evidence(late)


def test_without_workers_nothing_is_said_and_of_all_ranks_no_number() -> None:
    assert seen().numbers == {}
    assert "worker" not in evidence(Finding(kind=Kind.LATE_RANK, rank=1, phase="data", numbers=LATE))
    numbers = {"share": 0.6, "step_ms": 20.0, "low_share": 0.5, "high_share": 0.7}
    all_ranks = Finding(kind=Kind.DATA, numbers=numbers | seen(LoaderWorker(99.0, "running")).numbers)
    assert "The loader workers are busy all the time. Fetching" in evidence(all_ranks)
