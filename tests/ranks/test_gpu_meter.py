"""What a GPU is at: NVML's figures of the rank's own GPU, each missing where NVML does not give it; NVML is made up."""

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ddptui.host.gpus import is_held_back
from ddptui.wire.messages import Gpu
from workers.instruments import heartbeat
from workers.instruments.gpu import uuid_of
from workers.instruments.heartbeat import GpuMeter, ProcessMeter
from workers.instruments.reporter import Reporter
from workers.rank.device import CPU

GPU = torch.device("cuda", 1)
UUIDS = {0: "11111111-aaaa", 1: "22222222-bbbb"}  # by CUDA's number
FULL = Gpu(
    busy_percent=83.0,
    used_bytes=3 * 2**30,
    total_bytes=8 * 2**30,
    watts=215.5,
    celsius=61.0,
    sm_mhz=1755.0,
    held_back=True,
    joules=1234.567,
)
FIELDS = {  # by the figures of NVML that they come from
    "UtilizationRates": {"busy_percent"},
    "MemoryInfo": {"used_bytes", "total_bytes"},
    "PowerUsage": {"watts"},
    "Temperature": {"celsius"},
    "ClockInfo": {"sm_mhz"},
    "CurrentClocksEventReasons": {"held_back"},
    "TotalEnergyConsumption": {"joules"},
}
FIGURES = tuple(FIELDS)
SM = 1  # NVML_CLOCK_SM, in nvml.h


class NVMLError(Exception):
    pass


class Nvml(SimpleNamespace):
    """pynvml, of a machine with these GPUs, by their UUIDs; which refuses some figures."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = SM

    def __init__(self, *uuids: str, refuses: tuple[str, ...] = ()) -> None:
        super().__init__(NVMLError=NVMLError, starts=0, uuids=uuids)
        self.nvmlDeviceGetUtilizationRates = self.figure(
            SimpleNamespace(gpu=83, memory=12), "UtilizationRates", refuses
        )
        memory = SimpleNamespace(used=3 * 2**30, total=8 * 2**30)
        self.nvmlDeviceGetMemoryInfo = self.figure(memory, "MemoryInfo", refuses)
        self.nvmlDeviceGetPowerUsage = self.figure(215_500, "PowerUsage", refuses)
        self.nvmlDeviceGetTemperature = self.figure(61, "Temperature", refuses)
        clocks = self.figure({SM: 1755}, "ClockInfo", refuses)
        self.nvmlDeviceGetClockInfo = lambda handle, clock: clocks(handle)[clock]
        self.nvmlDeviceGetCurrentClocksEventReasons = self.figure(0x24, "CurrentClocksEventReasons", refuses)
        self.nvmlDeviceGetTotalEnergyConsumption = self.figure(1_234_567, "TotalEnergyConsumption", refuses)

    def figure(self, value: Any, name: str, refuses: tuple[str, ...]) -> Callable[..., Any]:
        def ask(handle: str, *_: int) -> Any:
            assert handle == UUIDS[1], "another one's"
            if name in refuses:
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

    properties = {GPU: SimpleNamespace(uuid=UUIDS[1])}
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties.__getitem__)
    heartbeat.nvml.cache_clear()
    yield install
    heartbeat.nvml.cache_clear()


def meter_of(device: torch.device) -> GpuMeter:
    return GpuMeter(lambda: uuid_of(device))


@pytest.mark.parametrize("uuids", [("GPU-22222222-bbbb", "GPU-11111111-aaaa"), ("MIG-22222222-bbbb",)])
def test_the_gpu_is_found_by_its_uuid_in_whatever_order_nvml_has_them(installed: Any, uuids: tuple[str, ...]) -> None:
    installed(Nvml(*uuids))
    assert meter_of(GPU).read() == FULL


@pytest.mark.parametrize("refused", FIGURES)
def test_a_figure_that_is_not_given_is_missing_alone(installed: Any, refused: str) -> None:
    installed(Nvml("GPU-22222222-bbbb", refuses=(refused,)))
    told = meter_of(GPU).read()
    for field in Gpu.__struct_fields__:
        assert getattr(told, field) == (None if field in FIELDS[refused] else getattr(FULL, field))


def test_a_driver_that_knows_the_reasons_by_their_older_name_is_asked_by_that(installed: Any) -> None:
    nvml = installed(Nvml("GPU-22222222-bbbb", refuses=("CurrentClocksEventReasons",)))
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda _: 0x20
    read = meter_of(GPU).read()
    assert read is not None
    assert read.held_back is True


@pytest.mark.parametrize(
    ("reason", "is_a_fault"),
    [
        ("None", False),
        ("GpuIdle", False),
        ("ApplicationsClocksSetting", False),
        ("SwPowerCap", False),  # at which large GPUs train as they left the factory
        ("HwSlowdown", False),  # also where the clock only changes
        ("SyncBoost", False),
        ("DisplayClockSetting", False),
        ("SwThermalSlowdown", True),
        ("HwThermalSlowdown", True),
        ("HwPowerBrakeSlowdown", True),
    ],
)
def test_only_heat_and_the_power_supply_hold_a_clock_back(reason: str, is_a_fault: bool) -> None:
    """By the bits of NVML's header, as its Python binding has them."""
    import pynvml

    bits = getattr(pynvml, f"nvmlClocksThrottleReason{reason}")
    said = SimpleNamespace(NVMLError=NVMLError, nvmlDeviceGetCurrentClocksEventReasons=lambda _: bits | 2**40)
    assert is_held_back(said, "gpu") is is_a_fault
    assert pynvml.NVML_CLOCK_SM == SM


