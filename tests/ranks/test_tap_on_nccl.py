"""Buckets that NCCL sends while backward goes on, by the clock of a simulated GPU: the tap sees when each is over, and
takes nothing of the overlap away. A step costs few calls into the driver."""

from collections.abc import Iterator
from typing import Any
from weakref import ref

import pytest
import torch
import torch.distributed as dist
from torch import nn

from tests.support.simulated_gpu import Gpu, Work
from workers.instruments import tap as module
from workers.instruments.cuda_clock import CudaClock
from workers.instruments.gpu import ANOTHER, NCCL2, STOCK_NCCL
from workers.instruments.records import Call, PhaseTimer, StepRecord
from workers.instruments.tap import Tap

MS = 1_000_000
BACKWARD_NS = 10 * MS  # a bucket
TRANSFER_NS = 8 * MS
BUCKETS = 3
CALLS = 161  # as many as a ResNet-50 has parameters


@pytest.fixture
def tap(clock: CudaClock, alone: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tap]:
    """A tap on a group over NCCL, whose collectives are simulated."""
    monkeypatch.setattr(module, "is_called_by_torch", lambda: True)
    monkeypatch.setattr(dist.Work, "wait", lambda work: work.wait())
    tap = Tap(clock, nn.Linear(1, 1), buckets=True, overlaps=True, compiles=False)
    yield tap
    tap.close()


def begin(tap: Tap, clock: CudaClock) -> PhaseTimer:
    """A step, up to its backward."""
    timer = PhaseTimer(clock)
    tap.begin(timer)
    timer.end("forward")
    return timer


def send(gpu: Gpu, tap: Tap, by: str, kind: type[Work] = Work) -> tuple[Any, Any]:
    """Send a bucket in the background: the call that the tap records, and its work."""
    call = tap.before("all_reduce", 4, None, (), by)
    work: Any = kind(gpu, TRANSFER_NS)
    tap.issued(call, work, background=True)
    return call, work


def step(gpu: Gpu, clock: CudaClock, tap: Tap) -> tuple[float, list[Call], list[Any]]:
    """One step: backward sends a bucket after each third, and waits at its end. How long that took on the device, in
    ns, and what the tap has recorded."""
    timer = begin(tap, clock)
    begin_ns = gpu.main.free_ns
    works = []
    for _ in range(BUCKETS):
        gpu.main.push(BACKWARD_NS)
        _, work = send(gpu, tap, NCCL2 if gpu.is_nccl2 else STOCK_NCCL)
        works.append(work)
    for work in works:
        dist.Work.wait(work)
    timer.end("backward")
    taken_ns = gpu.main.free_ns - begin_ns
    calls = tap.end()
    gpu.pass_(100 * MS)
    return taken_ns, calls, works


@pytest.mark.parametrize("is_nccl2", [True, False])
def test_the_tap_leaves_the_overlap_as_it_is(gpu: Gpu, clock: CudaClock, tap: Tap, is_nccl2: bool) -> None:
    gpu.is_nccl2 = is_nccl2
    for _ in range(3):  # from the second step on, the tap knows how many buckets there are
        taken_ns, _, _ = step(gpu, clock, tap)
        assert taken_ns == pytest.approx(BUCKETS * BACKWARD_NS + TRANSFER_NS, abs=MS / 10)


@pytest.mark.parametrize("is_nccl2", [True, False])
def test_the_end_of_every_bucket_is_marked_when_nccl_is_done_with_it_the_last_one_too(
    gpu: Gpu, clock: CudaClock, tap: Tap, is_nccl2: bool
) -> None:
    gpu.is_nccl2 = is_nccl2
    for _ in range(2):
        _, calls, works = step(gpu, clock, tap)
        for call, work in zip(calls, works, strict=True):
            assert call.notified.event.over_ns == pytest.approx(work.end_ns, abs=MS / 10)
        # By then the loop has only just begun to wait: torch DDP copies its buckets before it is back.
        assert calls[-1].ended.event.over_ns >= calls[-1].notified.event.over_ns


