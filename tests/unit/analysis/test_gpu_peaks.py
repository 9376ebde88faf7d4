"""A GPU's peak goes by its whole name and the precision; what is not known is None."""

import pytest

from ddptui.analysis.gpu_work import PEAKS, peak_tflops

PRECISIONS = {"float64", "float32", "tf32", "fp16", "bf16"}


@pytest.mark.parametrize(
    ("name", "precision", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.4),
        ("NVIDIA H100 PCIe", "bf16", 756.0),
        ("NVIDIA H100 NVL", "bf16", 835.0),
        ("NVIDIA H200", "tf32", 494.7),
        ("NVIDIA GH200 480GB", "float32", 66.9),
        ("NVIDIA B200", "fp16", 2250.0),
        ("A100-SXM4-40GB", "float64", 19.5),  # as older drivers have it
        ("NVIDIA A100 80GB PCIe", "tf32", 156.0),
        ("Tesla V100-PCIE-32GB", "fp16", 112.0),
        ("Tesla V100-SXM2-16GB", "fp16", 125.0),
        ("Tesla T4", "fp16", 65.0),
        ("NVIDIA L4", "bf16", 121.0),
        ("NVIDIA GeForce RTX 3090", "tf32", 35.6),
        ("NVIDIA RTX A6000", "bf16", 154.8),
        ("NVIDIA L40S", "bf16", 362.0),
        ("NVIDIA GeForce RTX 4090", "fp16", 165.2),
        ("NVIDIA RTX 6000 Ada Generation", "float32", 91.1),
        ("Tesla V100-SXM2-16GB", "bf16", None),  # it does not multiply in these
        ("Tesla T4", "tf32", None),
        ("NVIDIA H100 80GB HBM3", "", None),
    ],
)
def test_the_peak_of_a_name(name: str, precision: str, peak: float | None) -> None:
    assert peak_tflops(name, precision) == peak


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA A10G",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA H200 NVL",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA GB200",
        "AMD Instinct MI300X",
        "",
    ],
)
def test_a_name_that_only_looks_like_one_of_these_has_none(name: str) -> None:
    assert not any(peak_tflops(name, precision) for precision in PRECISIONS)


@pytest.mark.parametrize("peaks", PEAKS.values(), ids=PEAKS.keys())
def test_shorter_types_are_at_least_as_fast(peaks: dict[str, float]) -> None:
    """Which a figure with sparsity among dense ones would break, or a slip of a column."""
    assert set(peaks) <= PRECISIONS
    order = [peaks[name] for name in ("float64", "float32", "tf32", "fp16") if name in peaks]
    assert order == sorted(order)
    assert peaks.get("bf16", peaks.get("fp16")) == peaks.get("fp16")
    if "tf32" in peaks and "fp16" in peaks:
        assert peaks["fp16"] == pytest.approx(2 * peaks["tf32"], rel=0.02)  # one tensor core, numbers half as long
