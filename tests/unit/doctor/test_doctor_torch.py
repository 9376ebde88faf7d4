"""What the doctor says about torch, its backends and its GPUs, about NVIDIA's driver, and what connects GPUs."""

import errno
from typing import Any

import pytest

from ddptui.doctor import machine as doctor
from ddptui.doctor import processes
from ddptui.doctor.machine import CheckResult
from ddptui.engines import checks
from ddptui.engines.gpu_checks import GpuInfo
from ddptui.host import gpus
from ddptui.host.gpus import Build, Driver, HostGpu
from ddptui.host.rank_side import Child, NoAnswer
from tests.support.doctoring import GB, only
from tests.support.failing import failing_with

UNAVAILABLE = "No CUDA GPUs are available"
SEEN_BY_NVML = GpuInfo(False, Driver("580.65", (13, 0), (HostGpu("H200", "GPU-0"),)), Build("13.2", None), None)


@pytest.mark.parametrize(
    ("machine", "why", "found", "remedy"),
    [
        (SEEN_BY_NVML._replace(visible="-1"), "", "is '-1', which hides every GPU", "unset CUDA_VIS"),
        (SEEN_BY_NVML._replace(build=Build(None, None)), "", "built without CUDA", "pip install --force-reinstall"),
        (SEEN_BY_NVML._replace(build=Build("14.0", None)), "", "driver 580.65 (CUDA 13.0) is too old", "older CUDA"),
        (SEEN_BY_NVML, "RuntimeError: The NVIDIA driver on your system is too old (found 11040).", "11040", "older"),
        (SEEN_BY_NVML, "RuntimeError: Found no NVIDIA driver on your system.", "no NVIDIA driver", "install NVIDIA's"),
        (SEEN_BY_NVML._replace(visible="7"), UNAVAILABLE, UNAVAILABLE, "CUDA_VISIBLE_DEVICES is '7'"),
        (SEEN_BY_NVML, UNAVAILABLE, UNAVAILABLE, "CUDA_VISIBLE_DEVICES is not set"),
    ],
)
def test_gpus_that_torch_does_not_see_are_told_apart(machine: GpuInfo, why: str, found: str, remedy: str) -> None:
    finding = processes.gpus_finding({"gpus": [], "why_none": why}, machine, "")
    assert found in finding.text
    assert remedy in finding.remedy
    assert not finding.fatal


FOR_RANKS = "or more that share GPUs (share_gpu = true)"


def test_gpus_are_told_by_name_and_memory_and_where_there_is_none_nothing_is_wrong() -> None:
    told = {"gpus": [["H200", 139 * GB], ["H200", 139 * GB]], "why_none": ""}
    finding = processes.gpus_finding(told, SEEN_BY_NVML, "")
    assert finding == CheckResult("GPUs", f"H200 (139 GB), H200 (139 GB): for 2 ranks, {FOR_RANKS}")
    alone = processes.gpus_finding(told | {"gpus": told["gpus"][:1]}, SEEN_BY_NVML, "")
    assert alone.text == f"H200 (139 GB): for 1 rank, {FOR_RANKS}"
    none = SEEN_BY_NVML._replace(surely_none=True, driver=None, visible="")
    nothing = processes.gpus_finding({"gpus": [], "why_none": "-"}, none, "none found")
    assert nothing == CheckResult("GPUs", "none found")


@pytest.mark.parametrize(
    ("surely", "platform", "said"),
    [
        (True, "linux", "none found (no /dev/nvidia*): ranks run on the CPU, and dp simulates replicas with threads"),
        (False, "linux", ""),
        (False, "darwin", "none: torch has no CUDA on this system: ranks run on the CPU, and dp simulates replicas"),
    ],
)
def test_how_it_knows_there_is_none(surely: bool, platform: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "surely_none", lambda: surely)
    found = processes.no_gpu(platform)
    assert found.startswith(said) if said else found == ""
    assert ("`docker run --gpus all`" in found) is surely


@pytest.mark.parametrize("name", ["torch", "torchvision"])
def test_without_torch_it_is_one_finding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda wanted: None if wanted == name else object())
    finding = only(processes.torch())
    assert finding == CheckResult("torch", f"{name} is not installed", f"`pip install {name}`", fatal=True)
    monkeypatch.setattr(checks, "find_spec", lambda _: None)
    assert only(processes.torch()).remedy == "`pip install torch torchvision`"


def test_without_a_folder_for_sockets_torch_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "RankServer", failing_with(errno.ENOENT))
    finding = only(processes.torch())
    assert (finding.tried, finding.fatal) == (False, False)


