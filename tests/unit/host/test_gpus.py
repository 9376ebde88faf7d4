"""Which GPUs a rank will see: as CUDA reads CUDA_VISIBLE_DEVICES, and as NVML tells; NVML is faked, there is no GPU."""

import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace

import pytest

from ddptui.host import gpus, machine
from ddptui.host.gpus import Build, Driver, Gpu
from ddptui.host.machine import describe, gpus_of

GB = 2**30
UUIDS = ["GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"]
FOUR = Driver("550.54", (12, 4), tuple(Gpu("H100", uuid, 80 * GB) for uuid in UUIDS))


SEEN: dict[str | None, list[int]] = {
    None: [0, 1, 2, 3], "": [], "  ": [], "-1": [], "0": [0], "2,0": [2, 0], " 1 , 3 ": [1, 3], "0,-1,1": [0],
    "0,,1": [0], "0,9,1": [0], "9": [], "0,1,0": [], "NoDevFiles": [], "all": [], "1gpu2,2ampere": [1, 2],
    "GPU-bb33": [2], "GPU-b,GPU-aa1": [2, 0], "GPU-aa": [], "GPU-b,GPU-aa,GPU-c": [2], "GPU-b,3": [2],
    "GPU-b,GPU-bb33": [], "3,GPU-b": [3], "GPU-zz": [],
}  # fmt: skip
BY_TORCH = ["", "-1", "0", "2,0", "0,-1,1", "0,1,0", "all", "1gpu2,2ampere", "GPU-b,3", "3,GPU-b"]


@pytest.mark.parametrize(("visible", "seen"), SEEN.items())
def test_the_variable_is_read_as_cuda_reads_it(visible: str | None, seen: list[int]) -> None:
    assert gpus.seen(visible, UUIDS) == seen
    assert gpus.count(FOUR, {} if visible is None else {gpus.VISIBLE: visible}) == len(seen)


