"""More than the console can take at once: nothing is lost, no rank is made to wait, and memory stays within bounds."""

import threading
import time
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import msgspec
import pytest

from ddptui.analysis import thinning
from ddptui.analysis.launch_data import LaunchData
from ddptui.analysis.results import RepeatResult
from ddptui.engines.rank_server import RankServer
from ddptui.wire.connection import HUB
from ddptui.wire.messages import Collective, RankMessage, Slept, Step
from ddptui.wire.records import Message
from tests.support.builders import MS, done, ended, fingerprint, hello, launched, ready, result_of, step
from workers.instruments.reporter import Reporter

SOON_MS = 5_000
AT_ONCE_S = 0.25  # what a machine that is busy with other things may take from a call that takes a microsecond

# Many ranks, a slow disk


def receive(hub: RankServer, count: int) -> Iterator[RankMessage]:
    while count > 0:
        messages = hub.receive(SOON_MS)
        assert messages, f"{count} messages never came"
        yield from messages
        count -= len(messages)


class StuckDisk(BytesIO):
    """Takes nothing until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.goes = threading.Event()

    def write(self, data: Any) -> int:
        assert self.goes.wait(SOON_MS / 1000)
        return super().write(data)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[RankServer]:
    with RankServer(1) as hub:
        monkeypatch.setenv(HUB, hub.endpoint)
        yield hub


def console(hub: RankServer, disk: StuckDisk, count: int) -> threading.Thread:
    """What the lab does, in a thread: nobody else is to wait for it."""

    def keep() -> None:
        for message in receive(hub, count):
            disk.write(msgspec.json.encode(message) + b"\n")

    thread = threading.Thread(target=keep)
    thread.start()
    return thread


def test_while_the_disk_stands_still_no_rank_does_and_nothing_is_lost(hub: RankServer) -> None:
    said = [hello(0, world_size=1, token=hub.token), *(step(0, number) for number in range(10_000))]
    disk, reporter, slowest = StuckDisk(), Reporter(0, heartbeat=False), 0.0
    kept = console(hub, disk, len(said))
    for message in said:
        begin = time.monotonic()
        reporter.send(message)
        slowest = max(slowest, time.monotonic() - begin)
    disk.goes.set()
    reporter.close()
    kept.join()
    assert reporter.dropped == 0
    assert slowest < AT_ONCE_S
    assert [msgspec.json.decode(line, type=RankMessage) for line in disk.getvalue().splitlines()] == said


# A launch that goes on for long


def train(count: int, *, calls: int = 1) -> list[Step]:
    """Steps of two ranks, of 10 ms; rank 1 comes 4 ms late to every all_reduce, and sleeps for that."""
    told = []
    for number in range(count):
        begin = (3_000 + 10 * number) * MS
        for rank in range(2):
            enter = begin + (6 if rank == 1 else 2) * MS
            made = tuple(
                Collective("all_reduce", call, 8, enter, enter + call, enter + call, begin + 6_500_000 + call)
                for call in range(calls)
            )
            found = step(
                rank, number, begin_ms=begin / MS, end_ms=begin / MS + 9.9, loss=1 / (1 + number), warmup=number < 3,
                phases_ms=(0, 2, 4 if rank == 1 else 0, 1 if rank == 1 else 5, 0),
            )  # fmt: skip
            slept = (Slept("backward", enter - 4 * MS, enter),) if rank == 1 else ()
            told.append(msgspec.structs.replace(found, collectives=made, slept=slept))
    return told


def result_of_steps(count: int) -> RepeatResult:
    """Of a launch of two ranks, with hashes now and then."""
    steps: list[Message] = list(train(count))
    prints = [fingerprint(rank, number) for number in range(0, count, 100) for rank in range(2)]
    begun = [launched(), *(hello(rank) for rank in (0, 1)), *(ready(rank, count) for rank in (0, 1))]
    return result_of([*begun, *steps, *prints, done(0), done(1), ended()])


EXACT = ("train_time_s", "startup_s", "steps", "samples_per_s", "injected", "accuracy", "in_sync", "sync_checks")


def test_of_a_long_launch_exact_figures_stay_exact_and_the_others_near(monkeypatch: pytest.MonkeyPatch) -> None:
    short = result_of_steps(200)
    monkeypatch.setattr(thinning, "MOST_EVENTS", 2 * 2 * 200)  # within the limit it is looked at as a whole
    assert result_of_steps(200) == short
    monkeypatch.setattr(thinning, "MOST_EVENTS", 2 * 2 * 200 - 1)
    assert result_of_steps(200).looked_at is not None
    monkeypatch.undo()
    whole = result_of_steps(2_000)
    monkeypatch.setattr(thinning, "MOST_EVENTS", 1_000)
    part = result_of_steps(2_000)
    assert whole.looked_at is None
    assert part.looked_at is not None
    assert 100 < part.looked_at < 600
    for name in EXACT:
        assert getattr(part, name) == getattr(whole, name)
    assert part.verdict == whole.verdict == "skew"
    for name in ("wait_ms", "transfer_ms", "wait_share", "transfer_share"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=0.02)
    late, really_late = part.culprit, whole.culprit
    assert (late.rank, late.phase) == (really_late.rank, really_late.phase)
    assert late.wait_caused_s == pytest.approx(really_late.wait_caused_s, rel=0.02)
    assert late.excess_s.estimate == pytest.approx(really_late.excess_s.estimate, rel=0.02)
    assert part.what_if_s.without_skew == pytest.approx(whole.what_if_s.without_skew, rel=0.02)
    for own, other in zip(part.ranks, whole.ranks, strict=True):
        for name in ("wait_s", "transfer_s", "exposed_s", "wait_caused_s", "last_arrivals", "collectives", "bytes"):
            assert getattr(own, name) == pytest.approx(getattr(other, name), rel=0.02)


@pytest.mark.parametrize("calls", [0, 1, 40])
def test_what_is_kept_of_a_launch_is_bounded(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    monkeypatch.setattr(thinning, "MOST_EVENTS", 2_000)
    a_block = 2 * thinning.BLOCK * (1 + calls)
    heard = LaunchData()
    for each in train(1_500, calls=calls):
        heard.add(each)
        assert heard.thinned.events <= max(2_000, 3 * a_block)
    kept = {rank: [each.step for each in own] for rank, own in heard.steps.items()}
    assert kept[0] == kept[1]
    assert kept[0][: thinning.BLOCK] == list(range(thinning.BLOCK))


def test_hashes_that_all_ranks_have_told_are_not_kept() -> None:
    heard = LaunchData()
    for message in (hello(0), hello(1), fingerprint(0, 1), fingerprint(1, 1), fingerprint(0, 2)):
        heard.add(message)
    assert list(heard.fingerprints) == [2]
    assert [check.step for check in heard.checks] == [1]
