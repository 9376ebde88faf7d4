"""What a GPU is at: NVML's figures of the rank's own GPU, each missing where NVML does not give it; NVML is made up."""

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch

from ddptui.host.gpus import is_held_back
from ddptui.wire.messages import Gpu
from tests.support.failing import failing
from workers.instruments import heartbeat
from workers.instruments.gpu import uuid_of
from workers.instruments.heartbeat import GpuMeter, ProcessMeter
from workers.instruments.reporter import Reporter
from workers.rank.device import CPU

GPU = torch.device("cuda", 1)
OWN, OTHER = "22222222-bbbb", "11111111-aaaa"
FULL = Gpu(
    busy_percent=83.0, used_bytes=3 * 2**30, total_bytes=8 * 2**30, watts=215.5, celsius=61.0, sm_mhz=1755.0,
    held_back=True, joules=1234.567,
)  # fmt: skip
SM = 1  # NVML_CLOCK_SM, in nvml.h
ANSWERS = {  # of NVML, and the figures that come from them
    "UtilizationRates": (SimpleNamespace(gpu=83, memory=12), {"busy_percent"}),
    "MemoryInfo": (SimpleNamespace(used=3 * 2**30, total=8 * 2**30), {"used_bytes", "total_bytes"}),
    "PowerUsage": (215_500, {"watts"}),
    "Temperature": (61, {"celsius"}),
    "ClockInfo": (1755, {"sm_mhz"}),
    "CurrentClocksEventReasons": (0x24, {"held_back"}),
    "TotalEnergyConsumption": (1_234_567, {"joules"}),
}


class NVMLError(Exception):
    pass


class Nvml(SimpleNamespace):
    """pynvml, of a machine with these GPUs, by their UUIDs; which refuses some figures."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = SM

    def __init__(self, *uuids: str, refuses: tuple[str, ...] = ()) -> None:
        super().__init__(NVMLError=NVMLError, starts=0, uuids=uuids)
        for name, (value, _) in ANSWERS.items():
            setattr(self, f"nvmlDeviceGet{name}", self.figure(value, refused=name in refuses))

    def figure(self, value: Any, *, refused: bool) -> Callable[..., Any]:
        def ask(handle: str, *_: int) -> Any:
            assert handle == OWN, "another one's"
            if refused:
                raise NVMLError("Not Supported")
            return value

        return ask

    def nvmlInit(self) -> None:
        self.starts += 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.uuids:
            raise NVMLError("Not Found")
        return uuid.partition("-")[2]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Nvml], Nvml]]:
    def install(nvml: Nvml) -> Nvml:
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        return nvml

    monkeypatch.setattr(torch.cuda, "get_device_properties", {GPU: SimpleNamespace(uuid=OWN)}.__getitem__)
    heartbeat.nvml.cache_clear()
    yield install
    heartbeat.nvml.cache_clear()


def read(device: torch.device = GPU) -> Gpu | None:
    return GpuMeter(lambda: uuid_of(device)).read()


@pytest.mark.parametrize("uuids", [(f"GPU-{OWN}", f"GPU-{OTHER}"), (f"MIG-{OWN}",)])
def test_the_gpu_is_found_by_its_uuid_in_whatever_order_nvml_has_them(installed: Any, uuids: tuple[str, ...]) -> None:
    nvml = installed(Nvml(*uuids))
    assert [read(), read()] == [FULL, FULL]
    assert nvml.starts == 1


@pytest.mark.parametrize("refused", ANSWERS)
def test_a_figure_that_is_not_given_is_missing_alone(installed: Any, refused: str) -> None:
    installed(Nvml(f"GPU-{OWN}", refuses=(refused,)))
    assert read() == msgspec.structs.replace(FULL, **dict.fromkeys(ANSWERS[refused][1]))


def test_a_driver_that_knows_the_reasons_by_their_older_name_is_asked_by_that(installed: Any) -> None:
    nvml = installed(Nvml(f"GPU-{OWN}", refuses=("CurrentClocksEventReasons",)))
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda _: 0x20
    assert read() == FULL


def test_only_heat_and_the_power_supply_hold_a_clock_back() -> None:
    """By the bits of NVML's header, as its Python binding has them."""
    import pynvml

    faults = {"SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown"}
    others = {"None", "GpuIdle", "ApplicationsClocksSetting", "SwPowerCap", "HwSlowdown", "SyncBoost"}
    held = set()
    for reason in {*faults, *others, "DisplayClockSetting"}:
        bits = getattr(pynvml, f"nvmlClocksThrottleReason{reason}")
        said = SimpleNamespace(
            NVMLError=NVMLError, nvmlDeviceGetCurrentClocksEventReasons=lambda _, bits=bits: bits | 2**40
        )
        held |= {reason} if is_held_back(said, "gpu") else set()
    assert held == faults
    assert pynvml.NVML_CLOCK_SM == SM


def test_a_cpu_has_none_and_nvml_is_left_alone(installed: Any) -> None:
    nvml = installed(Nvml(f"GPU-{OWN}"))
    assert read(CPU) is None
    assert nvml.starts == 0


def test_without_a_driver_the_library_or_the_gpu_there_is_none(
    installed: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    installed(Nvml(f"GPU-{OTHER}"))
    assert read() is None
    no_driver = Nvml(f"GPU-{OWN}")
    no_driver.nvmlInit = failing(NVMLError("NVML Shared Library Not Found"))
    for without in (no_driver, None):
        monkeypatch.setitem(sys.modules, "pynvml", without)  # None: an import of it fails
        heartbeat.nvml.cache_clear()
        assert read() is None
    assert capfd.readouterr() == ("", "")


def test_a_gpu_that_is_lost_takes_no_thread_with_it(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = failing(RuntimeError("CUDA error: unspecified launch failure"))
    nvml = installed(Nvml(f"GPU-{OWN}", refuses=tuple(ANSWERS)))
    assert read() == Gpu()
    nvml.nvmlDeviceGetPowerUsage = failed  # which no release was seen to raise
    assert read() is None
    monkeypatch.setattr(torch.cuda, "get_device_properties", failed)
    assert read() is None


def test_a_heartbeat_has_the_figures_of_the_ranks_own_gpu(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(Nvml(f"GPU-{OWN}", f"GPU-{OTHER}"))
    first = torch.device("cuda", 0)  # the current one of the reporter's thread

    def stats(device: torch.device = first) -> dict[str, int]:
        return {"allocated_bytes.all.current": 100 + device.index, "reserved_bytes.all.current": 200 + device.index}

    monkeypatch.setattr(torch.cuda, "memory_stats", stats)
    reporter = Reporter(1)
    before = reporter._beat(ProcessMeter())
    reporter.set_device(GPU)
    beat = reporter._beat(ProcessMeter())
    assert (before.gpu, before.gpu_bytes, before.gpu_reserved_bytes) == (None, None, None)
    assert (beat.gpu, beat.gpu_bytes, beat.gpu_reserved_bytes) == (FULL, 101, 201)
    reporter.close()
