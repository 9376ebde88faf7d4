"""Ranks inside the tests' own process."""

import gc

import pytest

from tests.support.simulated_gpu import Gpu, simulated
from workers.instruments.cuda_clock import CudaClock


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
