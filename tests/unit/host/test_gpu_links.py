"""What connects GPUs, as a faked NVML and a folder in place of the kernel's say; there is no GPU."""

from collections.abc import Collection, Mapping
from ctypes import Structure
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddptui.host import gpu_links
from ddptui.host.gpu_links import GpuLinks, Links, NvLinks, Pcie, bus_id, nominal_gb_s, read
from ddptui.host.nvml import FUNCTION_NOT_FOUND, NOT_SUPPORTED, POWER_BRAKE
from tests.support.gpu_boxes import address

SWITCH = "00000000:0A:00.0"
UNKNOWN = 255
INVALID_ARGUMENT = 2


class Refused(Exception):
    def __init__(self, value: int = NOT_SUPPORTED) -> None:
        self.value = value


class Nvml:
    """NVML for two GPUs. ends: of each of their NVLinks, the kind and the address of what it leads to; None: the link
    is down. A method of `refused` is refused, and one of `lacking` is not there, as in an older library. The state of a
    link of `silent` is not known."""

    NVMLError = Refused

    def __init__(
        self,
        ends: Mapping[int, list[tuple[int, str] | None]] = {},
        mb_s: Mapping[Any, int] = {90: 26562},
        refused: Collection[str] = (),
        lacking: Collection[str] = (),
        silent: Collection[int] = (),
    ) -> None:
        self.ends, self.mb_s, self.refused, self.lacking, self.silent = ends, mb_s, refused, lacking, silent
        self.states_asked = 0

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvmlDevice"):
            if name in self.lacking:
                raise AttributeError(name)
            if name in self.refused:
                raise Refused
        return super().__getattribute__(name)

    def nvmlDeviceGetPciInfo(self, gpu: int) -> object:
        return SimpleNamespace(busId=f"0000{address(gpu)}".upper().encode())

    def nvmlDeviceGetMaxPcieLinkGeneration(self, _: int) -> int:
        return 5

    def nvmlDeviceGetMaxPcieLinkWidth(self, _: int) -> int:
        return 16

    def nvmlDeviceGetCurrPcieLinkGeneration(self, _: int) -> int:
        return 1

    def nvmlDeviceGetCurrPcieLinkWidth(self, gpu: int) -> int:
        return 16 >> gpu

    def nvmlDeviceGetTopologyCommonAncestor(self, *_: int) -> int:
        return 40

    def nvmlDeviceGetNvLinkState(self, gpu: int, link: int) -> int:
        self.states_asked += 1
        ends = self.ends.get(gpu, [])
        if not ends:
            raise Refused
        if link >= len(ends) or link in self.silent:
            raise Refused(INVALID_ARGUMENT)
        return int(ends[link] is not None)

    def _end(self, gpu: int, link: int) -> tuple[int, str]:
        end = self.ends[gpu][link]
        assert end is not None  # nobody asks what a link leads to that is down
        return end

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, gpu: int, link: int) -> int:
        return self._end(gpu, link)[0]

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu: int, link: int) -> object:
        return SimpleNamespace(busId=self._end(gpu, link)[1])

    def nvmlDeviceGetNvLinkVersion(self, *_: int) -> int:
        return 6

    def nvmlDeviceGetFieldValues(self, _: int, fields: list[Any]) -> list[object]:
        values = [self.mb_s.get(field) for field in fields]
        return [
            SimpleNamespace(nvmlReturn=int(value is None), value=SimpleNamespace(uiVal=value or 0)) for value in values
        ]


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """Two GPUs on two NUMA nodes."""
    for gpu in range(2):
        (tmp_path / address(gpu)).mkdir()
        (tmp_path / address(gpu) / "numa_node").write_text(f"{gpu}\n")
    return tmp_path


def nvlinks(nvml: Nvml, devices: Path) -> NvLinks:
    return read(nvml, [0, 1], devices).gpus[0].nvlinks


def test_pcie_numa_and_what_is_between_two_gpus(devices: Path) -> None:
    links = read(Nvml(), [0, 1], devices)
    assert links == Links(
        (GpuLinks(address(0), 0, Pcie(5, 16), Pcie(1, 16)), GpuLinks(address(1), 1, Pcie(5, 16), Pcie(1, 8))),
        {(0, 1): "NODE"},
    )
    assert str(links.gpus[0].pcie) == "5.0 x16"


def test_links_that_are_up_are_counted_by_what_they_lead_to(devices: Path) -> None:
    ends = [(2, SWITCH), (2, SWITCH), None, (0, address(1).upper()), (1, "00000000:03:00.0")]
    assert nvlinks(Nvml({0: ends}), devices) == NvLinks(2, {address(1): 1}, 25.0, "4.0")
    assert nvlinks(Nvml({0: [None, None]}), devices) == NvLinks()


