"""busbw as a part of what connects the GPUs: where it is known, and of which peak."""

import time
from typing import Any

import pytest

from ddptui.analysis.primitives.link_peak import KEY, link_peak_gb_s, part_of_peak
from ddptui.config.engine import LOCAL, EngineOptions
from tests.support.measured_cells import MB, cell, result

DGX_1 = {KEY: {"2": 25.0, "3": 50.0, "4": 100.0, "8": 150.0}}


@pytest.mark.parametrize(("ranks", "peak"), [(1, None), (2, 25.0), (4, 100.0), (7, 100.0), (8, 150.0), (16, 150.0)])
def test_a_peak_holds_from_its_number_of_gpus_on(ranks: int, peak: float | None) -> None:
    assert link_peak_gb_s(DGX_1, LOCAL, result(ranks=ranks, backend="nccl")) == peak


def test_a_peak_is_found_at_once_for_any_number_of_ranks() -> None:
    begun = time.process_time()
    assert link_peak_gb_s(DGX_1, LOCAL, result(ranks=10**8, backend="nccl")) == 150.0
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    ("environment", "engine", "backend"),
    [
        (DGX_1, LOCAL, "gloo"),
        (DGX_1, EngineOptions(name="join"), "nccl"),
        (DGX_1, EngineOptions(name="slurm"), "nccl"),
        ({}, LOCAL, "nccl"),
        ({KEY: {}}, LOCAL, "nccl"),
        ({KEY: {"2": None}}, LOCAL, "nccl"),
        ({KEY: {"4": 100.0}}, LOCAL, "nccl"),
    ],
)
def test_where_tensors_go_another_way_or_nothing_is_known_there_is_none(
    environment: dict[str, Any], engine: EngineOptions, backend: str
) -> None:
    assert link_peak_gb_s(environment, engine, result(ranks=2, backend=backend)) is None


def test_a_part_is_of_the_bus_bandwidth() -> None:
    sent = cell("all_reduce", 64 * MB, 1000.0, ranks=4)
    assert sent.busbw_gb_s is not None
    assert part_of_peak(sent, 100.0) == pytest.approx(sent.busbw_gb_s / 100)
    assert part_of_peak(sent, None) is part_of_peak(sent, 0.0) is None
    assert part_of_peak(cell("barrier", 0, 50.0), 100.0) is None
    assert part_of_peak(cell("local_sum", MB, 50.0), 100.0) is None  # which sends nothing
