"""A rank that nearly all waiting was for is named, with the doubt."""

import pytest

from ddptui.findings.doubt import uncertain
from ddptui.findings.words import long, short


@pytest.mark.parametrize(
    ("steps", "disturbed", "doubt"),
    [
        (1, False, "1 step is few"),
        (19, True, "19 steps are few"),
        (20, True, "other programs keep cores busy"),
        (20, False, "that may be chance"),
    ],
)
def test_it_is_said_why_it_is_not_certain(steps: int, disturbed: bool, doubt: str) -> None:
    found = uncertain({0: 93.0, 1: 7.0}, steps, disturbed=disturbed)
    assert found is not None
    assert (found.rank, found.numbers["share"]) == (0, 0.93)
    assert short(found) == f"Rank 0 caused 93% of the waiting; not certain, since {doubt}"
    assert long(found) == short(found)


@pytest.mark.parametrize("caused", [{}, {0: 0.0, 1: 0.0}, {0: 60.0, 1: 40.0}, {0: 6.0, 1: 2.0, 2: 2.0}])
def test_where_none_caused_twice_as_much_as_the_others_nobody_is_named(caused: dict[int, float]) -> None:
    assert uncertain(caused, 100, disturbed=False) is None
