"""nn.DataParallel's replicas under watch; and its stand-in: threads that together are the big batch."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ddptui.config.trial import Bottleneck, Trial
from ddptui.wire.messages import Step, Tied
from tests.support.ears import Ear
from tests.support.worlds import one_rank
from workers import replicas as module
from workers.instruments.clock import Accuracy
from workers.instruments.delays import Delays
from workers.instruments.records import PhaseTimer, StepRecord
from workers.instruments.reporter import Reporter
from workers.replicas import (
    GpuDataParallel,
    Replica,
    ReplicaDelays,
    ReplicaProgress,
    ReplicaState,
    ReplicaStep,
    ThreadedDataParallel,
    replicate_over_devices,
)

MS = 1_000_000


def states(count: int, *bottlenecks: Bottleneck) -> list[ReplicaState]:
    return [ReplicaState(Reporter(rank), Delays(bottlenecks, rank)) for rank in range(count)]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()


@pytest.mark.parametrize(("replicas", "samples"), [(2, 8), (3, 8), (4, 3)])
def test_gradients_equal_those_of_the_big_batch(replicas: int, samples: int) -> None:
    alone, model = net(), net()
    inputs = torch.randn(samples, 6, dtype=torch.float64)
    network = ThreadedDataParallel(model, states(replicas), threads=1)
    outputs = network(inputs)
    assert torch.allclose(outputs, alone(inputs), rtol=0, atol=1e-12)
    outputs.square().sum().backward()
    alone(inputs).square().sum().backward()
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.allclose(ours.grad, theirs.grad, rtol=0, atol=1e-12)
    network._pool.shutdown()


def test_the_running_statistics_are_those_of_replica_0_and_go_out_to_the_others() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2))
    network = ThreadedDataParallel(model, states(2), threads=1)
    inputs = torch.tensor([[0.0, 0.0], [2.0, 2.0], [10.0, 10.0], [30.0, 30.0]])
    network(inputs)
    assert torch.allclose(model[0].running_mean, torch.full((2,), 0.1 * 1.0))  # of the first half: mean 1
    network(inputs)
    second = network.replicas[1].module[0].running_mean
    assert torch.allclose(second, 0.9 * model[0].running_mean.new_tensor(0.1) + 0.1 * 20)
    network._pool.shutdown()


def test_a_delayed_replica_is_late_alone() -> None:
    seen = states(2, Bottleneck(at="forward", ranks=(1,), sleep_ms=20))
    network = ThreadedDataParallel(net(), seen, threads=1)
    delays = ReplicaDelays(seen)
    delays.begin(0)
    network(torch.randn(8, 6, dtype=torch.float64))
    delays.at("backward")  # by the loop, which is never delayed
    assert not delays.before_collective()
    delays.end()
    assert [replica.delays.fired for replica in seen] == [0, 1]
    fetched, computed, _ = seen[1].step.moments
    assert computed - fetched >= 20e6
    network._pool.shutdown()


# What the replicas of a step are told to have done, on devices whose clocks are made up.


class Simulated:
    """A device's clock that is `off` by so much. It has got to `there`; its marks are the true times."""

    def __init__(self, off: int = 0, error_ns: int = 0) -> None:
        self.off = off
        self.there = 0
        self.true_ns = 0
        self.untold = Accuracy(5, error_ns) if error_ns else None
        self.threads: list[int] = []

    def now(self) -> int:
        self.threads.append(threading.get_ident())
        return self.true_ns

    def reached(self, mark: int) -> bool:
        return mark <= self.there

    def resolve(self, marks: Sequence[int]) -> list[int] | None:
        return [mark + self.off for mark in marks] if max(marks) <= self.there else None

    def read(self, tensor: Tensor) -> float:
        return float(tensor)

    def accuracy_change(self) -> Accuracy | None:
        untold, self.untold = self.untold, None
        return untold


def simulated(monkeypatch: pytest.MonkeyPatch, *clocks: Simulated) -> tuple[ReplicaProgress, list[ReplicaState]]:
    """Replicas, each on a GPU of its own."""
    monkeypatch.setattr(module, "clock_of", lambda device: clocks[device.index])
    nobody = [Delays((), rank) for rank in range(len(clocks))]
    seen = [ReplicaState(Ear(rank), nobody[rank], torch.device("cuda", rank)) for rank in range(len(clocks))]
    return ReplicaProgress(seen, warmup_steps=0), seen


def a_step(clock: Simulated) -> StepRecord:
    """From 100 ms on: data 1 ms, forward 6 ms with the gather and the loss, backward 5 ms, optimizer 1 ms."""
    clock.true_ns = 100 * MS
    timer = PhaseTimer(clock, 3)
    for phase, lasts_ms in (("data", 1), ("forward", 6), ("backward", 5), ("optimizer", 1)):
        clock.true_ns += lasts_ms * MS
        timer.end(phase)
    return StepRecord(3, 0, timer, 8, torch.tensor(2.5), [], False, ())


def at(*moments_ms: float, samples: int = 4) -> ReplicaStep:
    return ReplicaStep(samples, 96, tuple(round(moment * MS) for moment in moments_ms))


def told(monkeypatch: pytest.MonkeyPatch, clocks: Sequence[Simulated], *steps: ReplicaStep) -> list[Any]:
    """What each replica says of a step, once all devices have made it."""
    loops = Simulated(error_ns=1000)
    progress, seen = simulated(monkeypatch, *clocks)
    for replica, step in zip(seen, steps, strict=True):
        replica.step = step
    progress.step(a_step(loops), loops)
    for clock in (loops, *clocks):
        clock.there = 200 * MS
    return [said_by(replica) for replica in seen]


