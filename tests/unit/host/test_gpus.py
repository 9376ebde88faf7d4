"""Which GPUs a rank will see: as CUDA reads CUDA_VISIBLE_DEVICES, and as NVML tells; NVML is faked, there is no GPU."""

import sys
from collections.abc import Callable, Collection, Sequence
from types import ModuleType, SimpleNamespace

import pytest

from ddptui.host import gpus, machine
from ddptui.host.gpus import Build, Driver, HostGpu
from ddptui.host.machine import describe, gpus_of
from tests.support.failing import failing

GB = 2**30
UUIDS = ["GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"]
FOUR = Driver("550.54", (12, 4), tuple(HostGpu("H100", uuid, 80 * GB) for uuid in UUIDS))


SEEN: dict[str | None, list[int]] = {
    None: [0, 1, 2, 3], "": [], "  ": [], "-1": [], "0": [0], "2,0": [2, 0], " 1 , 3 ": [1, 3], "0,-1,1": [0],
    "0,,1": [0], "0,9,1": [0], "9": [], "0,1,0": [], "NoDevFiles": [], "all": [], "1gpu2,2ampere": [1, 2],
    "GPU-bb33": [2], "GPU-b,GPU-aa1": [2, 0], "GPU-aa": [], "GPU-b,GPU-aa,GPU-c": [2], "GPU-b,3": [2],
    "GPU-b,GPU-bb33": [], "3,GPU-b": [3], "GPU-zz": [],
}  # fmt: skip


@pytest.mark.parametrize(("visible", "seen"), SEEN.items())
def test_the_variable_is_read_as_cuda_reads_it(visible: str | None, seen: list[int]) -> None:
    assert gpus.seen(visible, UUIDS) == seen
    assert gpus.count(FOUR, {} if visible is None else {gpus.VISIBLE: visible}) == len(seen)


@pytest.mark.parametrize(
    ("driver", "visible", "number"),
    [
        *((None, hidden, 0) for hidden in ("", "-1", "NoDevFiles")),  # without NVML only that is known
        (None, None, None),
        (None, "0", None),
        (FOUR._replace(gpus=(FOUR.gpus[0]._replace(is_cut=True),)), None, None),  # instances are not counted
        (FOUR, "MIG-4e2a", None),
    ],
)
def test_how_many_there_are_may_be_unknown(driver: Driver | None, visible: str | None, number: int | None) -> None:
    assert gpus.count(driver, {} if visible is None else {gpus.VISIBLE: visible}) == number


# NVML


class NotSupported(Exception):
    pass


Nvlinks = Sequence[set[int]]
ANSWERS: dict[str, Callable[..., object]] = {
    "DeviceGetMemoryInfo": lambda _: SimpleNamespace(total=80 * GB, used=GB),
    "DeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=7, memory=1),
    "DeviceGetMigMode": lambda index: [index, index],
    "DeviceGetEnforcedPowerLimit": lambda _: 300_000,
    "DeviceGetPowerManagementDefaultLimit": lambda _: 350_000,
    "DeviceGetMaxClockInfo": lambda _, kind: 1980 if kind == FakeNvml.NVML_CLOCK_SM else 2619,
    "DeviceGetCurrentClocksEventReasons": lambda index: 0x4 | 0x8 | 0x40 if index else 0x1,
    "DeviceGetCurrentClocksThrottleReasons": lambda _: 0x20,  # as older drivers call it
    "SystemGetDriverVersion": lambda: "550.54",
    "SystemGetCudaDriverVersion_v2": lambda: 12040,
}
REASONS = "DeviceGetCurrentClocksEventReasons"
P2P, TOPOLOGY = "DeviceGetP2PStatus", "DeviceGetTopologyCommonAncestor"