def test_nvml_is_started_once_however_often_it_is_asked(installed: Any) -> None:
    nvml = installed(Nvml("GPU-22222222-bbbb"))
    for meter_of_a_replica in (meter_of(GPU), meter_of(GPU)):
        for _ in range(3):
            assert meter_of_a_replica.read() == FULL
    assert nvml.starts == 1


def test_a_cpu_has_none_and_nvml_is_left_alone(installed: Any) -> None:
    nvml = installed(Nvml("GPU-22222222-bbbb"))
    assert meter_of(CPU).read() is None
    assert nvml.starts == 0


def test_without_a_driver_or_the_library_there_is_none(
    installed: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nvml = installed(Nvml("GPU-22222222-bbbb"))

    def not_there() -> None:
        raise NVMLError("NVML Shared Library Not Found")

    nvml.nvmlInit = not_there
    assert meter_of(GPU).read() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)  # an import of it fails
    heartbeat.nvml.cache_clear()
    assert meter_of(GPU).read() is None
    assert capfd.readouterr() == ("", "")


def test_a_gpu_that_nvml_does_not_know_has_none(installed: Any) -> None:
    installed(Nvml("GPU-11111111-aaaa"))
    assert meter_of(GPU).read() is None


def test_a_gpu_that_is_lost_takes_no_thread_with_it(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(Nvml("GPU-22222222-bbbb", refuses=FIGURES))
    assert meter_of(GPU).read() == Gpu()

    def failed(_: torch.device) -> Any:
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(torch.cuda, "get_device_properties", failed)
    assert meter_of(GPU).read() is None


def test_a_library_that_fails_in_an_unknown_way_takes_no_thread_with_it(installed: Any) -> None:
    nvml = installed(Nvml("GPU-22222222-bbbb"))

    def failed(_: str) -> Any:
        raise ValueError("what no release was seen to raise")

    nvml.nvmlDeviceGetPowerUsage = failed
    assert meter_of(GPU).read() is None


def test_a_heartbeat_has_the_figures_of_the_ranks_own_gpu(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(Nvml("GPU-22222222-bbbb", "GPU-11111111-aaaa"))
    first = torch.device("cuda", 0)  # the current one of the reporter's thread
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device=first: 100 + device.index)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device=first: 200 + device.index)
    reporter = Reporter(1)
    before = reporter._beat(ProcessMeter())
    reporter.set_device(GPU)
    beat = reporter._beat(ProcessMeter())
    assert (before.gpu, before.gpu_bytes, before.gpu_reserved_bytes) == (None, None, None)
    assert (beat.gpu, beat.gpu_bytes, beat.gpu_reserved_bytes) == (FULL, 101, 201)
    reporter.close()