@pytest.mark.parametrize("link", [0, 3, 17])
def test_a_link_that_does_not_answer_hides_no_other_one(link: int, devices: Path) -> None:
    assert nvlinks(Nvml({0: [(2, SWITCH)] * 18}, silent=[link]), devices).to_switches == 17


def test_a_gpu_without_nvlink_is_asked_once(devices: Path) -> None:
    nvml = Nvml({1: [(2, SWITCH)]})
    assert nvlinks(nvml, devices) == NvLinks()
    assert nvml.states_asked == 1 + 1 + gpu_links.MOST_NVLINKS  # the second GPU has one, which may hide others


@pytest.mark.parametrize("kind", [UNKNOWN, None])
def test_what_a_virtual_machine_hides_is_taken_for_a_switch(kind: int | None, devices: Path) -> None:
    refused = ["nvmlDeviceGetNvLinkRemoteDeviceType"] if kind is None else []
    hidden = [(UNKNOWN, "FFFFFFFF:FFFF:FF.F"), (UNKNOWN, address(1))]
    assert nvlinks(Nvml({0: hidden}, refused=refused), devices) == NvLinks(1, {address(1): 1}, 25.0, "4.0")


@pytest.mark.parametrize(
    ("mb_s", "gb_s"),
    [
        ({90: 25781}, 25.0),
        ({90: 14062}, 14.062),
        ({90: 0, (164, 0): 53125}, 50.0),
        ({(164, 0): 26562}, 25.0),
        ({}, None),
    ],
)
def test_the_speed_is_that_of_data_sheets(mb_s: dict[Any, int], gb_s: float | None, devices: Path) -> None:
    assert nvlinks(Nvml({0: [(2, SWITCH)]}, mb_s), devices).gb_s == gb_s


@pytest.mark.parametrize(
    ("wire", "nominal"), [(25.0, 25.0), (26.562, 25.0), (26.8, 26.8), (19.2, 19.2), (53.125, 50.0)]
)
def test_only_coding_is_taken_off(wire: float, nominal: float) -> None:
    assert nominal_gb_s(wire) == nominal


def test_an_nvml_that_refuses_or_lacks_everything_tells_nothing(devices: Path) -> None:
    asked = [name for name in vars(Nvml) if name.startswith("nvmlDevice")]
    for nvml in (Nvml(refused=asked), Nvml(lacking=asked)):
        assert read(nvml, [0, 1], devices) == Links((GpuLinks(), GpuLinks()))


@pytest.mark.parametrize("written", ["-1\n", "", "nonsense"])
def test_a_node_that_the_kernel_does_not_know_is_none(written: str, devices: Path) -> None:
    (devices / address(0) / "numa_node").write_text(written)
    assert read(Nvml(), [0, 1], devices).gpus[0].numa_node is None


@pytest.mark.parametrize(
    ("named", "address"),
    [
        (b"00000000:18:00.0", "0000:18:00.0"),
        ("0001:AF:1F.7", "0001:af:1f.7"),
        ("../../etc:18:00.0", None),
        ("FFFFFFFF:FFFF:FF.F", None),
        ("", None),
    ],
)
def test_an_address_is_written_as_the_kernel_does(named: str | bytes, address: str | None) -> None:
    assert bus_id(named) == address


def test_no_more_links_and_pairs_are_asked_for_than_there_can_be(devices: Path) -> None:
    endless = Nvml({0: [(2, SWITCH)] * 1000})
    assert nvlinks(endless, devices) == NvLinks(gpu_links.MOST_NVLINKS, {}, 25.0, "4.0")
    assert len(read(Nvml(), [0] * 100, devices).levels) == 32 * 31 / 2


def test_the_real_library_has_what_is_asked_for() -> None:
    """Its numbers too, so that a renamed function or a changed field is noticed here."""
    pynvml = pytest.importorskip("pynvml")
    assert not [name for name in vars(Nvml) if name.startswith("nvmlDevice") and not hasattr(pynvml, name)]
    assert (pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, pynvml.NVML_FI_DEV_NVLINK_GET_SPEED) == (90, 164)
    assert (pynvml.NVML_NVLINK_DEVICE_TYPE_GPU, pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH) == (0, 2)
    assert [getattr(pynvml, f"NVML_TOPOLOGY_{name}") for name in ("SINGLE", "NODE", "SYSTEM")] == [10, 40, 50]
    assert pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown == POWER_BRAKE
    assert (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) == (
        NOT_SUPPORTED,
        FUNCTION_NOT_FOUND,
    )
    assert pynvml.NVMLError(NOT_SUPPORTED).value == NOT_SUPPORTED
    assert issubclass(pynvml.nvmlPciInfo_t, Structure)
    assert "busId" in dict(pynvml.nvmlPciInfo_t._fields_)
