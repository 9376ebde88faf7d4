"""What a rank tells of its GPUs and of its NCCL; CUDA and NCCL are made up."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import nn

from ddptui.config.trial import Trial
from ddptui.wire.messages import Nccl, OwnGpu, Ready
from tests.support.ears import Ear
from tests.support.worlds import one_rank
from workers.instruments.delays import Delays
from workers.rank.device import CPU, gpus_of, nccl_of
from workers.replicas import ReplicaProgress, ReplicaState
from workers.training.flops import SampleWork
from workers.training.instruments import ready

GPU = torch.device("cuda", 1)


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def properties(device: torch.device) -> Any:
        return SimpleNamespace(uuid=f"uuid-{device.index}")

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"NVIDIA T{device.index}")
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)


def group_of(monkeypatch: pytest.MonkeyPatch, backend: object) -> None:
    def of(device: torch.device) -> object:
        assert device == GPU
        return backend

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "group", SimpleNamespace(WORLD=SimpleNamespace(_get_backend=of)))
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 28, 9))


class ProcessGroupNCCL2:
    pass


class ProcessGroupGloo:
    pass


class Wrapper:
    wrapped_pg = ProcessGroupNCCL2()


def test_the_gpus_of_a_rank_are_those_from_its_device_on() -> None:
    assert gpus_of(CPU) == ()
    assert gpus_of(GPU) == (OwnGpu("NVIDIA T1", "uuid-1"),)
    assert gpus_of(GPU, 2) == (OwnGpu("NVIDIA T1", "uuid-1"), OwnGpu("NVIDIA T2", "uuid-2"))


def test_a_name_that_the_wire_would_refuse_is_made_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA\x1b[2J\u202e" + 1000 * "T")
    message = Ready(rank=0, at_ns=0, steps=1, parameters=1, gpus=gpus_of(GPU))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Ready) == message
    assert message.gpus[0].name.startswith("NVIDIA[2JTTT")


@pytest.mark.parametrize("backend", [ProcessGroupNCCL2(), Wrapper()])
def test_nccl_is_told_with_its_version_and_torchs_class(monkeypatch: pytest.MonkeyPatch, backend: object) -> None:
    group_of(monkeypatch, backend)
    assert nccl_of(GPU) == Nccl("2.28.9", "ProcessGroupNCCL2")


def test_of_another_backend_and_of_the_cpu_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    group_of(monkeypatch, ProcessGroupGloo())
    assert nccl_of(GPU) is None
    assert nccl_of(CPU) is None


def test_a_rank_tells_it_all_before_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    group_of(monkeypatch, ProcessGroupNCCL2())
    me = one_rank(Trial(gpus_per_rank=2), 1, device=GPU)
    me.start_ns = 5
    message = ready(me, 7, 4, nn.Linear(2, 3), SampleWork(12.5, "tf32"))
    assert (message.rank, message.steps, message.batches, message.parameters, message.start_ns) == (1, 7, 4, 9, 5)
    assert (message.flops, message.precision, message.nccl) == (12.5, "tf32", Nccl("2.28.9", "ProcessGroupNCCL2"))
    assert [gpu.uuid for gpu in message.gpus] == ["uuid-1", "uuid-2"]


def test_a_replica_has_the_work_of_the_common_model_and_a_gpu_of_its_own() -> None:
    ears = [Ear(0), Ear(1)]
    states = [ReplicaState(ear, Delays((), rank)) for rank, ear in enumerate(ears)]
    for rank, state in enumerate(states):
        state.device, state.start_ns = torch.device("cuda", rank), 10 * rank
    common = Ready(rank=0, at_ns=0, steps=3, parameters=9, flops=4.0, precision="bf16", gpus=gpus_of(GPU, 2))
    ReplicaProgress(states, 0).ready(common)
    told = [message for ear in ears for message in ear.heard]
    assert [(each.rank, each.start_ns) for each in told] == [(0, 0), (1, 10)]
    assert {(each.flops, each.precision) for each in told} == {(4.0, "bf16")}
    assert [[gpu.uuid for gpu in each.gpus] for each in told] == [["uuid-0"], ["uuid-1"]]
