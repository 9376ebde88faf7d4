"""Texts by terminal cells: measured as rich, which draws the screens, measures them; cut, aligned and wrapped."""

import pytest
from rich import cells as of_rich

from ddptui.text.cells import CLOSING, cell_len, cut, ljust, paragraph, rjust
from ddptui.text.drawing import shorten, width_of
from ddptui.text.tables import Filled, Table, as_text

ZH = "rank 1 拖慢了所有 rank：每步 20 ms（95%：18.0 到 22.0 ms），在 backward 中。其他 rank 有 40% 的时间在等它。"


@pytest.mark.parametrize("text", ["", "abc", "平均梯度", "a 平均 b", "（95%：±5）", "── … × ± – ◆ ━░▓ ✓✗ ⠿", "e\u0301"])
def test_a_width_is_that_of_rich(text: str) -> None:
    assert cell_len(text) == of_rich.cell_len(text)


def test_a_cut_text_never_exceeds_its_width() -> None:
    assert [cut("a平均b", width) for width in range(7)] == ["", "a", "a", "a平", "a平", "a平均", "a平均b"]
    assert [shorten("平均梯度", width) for width in (8, 7, 6, 1, 0)] == ["平均梯度", "平均梯…", "平均…", "…", ""]


def test_a_text_is_aligned_by_cells() -> None:
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