def said_by(replica: ReplicaState) -> Any:
    """Of its last step; None: that is not known yet."""
    return replica.reporter.heard[-1]()  # type: ignore[attr-defined]


def test_each_replica_has_its_own_part_and_waits_in_the_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = at(101, 103, 103), at(102, 106, 106.5, samples=3)
    steps = [step for [step] in told(monkeypatch, [Simulated(), Simulated()], *parts)]
    assert [(step.rank, step.samples, step.loss) for step in steps] == [(0, 4, 2.5), (1, 3, 2.5)]
    assert [step.phases_ns for step in steps] == [
        (1 * MS, 2 * MS, 5 * MS, 4 * MS, 1 * MS),
        (2 * MS, 4 * MS, 5 * MS, 1 * MS, 1 * MS),
    ]
    gathers = [step.collectives[0] for step in steps]
    assert [(gather.enter_ns, gather.exit_ns) for gather in gathers] == [(103 * MS, 107 * MS), (106.5 * MS, 107 * MS)]
    assert {(gather.kind, gather.bytes) for gather in gathers} == {("gather_outputs", 96)}
    assert all(sum(step.phases_ns) == step.end_ns - step.begin_ns for step in steps)


@pytest.mark.parametrize("late", ["loop", "replica"])
def test_a_step_is_told_when_all_of_its_devices_have_made_it(monkeypatch: pytest.MonkeyPatch, late: str) -> None:
    own, loops = Simulated(), Simulated()
    progress, [replica] = simulated(monkeypatch, own)
    replica.step = at(101, 103, 103)
    progress.step(a_step(loops), loops)
    (own if late == "loop" else loops).there = 200 * MS
    assert said_by(replica) is None
    own.there = loops.there = 200 * MS
    assert said_by(replica) is not None


@pytest.mark.parametrize("off", [-20 * MS, 20 * MS])
def test_a_clock_that_is_off_leaves_no_phase_below_zero(monkeypatch: pytest.MonkeyPatch, off: int) -> None:
    """The console would refuse such a step, and all that comes with it."""
    [[step]] = told(monkeypatch, [Simulated(off)], at(101, 103, 103))
    assert min(step.phases_ns) >= 0
    assert step.begin_ns <= step.collectives[0].enter_ns <= step.collectives[0].exit_ns
    assert sum(step.phases_ns) == step.end_ns - step.begin_ns


def test_how_exact_a_replicas_clock_is_comes_before_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = [Simulated(error_ns=7), Simulated(error_ns=9)]
    ties, steps = zip(*told(monkeypatch, clocks, at(101, 103, 103), at(101, 103, 103)), strict=True)
    assert ties == (Tied(rank=0, at_ns=5, error_ns=7), Tied(rank=1, at_ns=5, error_ns=9))
    assert [type(step) for step in steps] == [Step, Step]


class Outputs:
    nbytes = 96


class Part:
    """Of a batch, on a GPU."""

    def __init__(self, gpu: int, samples: int) -> None:
        self.device = torch.device("cuda", gpu)
        self._samples = samples

    def __len__(self) -> int:
        return self._samples


class Model(nn.Module):
    def forward(self, part: Part) -> Outputs:
        return Outputs()


def test_copies_are_told_apart_by_their_device_and_marked_in_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As nn.DataParallel makes and runs them, anew at every forward."""
    clocks = [Simulated(), Simulated()]
    _, seen = simulated(monkeypatch, *clocks)
    replica: Any = Replica(Model(), seen)
    for _ in range(2):
        copies = [replica._replicate_for_data_parallel() for _ in clocks]
        parts = [Part(0, 5), Part(1, 3)]
        threads = [threading.Thread(target=copy, args=(part,)) for copy, part in zip(copies, parts, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [(replica.step.samples, replica.sub_batch, len(replica.step.moments)) for replica in seen] == [
        (5, 5, 3),
        (3, 3, 3),
    ]
    for clock in clocks:
        assert len(clock.threads) == 6
        assert threading.get_ident() not in clock.threads


# A replica's forward is in the type that its caller's is in.


def test_threads_of_the_stand_in_take_the_callers_precision() -> None:
    network = ThreadedDataParallel(nn.Linear(6, 5), states(2), threads=1)
    with torch.autocast("cpu", torch.float16):  # by itself it takes bfloat16 there
        assert network(torch.randn(4, 6)).dtype is torch.float16
    assert network(torch.randn(4, 6)).dtype is torch.float32
    network._pool.shutdown()


def test_threads_of_the_real_one_do_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left alone, nn.DataParallel's threads have autocast's default type: on a GPU that is float16."""
    seen: list[torch.dtype] = []

    def in_threads(self: Any, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        def run() -> None:
            with torch.autocast("cpu", enabled=True):  # as torch has it
                seen.append(replicas[0](*inputs[0], **kwargs[0]).dtype)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return seen

    monkeypatch.setattr(nn.DataParallel, "parallel_apply", in_threads)
    network = GpuDataParallel(nn.Linear(6, 5))
    network.src_device_obj = torch.device("cpu")
    with torch.autocast("cpu", torch.float16):
        network.parallel_apply([network.module], [(torch.randn(4, 6),)], [{}])
        nn.DataParallel.parallel_apply(network, [network.module], [(torch.randn(4, 6),)], [{}])
    assert seen == [torch.float16, torch.bfloat16]


# Several devices under one rank


def test_one_device_is_left_as_it_is() -> None:
    model = nn.Linear(2, 2)
    assert replicate_over_devices(one_rank(Trial()), model) is model
