"""What the doctor says about NVIDIA's driver, its GPUs, and what connects them."""

from typing import Any

import pytest

from ddptui.doctor import gpus as doctor
from ddptui.doctor.finding import Finding
from ddptui.host import gpus
from tests.support.doctoring import GB

H100 = gpus.Gpu("H100", "GPU-aa", 80 * GB, GB, 0)
H100_TEXT = "H100, 80 GB, 1.0 GB used, 0% busy"
DRIVER = gpus.Driver("580.65", (13, 0), (H100, H100._replace(uuid="GPU-bb", used_bytes=None, busy_percent=None)))


def told_by_nvml(monkeypatch: pytest.MonkeyPatch, driver: gpus.Driver | None, visible: str | None) -> list[Finding]:
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
    assert first == Finding("GPU 0", H100_TEXT)
    assert second == Finding("GPU 1", "H100, 80 GB")
    assert links == Finding("links", "NVLink: 0-1; SYS: 0-2, 1-2")


def test_a_gpu_that_is_hidden_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, second = told_by_nvml(monkeypatch, DRIVER, "1")
    assert first.text.endswith("; hidden: CUDA_VISIBLE_DEVICES is '1'")
    assert "hidden" not in second.text
    cut = DRIVER._replace(gpus=(H100._replace(is_cut=True),))
    _, finding = told_by_nvml(monkeypatch, cut, "MIG-4e2a")
    assert finding.text == f"{H100_TEXT}, partitioned into instances (MIG)"
    mixed = DRIVER._replace(
        gpus=(DRIVER.gpus[0], DRIVER.gpus[1]._replace(name="T400"))
    )  # CUDA may number them otherwise
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