class Told(Child):
    """A child with given answers, without a process."""

    def __init__(self, **answers: dict[str, Any] | str) -> None:
        versions = {"torch": "2", "torchvision": "1", "backends": ["gloo", "nccl"], "group_hooks": True}
        sums = {name: {"sum_s": 0.001} for name in ("spawn", "forkserver")}
        self._answers: dict[str, Any] = {
            "versions": versions,
            "gpus": {"gpus": [["H200", 139 * GB]], "why_none": ""},
            "nccl": {"sum_s": 0.001, "nccl": "2.28.9 by ProcessGroupNCCL2"},
        }
        self._answers |= sums | answers

    def ask(self, question: str, within_s: float | None = None) -> dict[str, Any]:
        told = self._answers[question]
        if isinstance(told, str):
            raise NoAnswer(told)
        return dict(told)


def found_by(asked: Child) -> dict[str, CheckResult]:
    return {finding.name: finding for finding in processes.torch_findings(asked)}


@pytest.mark.parametrize("version", ["2.7.1+cu126", "1.13"])
def test_a_torch_whose_ranks_would_not_meet_is_fatal(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "installed", lambda _: version)
    finding = only(processes.torch())
    assert finding.text == f"torch {version} is too old: ddptui needs 2.8 or newer"
    assert (finding.remedy, finding.fatal) == ("`pip install --upgrade torch torchvision`", True)
    for fine in ("2.8.0", "3.0", "git", None):
        monkeypatch.setattr(checks, "installed", lambda _, fine=fine: fine)
        assert checks.torch_problem() is None


def test_a_torch_that_can_do_everything_has_no_remedy_and_one_that_cannot_be_imported_is_fatal() -> None:
    found = found_by(Told())
    assert not [finding for finding in found.values() if finding.remedy or not finding.tried]
    assert found["nccl"].text == "2.28.9 by ProcessGroupNCCL2, summed on the first GPU in 1.0 ms"
    [broken] = found_by(Told(versions="ImportError: libfoo.so")).values()
    assert (broken.name, broken.fatal) == ("torch", True)
    assert "ImportError: libfoo.so" in broken.text
    assert "--force-reinstall" in broken.remedy


@pytest.mark.parametrize(("interface", "remedy"), [(None, "firewall"), ("eth9", "unset GLOO_SOCKET_IFNAME")])
def test_ranks_that_do_not_meet_are_fatal(interface: str | None, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    if interface:
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", interface)
    found = found_by(Told(spawn="no answer within 60 s"))
    assert found["spawn"].fatal
    assert remedy in found["spawn"].remedy
    assert not found["forkserver"].tried


def test_a_forkserver_that_does_not_start_and_an_nccl_that_does_not_sum_are_warned_about() -> None:
    found = found_by(Told(forkserver="AF_UNIX path too long", nccl="killed by SIGSEGV"))
    assert "start_method" in found["forkserver"].remedy
    assert "NCCL_DEBUG=INFO" in found["nccl"].remedy
    assert "SIGSEGV" in found["nccl"].text
    assert not [finding for finding in found.values() if finding.fatal]


def test_backends_that_are_not_there_are_told_and_that_mpi_is_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "surely_none", lambda: True)
    plain = {"torch": "2", "torchvision": "1", "group_hooks": False}
    found = found_by(Told(versions=plain | {"backends": ["gloo"]}))
    assert "with NCCL" in found["nccl"].remedy
    found = found_by(Told(versions=plain | {"backends": []}, gpus="AssertionError"))
    assert found["backends"].fatal
    assert "spawn" not in found
    assert found["nccl"] == CheckResult("nccl", "not tried: needs a GPU", tried=False)
    assert found["collectives"].text == "observed by wrapping torch's functions"
    built = "gloo; mpi: only in a torch built from source with an MPI library"
    assert processes.backends_finding(["gloo"], gpu=True) == CheckResult("backends", built)
    assert processes.backends_finding(["gloo", "nccl", "mpi"], gpu=True) == CheckResult("backends", "gloo, nccl, mpi")


# NVIDIA's driver


H100 = gpus.HostGpu("H100", "GPU-aa", 80 * GB, GB, 0)
H100_TEXT = "H100, 80 GB, 1.0 GB used, 0% busy"
DRIVER = gpus.Driver("580.65", (13, 0), (H100, H100._replace(uuid="GPU-bb", used_bytes=None, busy_percent=None)))


