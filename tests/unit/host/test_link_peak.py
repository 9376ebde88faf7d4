"""How fast GPUs may send to each other, by what connects them; and how that is said."""

import pytest

from ddptui.host import link_peak
from ddptui.host.gpu_links import GpuLinks, Links, NvLinks, Pcie
from tests.support.gpu_boxes import box, bridged_3090s, dgx_1, dgx_h100, direct, pcie_box

X16 = Pcie(4, 16)


@pytest.mark.parametrize(
    ("generation", "gb_s"), [(1, 0.25), (2, 0.5), (3, 0.985), (4, 1.969), (5, 3.938), (6, 7.563), (7, None)]
)
def test_a_lane_of_pcie_carries_what_its_generation_does(generation: int, gb_s: float | None) -> None:
    found = link_peak.pcie_gb_s(Pcie(generation, 1))
    assert found == (gb_s and pytest.approx(gb_s, abs=0.0006))
    assert link_peak.pcie_gb_s(Pcie(generation, 16)) == (found and 16 * found)


@pytest.mark.parametrize(
    ("links", "peaks"),
    [
        pytest.param(dgx_h100(), {"2": 450.0}, id="18 links to switches: 450 GB/s, however many GPUs"),
        # 0-1 has one link; of 0, 1, 2 the first has two; of 0 to 3 each has four. GPU 4 hangs on GPU 0 with two.
        pytest.param(
            dgx_1(), {"2": 25.0, "3": 50.0, "4": 100.0, "5": 50.0, "6": 75.0, "7": 100.0, "8": 150.0}, id="a DGX-1"
        ),
        pytest.param(bridged_3090s(), {"2": 56.248}, id="a bridge of four links"),
        pytest.param(bridged_3090s(4), {"2": 56.248, "3": 31.508}, id="two bridges, which only PCIe connects"),
        pytest.param(pcie_box(), {"2": 31.508}, id="PCIe"),
        pytest.param(box(2, Pcie(9, 16)), {}, id="a PCIe that is not known"),
        pytest.param(box(2, X16, dict.fromkeys(range(2), NvLinks(12, {}, None))), {}, id="NVLinks of unknown speed"),
        pytest.param(box(1, X16, {0: NvLinks(18, {}, 25.0)}), {}, id="alone"),
        pytest.param(Links(), {}, id="no GPU"),
    ],
)
def test_the_peak_is_that_of_the_gpu_with_the_fewest_links(links: Links, peaks: dict[str, float]) -> None:
    assert link_peak.peaks_gb_s(links.gpus) == peaks


def test_the_slowest_of_different_slots_counts() -> None:
    gpus = (GpuLinks(pcie=X16), GpuLinks(pcie=Pcie(3, 8)))
    assert link_peak.peak_gb_s(gpus) == pytest.approx(7.877, abs=0.001)
    assert link_peak.peak_gb_s((*gpus, GpuLinks())) is None  # one of which nothing is known


def test_a_gpu_more_of_which_nothing_is_known_ends_what_is_known() -> None:
    known = bridged_3090s().gpus
    assert link_peak.peaks_gb_s((*known, GpuLinks())) == {"2": 56.248, "3": None}


def test_switches_that_only_one_gpu_has_lead_to_nobody() -> None:
    links = box(2, X16, {0: NvLinks(18, {}, 25.0)})
    assert link_peak.peaks_gb_s(links.gpus) == {"2": 31.508}
    assert link_peak.between(links, 0, 1) == "SYS"


@pytest.mark.parametrize(
    ("links", "numbers", "lines"),
    [
        (dgx_h100(), range(8), ["NV18 between all 8"]),
        (dgx_h100(), [3, 5], ["NV18: 3-5"]),
        (pcie_box(), [0, 1], ["PHB: 0-1"]),
        (bridged_3090s(4), range(4), ["NV4: 0-1, 2-3", "PHB: 0-2, 0-3, 1-2, 1-3"]),
        (dgx_1(), [0, 3, 7], ["NV2: 0-3, 3-7", "SYS: 0-7"]),
        (box(18, X16, direct({(0, 1): 4}, 25.0)), range(18), ["NV4: 1 pair", "SYS: 152 pairs"]),
        (Links((GpuLinks(), GpuLinks())), [0, 1], []),
        (dgx_h100(), [0], []),
    ],
)
def test_pairs_are_named_by_what_connects_them(links: Links, numbers: list[int], lines: list[str]) -> None:
    assert link_peak.connections(links, numbers) == lines


@pytest.mark.parametrize(
    ("numbers", "words"), [(range(4), "NUMA node 0: 0, 1; node 1: 2, 3"), ([2, 3], "NUMA node 1"), ([0, 1, 4], "")]
)
def test_numa_nodes_are_told_of_all_or_not_at_all(numbers: list[int], words: str) -> None:
    links = bridged_3090s(4)
    assert link_peak.numa_nodes(Links((*links.gpus, GpuLinks())), numbers) == words