def test_the_end_of_a_bucket_that_the_host_sends_is_when_the_host_says_so(gpu: Gpu, clock: CudaClock, tap: Tap) -> None:
    """What is marked on a stream in a thread of gloo's would lie behind all of backward."""
    gpu.is_nccl2 = False
    step(gpu, clock, tap)  # from now on the tap knows how many buckets there are
    begin(tap, clock)
    gpu.main.push(BACKWARD_NS)
    call, _ = send(gpu, tap, ANOTHER)
    assert call.notified == pytest.approx(gpu.now_ns, abs=MS / 10)
    assert call.awaited is None, "the tap's own wait was taken for the loop's"
    tap.end()


class Bucket:
    """Stands for the tensors that a work of stock NCCL holds until the training waits for it."""


class Stashing(Work):
    def __init__(self, gpu: Gpu, length_ns: float) -> None:
        super().__init__(gpu, length_ns)
        self._stash: list[Bucket] = [Bucket()]
        self.stashed = ref(self._stash[0])

    def wait(self) -> None:
        super().wait()
        self._stash.clear()


def test_stock_nccl_holds_the_tensors_of_a_call_until_the_training_waits_for_it(
    gpu: Gpu, clock: CudaClock, tap: Tap
) -> None:
    """Else their memory would be given to others while NCCL reads it."""
    gpu.is_nccl2 = False
    begin(tap, clock)
    call, work = send(gpu, tap, STOCK_NCCL, Stashing)
    assert call.notified.event.over_ns == pytest.approx(work.end_ns, abs=MS / 10)
    assert work.stashed() is not None
    dist.Work.wait(work)
    assert work.stashed() is None
    tap.end()


@pytest.mark.parametrize("variable", ["TORCH_NCCL_BLOCKING_WAIT", "CUDA_DEVICE_MAX_CONNECTIONS"])
@pytest.mark.parametrize("by", [STOCK_NCCL, NCCL2])
def test_where_a_wait_on_one_stream_holds_up_others_none_is_put_in(
    gpu: Gpu, clock: CudaClock, by: str, variable: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    tap: Tap = request.getfixturevalue("tap")
    begin(tap, clock)
    call, _ = send(gpu, tap, by)
    assert call.notified is None
    tap.end()


# What it costs


@pytest.mark.usefixtures("alone", "way")
def test_a_call_takes_few_calls_into_the_driver(gpu: Gpu, clock: CudaClock) -> None:
    """Of a call that the loop waits for: its entry, its issue and its end."""
    tap = Tap(clock, nn.Linear(1, 1), compiles=False)
    timer = PhaseTimer(clock)
    gpu.calls.clear()
    tap.begin(timer)
    for _ in range(CALLS):
        dist.all_reduce(torch.ones(1))
    timer.end("backward")
    record = StepRecord(0, 0, timer, 8, torch.tensor(0.5), tap.end(), False, ())
    tap.close()
    assert gpu.calls["record"] <= 3 * CALLS + 2
    gpu.pass_(MS)
    gpu.calls.clear()
    assert clock.resolve(record.moments())
    times = 2 * CALLS + 2
    assert gpu.calls["elapsed_time"] <= times
    assert gpu.calls["query"] <= 2 * times + 1  # torch's own, and one for the only stream
    assert set(gpu.calls) == {"elapsed_time", "query"}


@pytest.mark.usefixtures("alone")
def test_of_a_step_that_is_not_over_the_driver_is_asked_once(gpu: Gpu, clock: CudaClock) -> None:
    marks = [clock.now() for _ in range(CALLS)]
    gpu.main.push(MS)
    marks.append(clock.now())
    for in_any_order in (marks, marks[::-1], marks[80:] + marks[:80]):
        gpu.calls.clear()
        assert clock.resolve(in_any_order) is None
        assert gpu.calls == {"query": 1}
