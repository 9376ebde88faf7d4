"""What the tap, the clock and the encoder make of a watched training on a GPU, which is simulated."""

import marshal
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import nn

from ddptui.wire.messages import Step
from ddptui.wire.relay_file import Watching
from tests.support.simulated_gpu import Event, Gpu, Stream, Work
from workers.instruments import cuda_clock
from workers.instruments.clock import UNKNOWN
from workers.instruments.cuda_clock import CudaClock, Mark
from workers.instruments.gpu import ANOTHER, HOST, NCCL2, STOCK_NCCL, carrier_between_gpus, carrier_of
from workers.instruments.page_locked import OnItsWay
from workers.instruments.records import Call, PhaseTimer
from workers.instruments.reporter import Reporter
from workers.instruments.tap import Tap
from workers.relay.steps import Steps
from workers.watch.encoder import NoteEncoder
from workers.watch.notes import CODES

MS = 1_000_000


class Rank:
    """A watched rank: its loop's notes and its calls, and the steps that the relay makes of them."""

    def __init__(self, gpu: Gpu, clock: CudaClock) -> None:
        self.gpu, self.clock = gpu, clock
        self.notes: deque[Any] = deque()
        self.sent: list[Any] = []
        self.steps = Steps(
            0, Watching(), cast(Reporter, SimpleNamespace(send=self.sent.append)), at_ns=0, signs=0, over=lambda: None
        )
        self._encoder = NoteEncoder(self.notes, clock)
        self.tap = Tap(clock, None, record=self.notes.append, held_up=self._held_up)
        self.tap.begin(PhaseTimer(clock))

    def _held_up(self, begin: Any, end: Any) -> None:
        self.note("held_up", begin, at=end)

    def note(self, name: str, *arguments: Any, at: Any = None) -> None:
        self.notes.extend((CODES[name], at or self.clock.at_home(), *arguments))

    def call(self, work_ns: float, by: str = STOCK_NCCL) -> Call:
        """A collective that the rank waits for at once, on the current stream."""
        call = self.tap.before("all_gather", 64, None, (), by)
        work = cast(Any, Work(self.gpu, work_ns))
        self.tap.issued(call, work, background=False)
        waits = self.tap.waits(work)
        work.wait()
        assert waits is call
        self.tap.waited(call)
        return call

    def step(self, forward: Callable[[], object]) -> None:
        self.note("forward_begins", True, at=self.clock.come_home())
        forward()
        self.note("forward_ends", True)
        self.note("backward_begins", None)
        self.note("backward_ends")
        self.note("optimizer_begins", 1)
        self.note("optimizer_ends", 1)

    def encode(self) -> None:
        self.gpu.pass_(1000 * MS)
        if notes := self._encoder.encode():
            self.steps.read(iter(marshal.loads(notes)))

    def told(self) -> list[Step]:
        self.encode()
        self.steps.close()
        frame = msgspec.msgpack.encode([message for message in self.sent if isinstance(message, Step)])
        return msgspec.msgpack.decode(frame, type=list[Step])  # as the console does, which refuses what cannot be


@pytest.fixture
def rank(gpu: Gpu, clock: CudaClock, alone: None) -> Iterator[Rank]:
    made = Rank(gpu, clock)
    yield made
    made.tap.close()


# Calls on another stream than the loop's


@pytest.mark.parametrize(("compute_ms", "lost_ms"), [(30, 0), (8, 12)])
def test_of_a_call_on_another_stream_the_loop_loses_only_what_it_waits_for(
    gpu: Gpu, rank: Rank, compute_ms: int, lost_ms: int
) -> None:
    """As FSDP gathers parameters, and reduces gradients: what it takes under compute is not lost."""
    side = Stream(gpu)

    def forward() -> None:
        side.wait_until(gpu.main.free_ns)
        with gpu.on(side):
            rank.call(20 * MS)
        gpu.main.push(compute_ms * MS)
        gpu.main.wait_stream(side)
        gpu.main.push(5 * MS)

    for _ in range(3):
        rank.step(forward)
    for step in rank.told():
        assert step.phases_ns[1] == pytest.approx((compute_ms + lost_ms + 5) * MS, abs=MS)
        [gather] = step.collectives
        assert gather.exit_ns - gather.enter_ns == pytest.approx(20 * MS, abs=MS)
        assert max(0, gather.exit_ns - gather.awaited_ns) == pytest.approx(lost_ms * MS, abs=MS)


