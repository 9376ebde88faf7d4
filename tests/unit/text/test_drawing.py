"""Bars, axes, large letters, and texts measured, cut and wrapped by the cells of a terminal."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich import cells as of_rich

from ddptui.text.drawing import (
    CLOSING,
    LETTERS,
    axis,
    bar,
    cell_len,
    cut,
    large,
    linear_ticks,
    ljust,
    log_ticks,
    nice_step,
    number,
    paragraph,
    rjust,
    shorten,
    ticks,
    width_of,
    wrap,
)
from ddptui.text.tables import Filled, Table, as_text


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


def test_ticks_lie_between_both_ends_and_an_axis_says_what_it_measures() -> None:
    assert ticks(-1, 1, 4) == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert ticks(0.95, 2.05, 3) == [1.0, 1.5, 2.0]
    assert ticks(3, 3, 5) == [3]
    assert axis(30, 10, "ms") == "0 ms───────────5──────────────"
    assert axis(30, 12, "ms") == "0 ms────────5────────────10───"
    assert (axis(1, 10, "ms"), axis(0, 10, "ms"), axis(10, 0, "ms")) == ("─", "", "")


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.integers(1, 40))
@example(0.0, 5e-324, 1)  # the smallest number above 0
@example(9.999999999999983e299, 9.999999999999984e299, 30)
def test_there_are_never_many_ticks(one: float, other: float, most: int) -> None:
    low, high = sorted((one, other))
    found = ticks(low, high, most)
    assert len(found) <= most + 2
    assert all(isinstance(number(tick), str) for tick in found)


def test_a_label_has_the_decimals_that_its_neighbours_call_for_and_a_logarithmic_axis_powers_of_ten() -> None:
    assert [number(0.4, 0.1), number(0.4, 0.05), number(2, 1), number(1e7, 1e6)] == ["0.4", "0.40", "2", "1e+07"]
    assert linear_ticks(0.85, 1.15, 3) == [(pytest.approx(0.9), "0.9"), (1.0, "1.0"), (pytest.approx(1.1), "1.1")]
    assert log_ticks(-2.5, 1.2, 5) == [(-2, "0.01"), (-1, "0.1"), (0, "1"), (1, "10")]
    assert [label for _, label in log_ticks(0, 300, 3)] == ["1", "1e+100", "1e+200", "1e+300"]
    assert [label for _, label in log_ticks(0.1, 0.9, 3)] == ["5"]


def test_entries_go_on_the_next_line_and_what_is_left_over_is_counted() -> None:
    entries = [[("abc", "")]] * 5
    assert [["".join(text for text, _ in line).rstrip()] for line in wrap(entries, 8, 2)] == [
        ["abc  abc"], ["abc  + 2"],
    ]  # fmt: skip
    assert wrap(entries, 2, 9) == [[("abc", ""), ("  ", "")]] * 5
    assert wrap([], 10, 1) == [[]]


ZH = "rank 1 拖慢了所有 rank：每步 20 ms（95%：18.0 到 22.0 ms），在 backward 中。其他 rank 有 40% 的时间在等它。"


@pytest.mark.parametrize("text", ["", "abc", "平均梯度", "a 平均 b", "（95%：±5）", "── … × ± – ◆ ━░▓ ✓✗ ⠿", "e\u0301"])
def test_a_width_is_that_of_rich(text: str) -> None:
    assert cell_len(text) == of_rich.cell_len(text)


def test_what_is_too_wide_is_cut_and_texts_are_aligned_by_cells() -> None:
    assert [cut("a平均b", width) for width in range(7)] == ["", "a", "a", "a平", "a平", "a平均", "a平均b"]
    assert [shorten("平均梯度", width) for width in (8, 7, 6, 1, 0)] == ["平均梯度", "平均梯…", "平均…", "…", ""]
    assert (ljust("平均", 6), rjust("平均", 6), ljust("平均", 2)) == ("平均  ", "  平均", "平均")
    assert width_of([("平均", ""), ("ab", "")]) == 6


@pytest.mark.parametrize("width", [10, 17, 40, 200])
def test_a_chinese_text_is_wrapped_between_characters(width: int) -> None:
    lines = paragraph(ZH, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(ZH.split())
    assert not any(line.startswith(tuple(CLOSING)) for line in lines)
    if width == 40:
        assert all(cell_len(line) > 30 for line in lines[:-1])  # not only at spaces


def test_columns_of_chinese_cells_stand_in_line() -> None:
    columns = [Filled("trial", ["基准", "ddp", "先归约后广播"], left=True), Filled("train", ["1.0 s", "慢", "12.5 s"])]
    header, _, *rows = as_text(Table(columns), 40)
    assert {cell_len(line) for line in (header, *rows)} == {cell_len("先归约后广播  12.5 s")}
    assert rows[:2] == ["基准           1.0 s", "ddp               慢"]


def test_letters_are_as_large_as_there_is_room_wrapped_and_centered() -> None:
    assert large("1 up", 15, 3) == ["▄█      ▄ ▄ ▄▄", " █      █ █ █▄▀", "▀▀▀     ▀▀▀ ▀"]
    sizes = ((6, 9), (7, 2), (7, 3), (15, 6), (15, 5), (999, 99))
    assert [len(large("ab", width, height)) for width, height in sizes] == [0, 0, 3, 6, 3, 18]
    first, second = large("abc d", 13, 6)[1::3]
    assert first.index("█") < second.index("█")
    assert len(large("abc d", 19, 6)) == 3


@pytest.mark.parametrize("words", ["trial größer", "第一", "tab\t"])
def test_a_character_without_a_large_letter_makes_none(words: str) -> None:
    assert large(words, 500, 50) == []


def test_every_letter_has_five_rows_and_its_own_shape() -> None:
    assert {*string.ascii_letters, *string.digits} <= LETTERS.keys()
    assert {len(rows) for rows in LETTERS.values()} == {5}
    assert {len(row) for rows in LETTERS.values() for row in rows} == {4}
    shapes = [tuple(rows) for rows in LETTERS.values()]
    assert len({*shapes}) == len(shapes)
