"""What of an environment may change figures, and what makes one unusable."""

from ddptui.store.environment import what_matters


def test_what_connects_gpus_may_change_figures_and_the_package_of_nccl() -> None:
    begun = {"gpu_links": ["NVLink: 0-1"], "packages": {"nccl": "2.28.9"}, "load_before": 1.0}
    now = {"gpu_links": ["PHB: 0-1"], "packages": {"nccl": "2.30.7"}, "load_before": 9.0}
    before = what_matters(begun)
    changed = {key for key, value in what_matters(now).items() if before.get(key) != value}
    assert changed == {"gpu_links", "nccl"}