def test_what_is_fetched_ahead_waits_for_its_own_turn(gpu: Gpu, rank: Rank) -> None:
    """The loop waits for the first call while the second one has begun."""
    side = Stream(gpu)

    def forward() -> None:
        side.wait_until(gpu.main.free_ns)
        events = []
        for _ in range(2):
            with gpu.on(side):
                rank.call(20 * MS)
            events.append(side.record_event())
        for event in events:
            gpu.main.wait_event(event)
            gpu.main.push(15 * MS)

    rank.step(forward)
    [step] = rank.told()
    lost = [max(0, call.exit_ns - call.awaited_ns) for call in step.collectives]
    assert lost == [pytest.approx(20 * MS, abs=MS), pytest.approx(5 * MS, abs=MS)]


def test_several_calls_that_one_wait_is_for_share_it(gpu: Gpu, rank: Rank) -> None:
    sides = Stream(gpu), Stream(gpu)

    def forward() -> None:
        for side in sides:
            side.wait_until(gpu.main.free_ns)
            with gpu.on(side):
                rank.call(10 * MS)  # NCCL does one after the other
        gpu.main.wait_stream(sides[1])

    rank.step(forward)
    [step] = rank.told()
    lost = [call.exit_ns - call.awaited_ns for call in step.collectives]
    assert lost == [pytest.approx(10 * MS, abs=MS)] * 2


def test_sends_and_receives_that_nccl_groups_are_waited_for_together(gpu: Gpu, rank: Rank) -> None:
    """As of `batch_isend_irecv`: each returns without a work of its own."""

    def forward() -> None:
        calls = [rank.tap.before(kind, 64, 0, (), STOCK_NCCL) for kind in ("send", "recv")]
        for call in calls:
            rank.tap.issued(call, None, background=True)
        work = cast(Any, Work(gpu, 20 * MS))
        rank.tap.issued_together(work)
        gpu.main.push(5 * MS)
        assert rank.tap.waits(work) is calls[1]
        work.wait()
        rank.tap.waited(cast(Call, calls[1]))

    for _ in range(2):
        rank.step(forward)
    for step in rank.told():
        assert [call.kind for call in step.collectives] == ["send", "recv"]
        lost = [max(0, call.exit_ns - call.awaited_ns) for call in step.collectives]
        assert lost == [0, pytest.approx(15 * MS, abs=MS)]


# What carries a call


class ProcessGroupNCCL: ...


class ProcessGroupNCCL2: ...


class ProcessGroupNCCLLazy: ...


class ProcessGroupGloo: ...


