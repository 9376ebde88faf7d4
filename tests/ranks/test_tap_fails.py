"""Wherever torch calls the tap, an error of the tap's stays with it, and the training learns the same bits; and what is
held of the training's works is not held for long."""

import gc
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from tests.support.failing import failing
from workers.instruments.clock import Clock
from workers.instruments.hooks import Recorder
from workers.instruments.records import PhaseTimer
from workers.instruments.tap import Tap

pytestmark = pytest.mark.usefixtures("alone", "way")
OF_A_DEVICE = {"begins_to_wait", "has_waited", "issued_together"}  # test_tap_on_a_gpu.py
DOORS = [*sorted({name for name in vars(Recorder) if not name.startswith("_")} - {"fail"} - OF_A_DEVICE), "_notified"]


def learn(tap: Tap | None) -> list[Tensor]:
    """Train with torch DDP, buffers, and calls of its own that it waits for."""
    torch.manual_seed(0)
    network = DistributedDataParallel(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)), bucket_cap_mb=1e-5)
    for _ in range(3):
        timer = PhaseTimer(Clock())
        timer.end("forward")
        if tap is not None:
            tap.begin(timer)
        loss = network(torch.randn(8, 6)).square().mean()
        work = dist.all_reduce(loss.detach().clone(), async_op=True)
        work.wait()
        loss.backward()
        if tap is not None:
            tap.renew()
    return [parameter.grad for parameter in network.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("door", DOORS)
def test_an_error_of_the_taps_is_noted_once_and_the_training_goes_on(
    door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, failed = learn(None), []
    tap = Tap(Clock(), None, fail=failed.append)
    tap.expect_ddp()
    monkeypatch.setattr(tap, door, failing(RuntimeError("broken")))
    learnt = learn(tap)
    assert all(map(torch.equal, learnt, without))
    if door == "_notified":
        while not failed:  # a thread of torch's says so
            dist.barrier()
    assert [str(error) for error in failed] == ["broken"]
    assert tap._undo == []
    tap.close()


def test_what_a_handler_of_the_trainings_raises_there_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Preempted(Exception):
        pass

    failed: list[Exception] = []
    tap = Tap(Clock(), None, fail=failed.append)
    monkeypatch.setattr(tap, "before", failing(Preempted()))
    with pytest.raises(Preempted):
        dist.all_reduce(torch.ones(1))
    assert failed == []
    tap.close()


def test_a_ddp_takes_a_hook_after_its_first_steps_and_holds_none_of_ours() -> None:
    network = DistributedDataParallel(nn.Linear(2, 2))
    tap = Tap(Clock(), None)
    network(torch.ones(1, 2)).sum().backward()
    assert network._comm_hooks == []
    sent = []

    def own(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        sent.append(bucket.buffer())
        return default_hooks.allreduce_hook(dist.group.WORLD, bucket)

    network.register_comm_hook(None, own)
    network(torch.ones(1, 2)).sum().backward()
    assert len(sent) == 1
    with pytest.raises(RuntimeError, match="once"):
        network.register_comm_hook(None, own)
    tap.close()


def test_works_that_are_let_go_are_gone_with_their_tensors() -> None:
    tap = Tap(Clock(), None)
    tap.begin(PhaseTimer(Clock()))
    works = [weakref.ref(dist.all_reduce(torch.ones(4), async_op=True)) for _ in range(50)]
    assert sum(work() is not None for work in works) <= 1
    tap.close()
    gc.collect()
    assert not any(work() for work in works)
