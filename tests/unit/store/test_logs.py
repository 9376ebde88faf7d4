"""The log of a rank while it is being written."""

from pathlib import Path

import pytest

from ddptui.store.journal import LONGEST_LINE, MOST_BYTES, LogTail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "repeat-1" / "rank-0.log"


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as log:
        log.write(text.encode() if isinstance(text, str) else text)


def test_lines_come_once_and_in_order(path: Path) -> None:
    write(path, "one\ntwo\n")
    tail = LogTail(path)
    assert tail.new_lines() == ["one", "two"]
    assert tail.new_lines() == []
    write(path, "three\n\nfour\n")
    assert tail.new_lines() == ["three", "", "four"]


def test_a_log_may_appear_later_and_its_folder_too(path: Path) -> None:
    tail = LogTail(path)
    assert tail.new_lines() == []
    path.parent.mkdir()
    assert tail.new_lines() == []
    write(path, "")
    assert tail.new_lines() == []
    write(path, "at last\n")
    assert tail.new_lines() == ["at last"]


def test_a_log_that_goes_again_says_no_more(path: Path) -> None:
    write(path, "one\n")
    tail = LogTail(path)
    assert tail.new_lines() == ["one"]
    path.unlink()
    assert tail.new_lines() == []


def test_what_is_no_file_has_no_lines(tmp_path: Path) -> None:
    assert LogTail(tmp_path).new_lines() == []
    write(tmp_path / "file" / "log", "x\n")
    assert LogTail(tmp_path / "file" / "log" / "below").new_lines() == []


def test_half_a_line_or_a_character_waits_for_the_other_half(path: Path) -> None:
    tail = LogTail(path)
    for piece, lines in (("st", []), ("ep ", []), ("1\nst", ["step 1"]), ("ep 2", []), ("\n", ["step 2"])):
        write(path, piece)
        assert tail.new_lines() == lines
    tail = LogTail(path)
    lines = []
    for byte in "é × 漢 😀\n".encode():
        write(path, bytes([byte]))
        lines += tail.new_lines()
    assert lines == ["é × 漢 😀"]


def test_what_is_no_text_is_shown_as_such_and_the_rest_stays(path: Path) -> None:
    write(path, b"bad \xff\xfe byte\nhalf \xc3\ngood\n")
    assert LogTail(path).new_lines() == ["bad �� byte", "half �", "good"]


def test_control_characters_are_spelled_out(path: Path) -> None:
    write(path, "\x1b[31mred\x1b[0m\nbell\x07\nnul\0\nback\rover\n\x9b2J\nright to left \u202e\n")
    assert LogTail(path).new_lines() == [
        "\\x1b[31mred\\x1b[0m", "bell\\x07", "nul\\x00", "back\\rover", "\\x9b2J", "right to left \\u202e",
    ]  # fmt: skip


def test_tabs_keep_their_columns_and_windows_lines_their_end(path: Path) -> None:
    write(path, "a\tb\r\n\tc\n")
    assert LogTail(path).new_lines() == ["a   b", "    c"]


def test_a_line_without_end_is_cut(path: Path) -> None:
    write(path, "x" * (LONGEST_LINE + 1) + "\n" + "y" * LONGEST_LINE + "\n")
    assert LogTail(path).new_lines() == ["x" * LONGEST_LINE, "y" * LONGEST_LINE]


def numbered(first: int, last: int) -> str:
    return "".join(f"line {number:7}\n" for number in range(first, last))


def test_of_a_huge_log_the_end_is_shown(path: Path) -> None:
    write(path, numbered(0, 100_000))
    lines = LogTail(path).new_lines()
    assert lines[1:] == numbered(0, 100_000).splitlines()[-len(lines) + 1 :]
    assert MOST_BYTES - 100 < sum(len(line) + 1 for line in lines) <= MOST_BYTES


def test_of_much_that_comes_at_once_the_end_is_shown(path: Path) -> None:
    write(path, numbered(0, 10))
    tail = LogTail(path)
    assert len(tail.new_lines()) == 10
    write(path, numbered(10, 100_000))
    lines = tail.new_lines()
    assert lines[-1] == f"line {99_999:7}"
    assert len(lines) < 10_000
    write(path, numbered(100_000, 100_002))
    assert tail.new_lines() == numbered(100_000, 100_002).splitlines()


@pytest.mark.parametrize("part", [1, 3 / 4, 1 / 2])
def test_what_comes_in_pieces_that_are_not_too_large_is_all_shown(path: Path, part: float) -> None:
    line, lines = "x" * 63, int(part * MOST_BYTES / 64)
    tail = LogTail(path)
    tail.new_lines()
    shown = []
    for _ in range(3):
        write(path, f"{line}\n" * lines)
        shown += tail.new_lines()
    assert shown == [line] * (3 * lines)


def test_after_a_jump_half_a_line_from_before_is_forgotten(path: Path) -> None:
    write(path, b"half a li\xc3")
    tail = LogTail(path)
    tail.new_lines()
    write(path, "x" * (MOST_BYTES + 100) + "ne\nnext\n")
    first, second = tail.new_lines()
    assert first.startswith("xxx")
    assert second == "next"