class Group:
    """A group with a backend between GPUs; None: it has none."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def _get_backend(self, device: torch.device) -> Any:
        if self._backend is None:
            raise RuntimeError("No backend type associated with device type cuda")
        return self._backend


@pytest.mark.parametrize(
    ("backend", "between_gpus", "barrier"),
    [
        (ProcessGroupNCCL(), STOCK_NCCL, STOCK_NCCL),
        (SimpleNamespace(wrapped_pg=ProcessGroupNCCL()), STOCK_NCCL, STOCK_NCCL),
        (ProcessGroupNCCL2(), NCCL2, NCCL2),
        (ProcessGroupNCCLLazy(), NCCL2, NCCL2),
        (ProcessGroupGloo(), ANOTHER, HOST),
        (None, ANOTHER, HOST),
    ],
)
def test_what_carries_a_call_its_group_says_by_the_device_whatever_its_backend_is_called(
    backend: Any, between_gpus: str, barrier: str
) -> None:
    group = Group(backend)
    on_meta = torch.empty(1, device="meta")  # stands for one on the GPU
    assert carrier_of(on_meta, carrier_between_gpus(group)) == between_gpus
    assert carrier_of(None, carrier_between_gpus(group)) == barrier
    assert carrier_of(torch.ones(1), carrier_between_gpus(group)) == HOST


@pytest.mark.usefixtures("alone", "way")
def test_a_call_with_tensors_on_the_cpu_waits_for_no_gpu(gpu: Gpu, clock: CudaClock) -> None:
    tap = Tap(clock, nn.Linear(1, 1), compiles=False)
    tap.begin(PhaseTimer(clock))
    gpu.main.push(500 * MS)
    begin_ns = gpu.now_ns
    dist.all_reduce(torch.ones(1))
    work = dist.all_reduce(torch.ones(1), async_op=True)
    dist.barrier()
    work.wait()
    calls = tap.end()
    tap.close()
    assert [call.by for call in calls] == [HOST] * 3
    moments = [moment for call in calls for moment in (call.called, call.enter, call.issued, call.awaited, call.ended)]
    assert all(begin_ns <= moment < begin_ns + 100 * MS for moment in moments)


# Marks and numbers that cannot be read


def test_an_event_that_cannot_be_read_costs_its_step_and_no_other(
    gpu: Gpu, rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        rank.step(lambda: gpu.main.push(MS))
    marks = [item for item in rank.notes if isinstance(item, Mark)]
    lost = marks[len(marks) // 2].event
    query = Event.query

    def asks(event: Event) -> bool:
        if event is lost:
            raise RuntimeError("CUDA error: an event that was captured")
        return query(event)

    monkeypatch.setattr(Event, "query", asks)
    assert [step.step for step in rank.told()] == [0, 1, 3, 4]


@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize("between", [True, False])
def test_a_call_of_which_a_moment_is_unknown_costs_its_step_and_no_other(rank: Rank, place: int, between: bool) -> None:
    """between: it is called after a step, as where metrics are averaged: then it belongs to the one that follows."""
    moments: list[int | None] = [5, 6, 5, None, 7]
    moments[place] = UNKNOWN

    def call() -> None:
        rank.encode()
        rank.steps.read(iter([CODES["collective"], 5, None, "all_reduce", 64, None, (), (), 0, *moments]))

    rank.step(lambda: None)
    if between:
        call()
    rank.step(lambda: None if between else call())
    rank.step(lambda: None)
    rank.step(lambda: None)
    assert [step.step for step in rank.told()] == [0, 2, 3]


def test_a_loss_is_copied_when_the_stream_comes_there_and_read_once(
    clock: CudaClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_clock, "MOST_KEPT", 1)
    loss = torch.tensor(2.5)
    kept = clock.keep(loss)
    loss.fill_(7.0)  # as where a graph is replayed
    assert isinstance(kept, OnItsWay)
    assert clock.read(kept) == 2.5
    again = clock.keep(torch.tensor(3.5))
    assert isinstance(again, OnItsWay)
    assert again.copy is kept.copy
    assert clock.read(again) == 3.5
    assert clock.read(clock.keep(torch.tensor([0.5], dtype=torch.float64))) == 0.5


def test_while_too_many_are_on_their_way_or_a_graph_is_captured_no_loss_is_kept(
    gpu: Gpu, clock: CudaClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_clock, "MOST_KEPT", 2)
    kept = [clock.keep(torch.tensor(1.0)) for _ in range(3)]
    assert [isinstance(each, OnItsWay) for each in kept] == [True, True, False]
    clock.read(kept[0])
    with gpu.captures():
        assert not isinstance(clock.keep(torch.tensor(1.0)), OnItsWay)
    assert isinstance(clock.keep(torch.tensor(1.0)), OnItsWay)
    assert gpu.spoiled == []


def test_a_batch_that_is_fetched_under_another_stream_is_fetched_before_forward(gpu: Gpu, rank: Rank) -> None:
    """Phases are when the loop's own stream comes there: the other one may be behind, or ahead."""
    copies = Stream(gpu)
    for behind_ms in (0, 200, 0):
        copies.push(behind_ms * MS)
        rank.note("data_begins", True)
        with gpu.on(copies):
            rank.note("data_ends", 8, True, False, 0, None, 1)
        rank.step(lambda: gpu.main.push(50 * MS))
    told = rank.told()
    assert [step.phases_ns[1] for step in told] == [pytest.approx(50 * MS, abs=MS)] * 3


def test_where_the_loop_changes_its_stream_no_phase_ends_before_it_begins(gpu: Gpu, rank: Rank) -> None:
    """As in the warm-up before a graph is captured."""
    other = Stream(gpu)
    gpu.main.push(300 * MS)
    rank.step(lambda: gpu.main.push(50 * MS))
    with gpu.on(other):
        rank.step(lambda: other.push(50 * MS))
    rank.step(lambda: gpu.main.push(50 * MS))
    assert [step.step for step in rank.told()] == [0, 1, 2]