class FakeNvml(ModuleType):
    """As nvidia-ml-py has it, for so many GPUs; whatever is in `silent` is not supported."""

    NVMLError = NotSupported
    NVML_CLOCK_SM = 1

    def __init__(self, number: int = 2, silent: Collection[str] = (), nvlinks: Nvlinks = ()) -> None:
        super().__init__("pynvml")
        self.open = 0

        def status(one: int, other: int, over: int) -> int:
            is_nvlink = {one, other} in nvlinks and over == 2  # NVML_P2P_CAPS_INDEX_NVLINK
            return 0 if is_nvlink else 5  # NVML_P2P_STATUS_OK, …_NOT_SUPPORTED

        self._silent = silent
        self._answers = ANSWERS | {
            "Init": lambda: self._opened(1), "Shutdown": lambda: self._opened(-1), "DeviceGetCount": lambda: number,
            "DeviceGetHandleByIndex": lambda index: index, "DeviceGetName": lambda _: b"NVIDIA H100",
            "DeviceGetUUID": lambda index: UUIDS[index], P2P: status, TOPOLOGY: lambda *_: 50,
        }  # fmt: skip

    def _opened(self, by: int) -> None:
        self.open += by

    def __getattr__(self, name: str) -> Callable[..., object]:
        question = name.removeprefix("nvml")
        if question not in self._answers:
            raise AttributeError(name)
        return failing(NotSupported(question)) if question in self._silent else self._answers[question]


