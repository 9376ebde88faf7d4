"""What the doctor says about torch, its backends, and the GPUs that it sees."""

import errno
from typing import Any, NamedTuple

import pytest

from ddptui.doctor import torch
from ddptui.doctor.finding import Finding
from ddptui.host.rank_side import Child, NoAnswer
from tests.support.doctoring import GB, only
from tests.support.failing import failing_with


class Gpu(NamedTuple):
    """The arguments of `gpus_finding` in one case."""

    why: str = ""
    build: str | None = "13.2"
    visible: str | None = None
    none: str = ""


@pytest.mark.parametrize(
    ("case", "found", "remedy"),
    [
        (Gpu(none="none found"), "none found", ""),
        (Gpu(visible=""), "hidden: CUDA_VISIBLE_DEVICES is ''", "unset CUDA_VISIBLE_DEVICES"),
        (Gpu(visible="-1"), "hidden: CUDA_VISIBLE_DEVICES is '-1'", "unset CUDA_VISIBLE_DEVICES"),
        (Gpu(visible="", none="none found"), "hidden: CUDA_VISIBLE_DEVICES is ''", ""),
        (Gpu(build=None), "built without CUDA", "pip install --force-reinstall torch"),
        (Gpu("RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."), "CUDA 13.2", "older"),
        (Gpu("RuntimeError: Found no NVIDIA driver on your system."), "without a driver", "install NVIDIA's driver"),
        (Gpu("RuntimeError: No CUDA GPUs are available", visible="7"), "No CUDA GPUs", "CUDA_VISIBLE_DEVICES is '7'"),
    ],
)
def test_gpus_that_torch_does_not_see_are_told_apart(case: Gpu, found: str, remedy: str) -> None:
    finding = torch.gpus_finding({"gpus": [], "why_none": case.why}, case.build, case.visible, case.none)
    assert found in finding.text
    assert (remedy in finding.remedy) if remedy else not finding.remedy
    assert not finding.fatal


@pytest.mark.parametrize(
    ("surely", "platform", "said"),
    [
        (True, "linux", "none found (no /dev/nvidia*): ranks run on the CPU, and dp simulates replicas with threads"),
        (False, "linux", ""),
        (False, "darwin", "none: torch has no CUDA on this system: ranks run on the CPU, and dp simulates replicas"),
    ],
)
def test_how_it_knows_that_there_is_no_gpu(
    surely: bool, platform: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "surely_none", lambda: surely)
    found = torch.no_gpu(platform)
    assert found.startswith(said) if said else found == ""
    assert ("`docker run --gpus all`" in found) is surely


def test_gpus_are_told_by_name_and_memory() -> None:
    told = {"gpus": [["H200", 139 * GB], ["H200", 139 * GB]], "why_none": ""}
    finding = torch.gpus_finding(told, "13.2", None, "")
    assert finding == Finding(
        "GPUs", "H200 (139 GB), H200 (139 GB): for 2 ranks, or more that share them (share_gpu = true)"
    )
    alone = torch.gpus_finding({"gpus": told["gpus"][:1], "why_none": ""}, "13.2", None, "")
    assert alone.text == "H200 (139 GB): for one rank, or more that share it (share_gpu = true)"


@pytest.mark.parametrize("name", ["torch", "torchvision"])
def test_without_torch_it_is_one_finding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "find_spec", lambda wanted: None if wanted == name else object())
    finding = only(torch.torch())
    assert finding == Finding(name, "not installed", f"`pip install {name}`", fatal=True)


def test_without_a_folder_for_sockets_torch_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "Hub", failing_with(errno.ENOENT))
    finding = only(torch.torch())
    assert (finding.tried, finding.fatal) == (False, False)


class Told(Child):
    """A child with given answers, without a process."""

    def __init__(self, **answers: dict[str, Any] | str) -> None:
        versions = {"torch": "2", "torchvision": "1", "backends": ["gloo", "nccl"], "group_hooks": True}
        sums = {name: {"sum_s": 0.001} for name in ("spawn", "forkserver")}
        self._answers: dict[str, Any] = {
            "versions": versions | {"gpu_build": "13.2"},
            "gpus": {"gpus": [["H200", 139 * GB]], "why_none": ""},
            "nccl": {"sum_s": 0.001, "nccl": "2.28.9 by ProcessGroupNCCL2"},
        }
        self._answers |= sums | answers

    def ask(self, question: str, within_s: float | None = None) -> dict[str, Any]:
        told = self._answers[question]
        if isinstance(told, str):
            raise NoAnswer(told)
        return dict(told)


def found_by(asked: Child) -> dict[str, Finding]:
    return {finding.name: finding for finding in torch.torch_findings(asked)}


def test_a_torch_that_can_do_everything_has_no_remedy() -> None:
    found = found_by(Told())
    assert not [finding for finding in found.values() if finding.remedy or not finding.tried]
    assert found["nccl"].text == "2.28.9 by ProcessGroupNCCL2, summed on the first GPU in 1.0 ms"


@pytest.mark.parametrize(
    ("version", "is_fatal"), [("2.7.1+cu126", True), ("1.13", True), ("2.8.0", False), ("3.0", False), ("git", False)]
)
def test_a_torch_whose_ranks_would_not_meet_is_fatal(version: str, is_fatal: bool) -> None:
    versions = {"torch": version, "torchvision": "1", "backends": ["gloo"], "group_hooks": True, "gpu_build": None}
    finding = found_by(Told(versions=versions))["torch"]
    assert finding.fatal is is_fatal
    assert ("too old: ddptui needs 2.8 or newer" in finding.text) is is_fatal
    assert bool(finding.remedy) is is_fatal


def test_a_torch_that_cannot_be_imported_is_fatal() -> None:
    found = found_by(Told(versions="ImportError: libfoo.so"))
    assert list(found) == ["torch"]
    assert found["torch"].fatal
    assert "ImportError: libfoo.so" in found["torch"].text
    assert "--force-reinstall" in found["torch"].remedy


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


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (["gloo", "nccl", "mpi"], "gloo, nccl, mpi"),
        (["gloo"], "gloo; mpi: only in a torch built from source beside an MPI library"),
    ],
)
def test_mpi_is_told_to_be_rare(there: list[str], found: str) -> None:
    assert torch.backends_finding(there, gpu=True) == Finding("backends", found)


def test_backends_that_are_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "surely_none", lambda: True)
    plain = {"torch": "2", "torchvision": "1", "group_hooks": False, "gpu_build": None}
    found = found_by(Told(versions=plain | {"backends": ["gloo"]}))
    assert "with NCCL" in found["nccl"].remedy
    found = found_by(Told(versions=plain | {"backends": []}, gpus="AssertionError"))
    assert found["backends"].fatal
    assert "spawn" not in found
    assert found["nccl"] == Finding("nccl", "not tried: needs a GPU", tried=False)
    assert found["collectives"].text == "observed by wrapping torch's functions"
