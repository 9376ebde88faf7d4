"""Bytes in the unit in which they read best."""

import pytest

from ddptui.text.units import part_of, size, size_unit

MB, GB = 2**20, 2**30


@pytest.mark.parametrize(
    ("bytes", "unit"), [(0, "B"), (1023, "B"), (1024, "KB"), (1023.6 * 1024, "MB"), (5 * GB, "GB"), (2**60, "TB")]
)
def test_the_unit_is_the_largest_of_which_there_is_one(bytes: float, unit: str) -> None:
    bytes_in_unit, name = size_unit(bytes)
    assert name == unit == size(bytes).split()[1]
    assert size(bytes_in_unit) == f"1 {name}"


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (3 * GB, 17 * GB // 4, "3.0/4.2 GB"),
        (31 * MB, 64 * MB, "31/64 MB"),
        (9.94 * GB, 9.96 * GB, "9.9/10 GB"),
        (4 * MB, 80 * GB, "0.0/80 GB"),
        (0, 0, "0.0/0.0 B"),
    ],
)
def test_a_part_is_told_in_the_unit_of_the_whole(part: float, whole: float, shown: str) -> None:
    assert part_of(part, whole) == shown