def told_by(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, *, with_links: bool = False) -> Driver | None:
    monkeypatch.setattr(gpus, "surely_none", lambda: False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    told = gpus.ask(with_links=with_links)
    assert nvml.open == 0  # and it is let go of
    return told


LIMITS = {"power_limit_w": 300, "default_power_limit_w": 350, "most_sm_mhz": 1980}
WHOLE = HostGpu("NVIDIA H100", UUIDS[0], 80 * GB, GB, 7, **LIMITS, is_held_back=False)
OTHER = WHOLE._replace(uuid=UUIDS[1], is_cut=True, is_held_back=True)
LITTLE = (HostGpu("NVIDIA H100", UUIDS[0]), HostGpu("NVIDIA H100", UUIDS[1]))


@pytest.mark.parametrize(
    ("silent", "driver"),
    [
        ((), Driver("550.54", (12, 4), (WHOLE, OTHER))),
        ((REASONS,), Driver("550.54", (12, 4), (WHOLE._replace(is_held_back=True), OTHER))),  # older drivers
        (ANSWERS, Driver("?", None, LITTLE)),
        (("Init",), None),
        (("DeviceGetCount",), None),
    ],
)
def test_nvml_tells_what_it_can(
    silent: Collection[str], driver: Driver | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told_by(FakeNvml(silent=silent), monkeypatch) == driver


@pytest.mark.parametrize(
    ("nvml", "lines"),
    [
        (FakeNvml(), ("SYS: 0-1",)),
        (FakeNvml(nvlinks=[{0, 1}]), ("NVLink: 0-1",)),
        (FakeNvml(4, nvlinks=[{0, 1}, {2, 3}]), ("NVLink: 0-1, 2-3", "SYS: 0-2, 0-3, 1-2, 1-3")),
        (FakeNvml(3, nvlinks=[{0, 1}, {0, 2}, {1, 2}]), ("NVLink between all 3",)),
        (FakeNvml(3, nvlinks=[{0, 2}], silent=(TOPOLOGY,)), ("NVLink: 0-2",)),
        (FakeNvml(silent=(P2P,)), ("SYS: 0-1",)),
        (FakeNvml(silent=(P2P, TOPOLOGY)), ()),
        (FakeNvml(1), ()),
    ],
)
def test_what_connects_gpus_is_told(nvml: FakeNvml, lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    told, plain = (told_by(nvml, monkeypatch, with_links=wanted) for wanted in (True, False))
    assert told is not None
    assert plain is not None
    assert (told.links, plain.links) == (lines, ())


def test_the_numbers_are_those_of_nvmls_header() -> None:
    import pynvml

    assert (pynvml.NVML_P2P_CAPS_INDEX_NVLINK, pynvml.NVML_P2P_STATUS_OK) == (gpus.OVER_NVLINK, gpus.P2P_OK)
    levels = ("INTERNAL", "SINGLE", "MULTIPLE", "HOSTBRIDGE", "NODE", "SYSTEM")
    assert [getattr(pynvml, f"NVML_TOPOLOGY_{level}") for level in levels] == [*gpus.PCIE_LEVELS]


@pytest.mark.skipif(not gpus.surely_none(), reason="this machine has a GPU")
def test_nothing_is_told_where_there_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "surely_none", lambda: False)
    assert gpus.ask() is None
    monkeypatch.setattr(gpus, "surely_none", lambda: True)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())  # which would tell of two, and is not touched
    assert gpus.ask() is None


# What torch is built for

SAID = "cuda: Optional[str] = {}\nhip: Optional[str] = {}\n"


@pytest.mark.parametrize(
    ("text", "build"),
    [
        (SAID.format("'13.2'", "None"), Build("13.2", None)),
        (SAID.format("None", "'6.2.4'"), Build(None, "6.2.4")),
        (SAID.format("None", "None"), Build(None, None)),
        ("cuda = '11.8'\n", Build("11.8", None)),
        ("debug = False\n", None),
    ],
)
def test_what_torch_is_built_for_is_read_and_not_run(text: str, build: Build | None) -> None:
    import torch  # here: nothing else in this room needs it

    assert gpus.built(f"from typing import Optional\n__all__ = ['cuda', 'hip']\n{text}") == build
    assert gpus.built_for() == Build(torch.version.cuda, torch.version.hip)


@pytest.mark.parametrize(
    ("knows", "build", "too_old"),
    [
        ((12, 4), Build("13.2", None), True),
        ((11, 4), Build("12.1", None), True),
        ((13, 0), Build("13.2", None), False),  # within a major version, newer runs on older
        ((13, 0), Build("12.6", None), False),
        (None, Build("13.2", None), False),
        ((12, 4), Build(None, "6.2"), False),
        ((12, 4), None, False),
    ],
)
def test_a_driver_may_be_too_old(knows: tuple[int, int] | None, build: Build | None, too_old: bool) -> None:
    assert gpus.is_too_old(Driver("550", knows, ()), build) is too_old


# Where they are told


@pytest.mark.parametrize(
    ("devices", "variables", "words"),
    [
        (0, {}, "no GPU"),
        (1, {}, "1 GPU"),
        (4, {}, "4 GPUs"),
        (4, {gpus.VISIBLE: "0,2"}, "2 of 4 GPUs"),
        (4, {gpus.VISIBLE: "0,1,2,3"}, "4 GPUs"),
        (2, {gpus.VISIBLE: ""}, "0 of 2 GPUs"),
    ],
)
def test_the_console_counts_device_files_and_what_hides(devices: int, variables: dict[str, str], words: str) -> None:
    assert machine.gpus_in_short(devices, variables) == words


@pytest.mark.parametrize("package", ["nvidia-nccl-cu12", "nvidia-nccl-cu13", None])
def test_a_run_keeps_what_gpus_and_what_nccl_it_had(package: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpus.VISIBLE, "1")
    monkeypatch.setattr(machine, "installed", lambda name: "2.28.9" if name == package else None)
    monkeypatch.setattr(gpus, "ask", lambda **_: None)
    assert "nccl" not in describe()["packages"]
    monkeypatch.setattr(gpus, "ask", lambda **_: FOUR)
    kept = describe()
    assert kept["packages"].get("nccl") == (package and "2.28.9")
    assert kept["gpus"] == ["H100, 80 GB"] * 4
    assert (kept["gpu_driver"], kept["gpus_visible"]) == ("550.54 (CUDA 12.4)", "1")
    assert not [key for key in kept if "links" in key or "power" in key]  # of which this NVML says nothing


def test_a_run_keeps_the_links_and_power_limits_of_its_gpus() -> None:
    assert gpus_of(None) == {}
    limited = HostGpu("H100", UUIDS[0], power_limit_w=300.0, default_power_limit_w=700.0)
    kept = gpus_of(Driver("550.54", None, (limited, HostGpu("H100", UUIDS[1])), links=("SYS: 0-1",)))
    assert (kept["gpus"], kept["gpu_links"]) == (["H100"] * 2, ["SYS: 0-1"])
    assert (kept["gpu_power_limit_w"], kept["gpu_default_power_limit_w"]) == ([300.0, None], [700.0, None])
