"""What of an environment may change figures, and what makes one unusable."""

import pytest

from ddptui.store.environment import problem_of, what_matters


def test_what_connects_gpus_may_change_figures_and_the_package_of_nccl() -> None:
    begun = {"gpu_links": ["NV4: 0-1"], "gpu_pcie": ["4.0 x16"] * 2, "packages": {"nccl": "2.28.9"}, "load_before": 1.0}
    now = {"gpu_links": ["PHB: 0-1"], "gpu_pcie": ["4.0 x8"] * 2, "packages": {"nccl": "2.30.7"}, "load_before": 9.0}
    before = what_matters(begun)
    changed = {key for key, value in what_matters(now).items() if before.get(key) != value}
    assert changed == {"gpu_links", "gpu_pcie", "nccl"}


@pytest.mark.parametrize(
    "peaks",
    [
        {"2": "fast"},
        [450.0],
        {"2": {}},
        {"2": -1.0},
        {"2": 0.0},
        {"2": 1e308},
        {"x": 1.0},
        {"-2": 1.0},
        {"02": 1.0},
        {"9" * 5000: 1.0},
        {str(number): 1.0 for number in range(1, 1026)},
    ],
)
def test_peaks_that_are_no_numbers_are_refused(peaks: object) -> None:
    assert problem_of({"gpu_link_peak_gb_s": {"2": 450, "3": None}}) == ""
    assert problem_of({"gpu_link_peak_gb_s": peaks})
