"""Ranks inside the tests' own process."""

import gc
from collections.abc import Iterator

import pytest
import torch.distributed as dist

from tests.support.simulated_gpu import Gpu, simulated
from tests.support.torches import BOTH_WAYS
from workers.instruments import hooks
from workers.instruments.cuda_clock import CudaClock
from workers.rank.group import leave_group


@pytest.fixture(scope="module", autouse=True)
def garbage_of_its_own() -> None:
    """Leaving a process group runs the garbage collector. With all earlier objects frozen, it looks only at what this
    file has made; else that would take ten times as long as most of these tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


@pytest.fixture
def clock(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> CudaClock:
    return simulated(monkeypatch, gpu)


@pytest.fixture(params=BOTH_WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taps see collectives by the hooks of the group, or by wrapping torch's functions."""
    monkeypatch.setattr(hooks, "group_takes_hooks", lambda: request.param)


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A group of one."""
    meet = tmp_path_factory.mktemp("group") / "meet"
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=0, world_size=1)
    yield
    leave_group()
