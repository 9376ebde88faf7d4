"""Words in large letters of half blocks."""

import string

import pytest

from ddptui.text.letters import GLYPHS, large


def test_each_pixel_of_a_letter_is_half_a_cell() -> None:
    assert large("1 up", 15, 3) == ["▄█      ▄ ▄ ▄▄", " █      █ █ █▄▀", "▀▀▀     ▀▀▀ ▀"]


def test_letters_are_as_large_as_there_is_room() -> None:
    heights = [
        len(large("ab", width, height)) for width, height in ((6, 9), (7, 2), (7, 3), (15, 6), (15, 5), (999, 99))
    ]
    assert heights == [0, 0, 3, 6, 3, 18]


def test_words_are_wrapped_and_centered() -> None:
    first, second = large("abc d", 13, 6)[1::3]
    assert first.index("█") < second.index("█")
    assert len(large("abc d", 19, 6)) == 3


@pytest.mark.parametrize("words", ["trial größer", "第一", "tab\t"])
def test_a_character_without_a_large_letter_makes_none(words: str) -> None:
    assert large(words, 500, 50) == []


def test_every_letter_has_five_rows_and_its_own_shape() -> None:
    assert {*string.ascii_letters, *string.digits} <= GLYPHS.keys()
    assert {len(rows) for rows in GLYPHS.values()} == {5}
    assert {len(row) for rows in GLYPHS.values() for row in rows} == {4}
    shapes = [tuple(rows) for rows in GLYPHS.values()]
    assert len({*shapes}) == len(shapes)
