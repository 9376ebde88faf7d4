"""Bars whose parts add up, and nice numbers beside axes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ddptui.text.drawing import axis, bar, linear_ticks, log_ticks, nice_step, number, shorten, ticks, wrap


def text_of(parts: list[tuple[str, float]], scale: float) -> str:
    return "".join(text for text, _ in bar(parts, scale))


def test_parts_of_a_bar_follow_each_other() -> None:
    assert bar([("work", 2), ("wait", 1), ("transfer", 0), ("rest", 1)], 2) == [
        ("━━━━", "work"), ("░░", "wait"), ("──", "rest"),
    ]  # fmt: skip


@given(st.lists(st.floats(0, 20), max_size=6), st.floats(0.1, 5))
def test_what_rounding_takes_from_one_part_the_next_one_gets(lengths: list[float], scale: float) -> None:
    parts = [("work", length) for length in lengths]
    assert len(text_of(parts, scale)) == round(sum(lengths) * scale)


@pytest.mark.parametrize(
    ("span", "most", "step"), [(10, 5, 2), (10, 10, 1), (9, 2, 5), (100, 1, 100), (0.03, 3, 0.01), (7e9, 2, 5e9)]
)
def test_steps_are_1_2_or_5(span: float, most: int, step: float) -> None:
    assert nice_step(span, most) == pytest.approx(step)


def test_ticks_lie_between_both_ends() -> None:
    assert ticks(-1, 1, 4) == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert ticks(0.95, 2.05, 3) == [1.0, 1.5, 2.0]
    assert ticks(3, 3, 5) == [3]


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.integers(1, 40))
@example(0.0, 5e-324, 1)  # the smallest number above 0
@example(9.999999999999983e299, 9.999999999999984e299, 30)
def test_there_are_never_many_ticks(one: float, other: float, most: int) -> None:
    low, high = sorted((one, other))
    found = ticks(low, high, most)
    assert len(found) <= most + 2
    assert all(isinstance(number(tick), str) for tick in found)


def test_a_label_has_the_decimals_that_its_neighbours_call_for() -> None:
    assert [number(0.4, 0.1), number(0.4, 0.05), number(2, 1), number(1e7, 1e6)] == ["0.4", "0.40", "2", "1e+07"]
    assert linear_ticks(0.85, 1.15, 3) == [(pytest.approx(0.9), "0.9"), (1.0, "1.0"), (pytest.approx(1.1), "1.1")]


def test_a_logarithmic_axis_has_powers_of_ten_or_within_one_of_them_nice_numbers() -> None:
    assert log_ticks(-2.5, 1.2, 5) == [(-2, "0.01"), (-1, "0.1"), (0, "1"), (1, "10")]
    assert [label for _, label in log_ticks(0, 300, 3)] == ["1", "1e+100", "1e+200", "1e+300"]
    assert [label for _, label in log_ticks(0.1, 0.9, 3)] == ["5"]


def test_an_axis_says_what_it_measures() -> None:
    assert axis(30, 10, "ms") == "0 ms───────────5──────────────"
    assert axis(30, 12, "ms") == "0 ms────────5────────────10───"
    assert (axis(1, 10, "ms"), axis(0, 10, "ms"), axis(10, 0, "ms")) == ("─", "", "")


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert [shorten("abcdef", width) for width in (7, 6, 3, 1, 0)] == ["abcdef", "abcdef", "ab…", "…", ""]


def test_entries_go_on_the_next_line_and_what_is_left_over_is_counted() -> None:
    entries = [[("abc", "")]] * 5
    assert [["".join(text for text, _ in line).rstrip()] for line in wrap(entries, 8, 2)] == [
        ["abc  abc"], ["abc  + 2"],
    ]  # fmt: skip
    assert wrap(entries, 2, 9) == [[("abc", ""), ("  ", "")]] * 5
    assert wrap([], 10, 1) == [[]]