def told_by_nvml(monkeypatch: pytest.MonkeyPatch, driver: gpus.Driver | None, visible: str | None) -> list[CheckResult]:
    monkeypatch.setattr(gpus, "surely_none", lambda: False)
    monkeypatch.setattr(gpus, "ask", lambda **_: driver)
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(gpus.VISIBLE, visible)
    return list(doctor.driver_and_gpus())


def test_the_driver_and_its_gpus_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    linked = DRIVER._replace(links=("NVLink: 0-1", "SYS: 0-2, 1-2"))
    driver, first, second, links = told_by_nvml(monkeypatch, linked, None)
    assert driver.text.startswith("580.65, up to CUDA 13.0; this torch is built for")
    assert first == CheckResult("GPU 0", H100_TEXT)
    assert second == CheckResult("GPU 1", "H100, 80 GB")
    assert links == CheckResult("links", "NVLink: 0-1; SYS: 0-2, 1-2")


def test_a_gpu_that_is_hidden_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, second = told_by_nvml(monkeypatch, DRIVER, "1")
    assert first.text.endswith("; hidden: CUDA_VISIBLE_DEVICES is '1'")
    assert "hidden" not in second.text
    assert told_by_nvml(monkeypatch, DRIVER, "")[1].text.endswith("; hidden: CUDA_VISIBLE_DEVICES is ''")
    cut = DRIVER._replace(gpus=(H100._replace(is_cut=True),))
    _, finding = told_by_nvml(monkeypatch, cut, "MIG-4e2a")
    assert finding.text == f"{H100_TEXT}, partitioned into instances (MIG)"
    # CUDA may number them otherwise
    mixed = DRIVER._replace(gpus=(DRIVER.gpus[0], DRIVER.gpus[1]._replace(name="T400")))
    monkeypatch.delenv(gpus.ORDER, raising=False)
    assert "hidden" not in told_by_nvml(monkeypatch, mixed, "0")[-1].text
    monkeypatch.setenv(gpus.ORDER, gpus.BUS_ORDER)
    assert "hidden" in told_by_nvml(monkeypatch, mixed, "0")[-1].text


OTHERS = "other programs use it, which distorts times"
CLOCKS = "heat or the power limit lowers its clocks, which distorts times"
POWER = ("power_limit_w", "default_power_limit_w")


@pytest.mark.parametrize(
    ("figures", "text", "remedy"),
    [
        ({"busy_percent": 40}, "H100, 80 GB, 1.0 GB used, 40% busy", OTHERS),
        ({"used_bytes": 30 * GB}, "H100, 80 GB, 30.0 GB used, 0% busy", OTHERS),
        ({"is_held_back": True}, H100_TEXT, CLOCKS),
        ({"power_limit_w": 700.0, "most_sm_mhz": 1980}, f"{H100_TEXT}, at most 700 W, at most 1980 MHz", ""),
        *(
            (dict(zip(POWER, watts, strict=True)), H100_TEXT + text, "")
            for watts, text in (
                ((300.0, 700.0), ", power limit 300 W of 700 W by default"),
                ((699.9, 700.0), ", at most 700 W"),
                ((700.0, None), ", at most 700 W"),
                ((None, 700.0), ""),
            )
        ),
    ],
)
def test_what_spoils_times_and_what_limits_a_gpu_is_said(figures: dict[str, Any], text: str, remedy: str) -> None:
    finding = doctor.gpu_finding(0, H100._replace(**figures), None)
    assert (finding.text, finding.fatal) == (text, False)
    assert finding.remedy.startswith(remedy) if remedy else not finding.remedy


def test_a_driver_that_is_too_old_has_its_remedy() -> None:
    new, old = gpus.Build("13.2", None), gpus.Build("12.6", None)
    assert doctor.driver_finding(DRIVER, new).remedy == doctor.driver_finding(DRIVER, None).remedy == ""
    too_old = doctor.driver_finding(DRIVER._replace(version="550.54", cuda=(12, 4)), new)
    assert too_old.text == "550.54, up to CUDA 12.4; this torch is built for CUDA 13.2"
    assert "update the driver, or install a torch for an older CUDA" in too_old.remedy
    assert not doctor.driver_finding(DRIVER._replace(cuda=(12, 4)), old).remedy


def test_without_gpus_or_nvml_there_is_little_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    [finding] = told_by_nvml(monkeypatch, None, None)
    assert (finding.name, finding.tried) == ("driver", False)
    monkeypatch.setattr(gpus, "surely_none", lambda: True)
    assert list(doctor.driver_and_gpus()) == []
