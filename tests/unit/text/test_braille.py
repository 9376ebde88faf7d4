"""Lines in braille dots: nothing that matters is lost, and nothing is drawn that is not there."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.text.drawing import EMPTY, Frame, Point, frame, logarithms, signs_of


def picture(points: list[Point], width: int, height: int) -> list[str]:
    seen = frame([points])
    assert seen is not None
    rows = signs_of([(points, "")], seen, width, height)
    return ["".join(row.get(column, (" ", ""))[0] for column in range(width)).rstrip() for row in rows]


def test_a_line_goes_from_corner_to_corner_with_spikes_and_gaps() -> None:
    assert picture([(0, 0.0), (7, 7.0)], 4, 2) == ["  ⡠⠊", "⡠⠊"]
    assert picture([(0, 7.0), (7, 0.0)], 4, 2) == ["⠑⢄", "  ⠑⢄"]
    points: list[Point] = [(at, 100.0 if at == 5_000 else 0.0) for at in range(10_001)]
    assert [len(row.strip()) for row in picture(points, 10, 3)] == [2, 2, 10]
    points: list[Point] = [(0, 0.0), (1, 0.0), (2, None), (8, 0.0), (9, 1.0)]
    assert picture(points, 5, 1) == ["⣀   ⡎"]


@pytest.mark.parametrize("value", [nan, -inf, 1e301])
def test_what_is_not_finite_is_a_gap(value: float) -> None:
    points: list[Point] = [(0, 0.0), (1, value), (2, 1.0)]
    assert frame([points]) == Frame(0, 2, 0.0, 1.0)
    assert picture(points, 2, 1) == ["⡀⠈"]


def test_a_single_point_is_in_the_middle_and_next_to_no_difference_is_constant() -> None:
    assert frame([[(5, 2.0)]]) == Frame(5, 6, 1.8, 2.2)
    assert picture([(5, 2.0)], 1, 1) in (["⠄"], ["⠂"])
    assert frame([[(0, 0.0), (1, 1e-308)]]) == Frame(0, 1, -1.0, 1.0)


def test_a_logarithm_needs_a_value_above_0() -> None:
    assert logarithms([(0, 100.0), (1, 0.0), (2, -1.0), (3, None), (4, nan)]) == [
        (0, 2.0), (1, None), (2, None), (3, None), (4, None),
    ]  # fmt: skip


@given(st.lists(st.floats(allow_nan=True) | st.none(), min_size=1, max_size=50), st.integers(1, 30), st.integers(1, 10))
def test_every_point_is_drawn_within_the_frame(values: list[float | None], width: int, height: int) -> None:
    points: list[Point] = list(enumerate(values))
    seen = frame([points])
    if seen is None:
        return
    rows = signs_of([(points, "line")], seen, width, height)
    assert len(rows) == height
    signs = [sign for row in rows for sign in row.items()]
    assert signs
    assert all(0 <= column < width and EMPTY < ord(char) <= EMPTY + 255 for column, (char, _) in signs)
