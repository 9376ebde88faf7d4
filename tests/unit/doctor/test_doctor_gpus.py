"""What the doctor says about NVIDIA's driver, its GPUs, and what connects them."""

import pytest

from ddptui.doctor import gpus as doctor
from ddptui.doctor.finding import Finding
from ddptui.host import gpus
from tests.support.doctoring import GB

H100 = gpus.Gpu("H100", "GPU-aa", 80 * GB, GB, 0)
DRIVER = gpus.Driver("580.65", (13, 0), (H100, H100._replace(uuid="GPU-bb", used_bytes=None, busy_percent=None)))


def told_by_nvml(monkeypatch: pytest.MonkeyPatch, driver: gpus.Driver | None, visible: str | None) -> list[Finding]:
    monkeypatch.setattr(gpus, "surely_none", lambda: False)
    monkeypatch.setattr(gpus, "ask", lambda **_: driver)
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(gpus.VISIBLE, visible)
    return list(doctor.driver_and_gpus())


def test_the_driver_and_its_gpus_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, first, second = told_by_nvml(monkeypatch, DRIVER, None)
    assert driver.text.startswith("580.65, up to CUDA 13.0; this torch is built for")
    assert first == Finding("GPU 0", "H100, 80 GB, 1.0 GB used, 0% busy")
    assert second == Finding("GPU 1", "H100, 80 GB")


def test_a_gpu_that_is_hidden_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, second = told_by_nvml(monkeypatch, DRIVER, "1")
    assert first.text.endswith("; hidden: CUDA_VISIBLE_DEVICES is '1'")
    assert "hidden" not in second.text


@pytest.mark.parametrize("others", [{"busy_percent": 40}, {"used_bytes": 30 * GB}])
def test_a_gpu_that_others_use_spoils_times(others: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    used = DRIVER._replace(gpus=(H100._replace(**others),))
    _, finding = told_by_nvml(monkeypatch, used, None)
    assert "other programs use it, which distorts times" in finding.remedy
    assert not finding.fatal


def test_instances_of_a_gpu_are_said_and_not_called_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = DRIVER._replace(gpus=(H100._replace(is_cut=True),))
    _, finding = told_by_nvml(monkeypatch, cut, "MIG-4e2a")
    assert finding.text == "H100, 80 GB, 1.0 GB used, 0% busy, partitioned into instances (MIG)"


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


# What they are connected by


def test_what_connects_the_gpus_is_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    linked = DRIVER._replace(links=("NVLink: 0-1", "SYS: 0-2, 1-2"))
    assert told_by_nvml(monkeypatch, linked, None)[-1] == Finding("links", "NVLink: 0-1; SYS: 0-2, 1-2")


def test_of_different_gpus_none_is_called_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA may number them otherwise."""
    mixed = DRIVER._replace(gpus=(DRIVER.gpus[0], DRIVER.gpus[1]._replace(name="T400")))
    monkeypatch.delenv(gpus.ORDER, raising=False)
    assert "hidden" not in told_by_nvml(monkeypatch, mixed, "0")[-1].text
    monkeypatch.setenv(gpus.ORDER, gpus.BUS_ORDER)
    assert "hidden" in told_by_nvml(monkeypatch, mixed, "0")[-1].text


def test_a_gpu_has_limits() -> None:
    finding = doctor.gpu_finding(0, H100._replace(power_limit_w=700.0, most_sm_mhz=1980), None)
    assert finding == Finding("GPU 0", "H100, 80 GB, 1.0 GB used, 0% busy, at most 700 W, at most 1980 MHz")


@pytest.mark.parametrize(
    ("limit", "default", "text"),
    [
        (300.0, 700.0, ", power limit 300 W of 700 W by default"),
        (700.0, 700.0, ", at most 700 W"),
        (699.9, 700.0, ", at most 700 W"),
        (700.0, None, ", at most 700 W"),
        (None, 700.0, ""),
    ],
)
def test_a_power_limit_stands_beside_the_default_where_it_differs(
    limit: float | None, default: float | None, text: str
) -> None:
    gpu = H100._replace(power_limit_w=limit, default_power_limit_w=default)
    assert doctor.gpu_finding(0, gpu, None).text == f"H100, 80 GB, 1.0 GB used, 0% busy{text}"


def test_clocks_that_are_held_down_have_a_remedy() -> None:
    finding = doctor.gpu_finding(0, H100._replace(is_held_back=True), None)
    assert finding.remedy.startswith("heat or the power limit lowers its clocks, which distorts times")
    assert not finding.fatal