@pytest.mark.parametrize("visible", BY_TORCH)
def test_torch_reads_it_so_too(visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own reader, which leaves out what GPUs there are."""
    torch_cuda = pytest.importorskip("torch.cuda")
    if not hasattr(torch_cuda, "_parse_visible_devices"):
        pytest.skip("this torch keeps its reader elsewhere")
    monkeypatch.setenv(gpus.VISIBLE, visible)
    assert len(torch_cuda._parse_visible_devices()) == len(SEEN[visible])


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


SILENT = ("memory", "rates", "mig", "power", "default power", "clock", "reasons", "old reasons", "driver", "cuda")


class NotSupported(Exception):
    pass


class FakeNvml(ModuleType):
    """As nvidia-ml-py has it, for so many GPUs; whatever is in `silent` is not supported."""

    NVMLError = NotSupported
    NVML_CLOCK_SM = 1

    def __init__(
        self, number: int = 2, silent: Sequence[str] = (), version: int = 12040, nvlinks: Sequence[set[int]] = ()
    ) -> None:
        super().__init__("pynvml")
        self.nvlinks = nvlinks
        self.silent, self.open, self.number, self.version = silent, 0, number, version

    def _say(self, question: str, answer: object) -> object:
        if question in self.silent:
            raise NotSupported(question)
        return answer

    def nvmlInit(self) -> None:
        self._say("init", None)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> object:
        return self._say("count", self.number)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, _: int) -> bytes:
        return b"NVIDIA H100"

    def nvmlDeviceGetUUID(self, index: int) -> str:
        return UUIDS[index]

    def nvmlDeviceGetMemoryInfo(self, _: int) -> object:
        return self._say("memory", SimpleNamespace(total=80 * GB, used=GB))

    def nvmlDeviceGetUtilizationRates(self, _: int) -> object:
        return self._say("rates", SimpleNamespace(gpu=7, memory=1))

    def nvmlDeviceGetMigMode(self, index: int) -> object:
        return self._say("mig", [index, index])

    def nvmlDeviceGetEnforcedPowerLimit(self, _: int) -> object:
        return self._say("power", 300_000)

    def nvmlDeviceGetPowerManagementDefaultLimit(self, _: int) -> object:
        return self._say("default power", 350_000)

    def nvmlDeviceGetMaxClockInfo(self, _: int, kind: int) -> object:
        return self._say("clock", 1980 if kind == self.NVML_CLOCK_SM else 2619)

    def nvmlDeviceGetCurrentClocksEventReasons(self, index: int) -> object:
        return self._say("reasons", 0x4 | 0x8 | 0x40 if index else 0x1)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _: int) -> object:
        return self._say("old reasons", 0x20)

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, over: int) -> object:
        is_nvlink = {one, other} in self.nvlinks and over == 2  # NVML_P2P_CAPS_INDEX_NVLINK
        return self._say("p2p", 0 if is_nvlink else 5)  # NVML_P2P_STATUS_OK, …_NOT_SUPPORTED

    def nvmlDeviceGetTopologyCommonAncestor(self, *_: int) -> object:
        return self._say("topology", 50)

    def nvmlSystemGetDriverVersion(self) -> object:
        return self._say("driver", "550.54")

    def nvmlSystemGetCudaDriverVersion_v2(self) -> object:
        return self._say("cuda", self.version)


def told_by(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, *, with_links: bool = False) -> Driver | None:
    monkeypatch.setattr(gpus, "surely_none", lambda: False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    told = gpus.ask(with_links=with_links)
    assert nvml.open == 0  # and it is let go of
    return told


LIMITS = {"power_limit_w": 300, "default_power_limit_w": 350, "most_sm_mhz": 1980}
WHOLE = Gpu("NVIDIA H100", UUIDS[0], 80 * GB, GB, 7, **LIMITS, is_held_back=False)
OTHER = WHOLE._replace(uuid=UUIDS[1], is_cut=True, is_held_back=True)
LITTLE = (Gpu("NVIDIA H100", UUIDS[0]), Gpu("NVIDIA H100", UUIDS[1]))


@pytest.mark.parametrize(
    ("silent", "driver"),
    [
        ((), Driver("550.54", (12, 4), (WHOLE, OTHER))),
        (("reasons",), Driver("550.54", (12, 4), (WHOLE._replace(is_held_back=True), OTHER))),  # older drivers
        (SILENT, Driver("?", None, LITTLE)),
        (("init",), None),
        (("count",), None),
    ],
)
def test_nvml_tells_names_memory_and_the_driver_or_what_it_can(
    silent: tuple[str, ...], driver: Driver | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told_by(FakeNvml(silent=silent), monkeypatch) == driver


@pytest.mark.parametrize(
    ("nvml", "lines"),
    [
        (FakeNvml(), ("SYS: 0-1",)),
        (FakeNvml(nvlinks=[{0, 1}]), ("NVLink: 0-1",)),
        (FakeNvml(4, nvlinks=[{0, 1}, {2, 3}]), ("NVLink: 0-1, 2-3", "SYS: 0-2, 0-3, 1-2, 1-3")),
        (FakeNvml(3, nvlinks=[{0, 1}, {0, 2}, {1, 2}]), ("NVLink between all 3",)),
        (FakeNvml(3, nvlinks=[{0, 2}], silent=("topology",)), ("NVLink: 0-2",)),
        (FakeNvml(silent=("p2p",)), ("SYS: 0-1",)),
        (FakeNvml(silent=("p2p", "topology")), ()),
        (FakeNvml(1), ()),
    ],
)
def test_what_connects_gpus_is_asked_for_where_it_is_wanted(
    nvml: FakeNvml, lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    told, plain = (told_by(nvml, monkeypatch, with_links=wanted) for wanted in (True, False))
    assert told is not None
    assert plain is not None
    assert (told.links, plain.links) == (lines, ())


def test_the_numbers_are_those_of_nvmls_header() -> None:
    """As its Python binding has them."""
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
def test_a_driver_is_too_old_for_a_newer_major_version(
    knows: tuple[int, int] | None, build: Build | None, too_old: bool
) -> None:
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
def test_the_console_counts_device_files_and_what_hides_them(
    devices: int, variables: dict[str, str], words: str
) -> None:
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
    limited = Gpu("H100", UUIDS[0], power_limit_w=300.0, default_power_limit_w=700.0)
    kept = gpus_of(Driver("550.54", None, (limited, Gpu("H100", UUIDS[1])), links=("SYS: 0-1",)))
    assert (kept["gpus"], kept["gpu_links"]) == (["H100"] * 2, ["SYS: 0-1"])
    assert (kept["gpu_power_limit_w"], kept["gpu_default_power_limit_w"]) == ([300.0, None], [700.0, None])
