"""What the doctor says about NVIDIA's driver, its GPUs, and what connects them."""

import pytest

from ddptui.doctor import gpus as doctor
from ddptui.doctor.finding import Finding
from ddptui.host import gpus
from ddptui.host.gpu_links import GpuLinks, Links, NvLinks, Pcie
from tests.support.doctoring import GB
from tests.support.gpu_boxes import box, bridged_3090s, dgx_1, dgx_h100, pcie_box

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
    assert finding.text == "H100, 80 GB, 1.0 GB used, 0% busy, cut into instances (MIG)"


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


def connected(links: Links) -> gpus.Driver:
    same = [H100._replace(uuid=f"GPU-{number:02}") for number in range(len(links.gpus))]
    return DRIVER._replace(gpus=tuple(same), links=links)


@pytest.mark.parametrize(
    ("links", "text"),
    [
        (
            dgx_h100(),
            "NV18 between all 8; each can send 450 GB/s; NUMA node 0: 0, 1, 2, 3; node 1: 4, 5, 6, 7",
        ),
        (
            pcie_box(),
            "PHB: 0-1; each can send 31.5 GB/s over PCIe 4.0 x16; NUMA node 0: 0; node 1: 1",
        ),
        (bridged_3090s(), "NV4: 0-1; each can send 56.2 GB/s; NUMA node 0: 0; node 1: 1"),
        (
            bridged_3090s(4),
            "NV4: 0-1, 2-3; PHB: 0-2, 0-3, 1-2, 1-3; each can send 31.5 GB/s over PCIe 4.0 x16; NUMA node 0: 0, 1; "
            "node 1: 2, 3",
        ),
        (Links((GpuLinks(), GpuLinks()), {(0, 1): "SYS"}), "SYS: 0-1"),
    ],
)
def test_what_connects_the_gpus_is_one_finding(links: Links, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_by_nvml(monkeypatch, connected(links), None)[-1] == Finding("links", text)


@pytest.mark.parametrize(
    ("links", "visible"), [(dgx_1(), "3"), (box(1, Pcie(5, 16)), None), (Links((GpuLinks(), GpuLinks())), None)]
)
def test_nothing_is_said_of_one_gpu_or_of_what_nvml_does_not_say(
    links: Links, visible: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told_by_nvml(monkeypatch, connected(links), visible)
    assert [finding.name for finding in found] == ["driver", *(f"GPU {number}" for number in range(len(links.gpus)))]


def test_only_visible_gpus_are_held_against_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = told_by_nvml(monkeypatch, connected(dgx_1()), "0,3")[-1]
    assert finding.text == "NV2: 0-3; each can send 50.0 GB/s; NUMA node 0"


def test_a_gpu_with_fewer_links_to_the_switches_is_named() -> None:
    links = box(3, Pcie(5, 16), {0: NvLinks(18, {}, 25.0), 1: NvLinks(16, {}, 25.0), 2: NvLinks(18, {}, 25.0)})
    [finding] = doctor.links_finding(links, range(3))
    assert finding.text.startswith("NV16: 0-1, 1-2; NV18: 0-2; each can send 400 GB/s")
    assert finding.remedy == "GPU 1 has only 16 of 18 NVLinks up: `nvidia-smi nvlink -s` shows which are down"


def test_of_different_gpus_none_is_called_hidden_and_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = connected(pcie_box())
    mixed = mixed._replace(gpus=(mixed.gpus[0], mixed.gpus[1]._replace(name="T400")))
    monkeypatch.delenv(gpus.ORDER, raising=False)
    *_, second, links = told_by_nvml(monkeypatch, mixed, "0")
    assert "hidden" not in second.text
    assert links == doctor.UNORDERED
    monkeypatch.setenv(gpus.ORDER, gpus.BUS_ORDER)
    *_, second = told_by_nvml(monkeypatch, mixed, "0")
    assert "hidden" in second.text
    assert "each can send 31.5 GB/s" in told_by_nvml(monkeypatch, mixed, None)[-1].text


IN_SLOT = GpuLinks("0000:18:00.0", 1, Pcie(4, 16), Pcie(1, 16))


def test_a_gpu_has_a_slot_a_node_and_limits() -> None:
    gpu = H100._replace(power_limit_w=700.0, most_sm_mhz=1980)
    finding = doctor.gpu_finding(0, gpu, None, IN_SLOT)
    assert (
        finding.text == "H100, 80 GB, 1.0 GB used, 0% busy, at most 700 W, at most 1980 MHz, PCIe 4.0 x16, NUMA node 1"
    )
    assert finding.remedy == ""  # an idle link slows down to save power
    assert doctor.gpu_finding(0, gpu._replace(most_sm_mhz=None), None).text.endswith("busy, at most 700 W")


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


@pytest.mark.parametrize(
    ("nvlinks", "text"),
    [
        (NvLinks(18, {}, 25.0, "4.0"), "18 NVLinks (version 4.0), 25.0 GB/s each"),
        (NvLinks(0, {"a": 1, "b": 2}, 14.062), "3 NVLinks, 14.1 GB/s each"),
        (NvLinks(1), "1 NVLink"),
        (NvLinks(1, {}, 25.0), "1 NVLink, 25.0 GB/s"),
    ],
)
def test_its_nvlinks_are_counted(nvlinks: NvLinks, text: str) -> None:
    assert doctor.gpu_finding(0, H100, None, GpuLinks(nvlinks=nvlinks)).text.endswith(f"0% busy, {text}")


@pytest.mark.parametrize(("busy", "is_wrong"), [(None, False), (0, False), (10, False), (95, True)])
def test_a_link_that_is_narrow_while_its_gpu_works_is_mended(busy: int | None, is_wrong: bool) -> None:
    narrow = IN_SLOT._replace(pcie_now=Pcie(4, 8))
    finding = doctor.gpu_finding(0, H100._replace(busy_percent=busy), None, narrow)
    assert "PCIe 4.0 x16 (x8 now)" in finding.text
    assert ("fewer lanes than it could" in finding.remedy) == is_wrong


def test_clocks_that_are_held_down_have_a_remedy() -> None:
    finding = doctor.gpu_finding(0, H100._replace(slowdowns=("heat", "power brake")), None)
    assert finding.remedy.startswith("its clocks are held down (heat and power brake), which distorts times")
    assert "check its cooling and power supply" in finding.remedy
    assert not finding.fatal
