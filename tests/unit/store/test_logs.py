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


def test_lines_come_once_and_in_order_while_there_is_a_log(path: Path) -> None:
    tail = LogTail(path)
    assert tail.new_lines() == []
    path.parent.mkdir()
    assert tail.new_lines() == LogTail(path.parent).new_lines() == []
    write(path, "one\ntwo\n")
    assert tail.new_lines() == ["one", "two"]
    assert tail.new_lines() == LogTail(path / "below").new_lines() == []
    write(path, "three\n\nfour\n")
    assert tail.new_lines() == ["three", "", "four"]
    path.unlink()
    assert tail.new_lines() == []


def test_half_a_line_or_a_character_waits_for_the_other_half(path: Path) -> None:
    tail = LogTail(path)
    for piece, lines in (("st", []), ("ep ", []), ("1\nst", ["step 1"]), ("ep 2", []), ("\n", ["step 2"])):
        write(path, piece)
        assert tail.new_lines() == lines
    lines = []
    for byte in "é × 漢 😀\n".encode():
        write(path, bytes([byte]))
        lines += tail.new_lines()
    assert lines == ["é × 漢 😀"]


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"bad \xff\xfe byte\nhalf \xc3\ngood\n", ["bad \ufffd\ufffd byte", "half \ufffd", "good"]),
        ("\x1b[31mred\x1b[0m\nback\rover\n\x9b2J\n", ["\\x1b[31mred\\x1b[0m", "back\\rover", "\\x9b2J"]),
        ("bell\x07\nnul\0\nright to left \u202e\n", ["bell\\x07", "nul\\x00", "right to left \\u202e"]),
        ("a\tb\r\n\tc\n", ["a   b", "    c"]),
        ("x" * (LONGEST_LINE + 1) + "\n" + "y" * LONGEST_LINE + "\n", ["x" * LONGEST_LINE, "y" * LONGEST_LINE]),
    ],
    ids=["no text", "control characters", "invisible ones", "tabs and lines of Windows", "a line without end"],
)
def test_what_no_screen_can_show_is_spelled_out_or_cut(path: Path, written: str | bytes, lines: list[str]) -> None:
    write(path, written)
    assert LogTail(path).new_lines() == lines


def numbered(first: int, last: int) -> str:
    return "".join(f"line {number:7}\n" for number in range(first, last))


def test_of_much_that_comes_at_once_the_end_is_shown_and_half_a_line_forgotten(path: Path) -> None:
    write(path, numbered(0, 100_000))
    lines = LogTail(path).new_lines()
    assert lines[1:] == numbered(0, 100_000).splitlines()[-len(lines) + 1 :]
    assert MOST_BYTES - 100 < sum(len(line) + 1 for line in lines) <= MOST_BYTES
    path.unlink()
    write(path, numbered(0, 10))
    tail = LogTail(path)
    assert len(tail.new_lines()) == 10
    write(path, numbered(10, 100_000))
    lines = tail.new_lines()
    assert lines[-1] == f"line {99_999:7}"
    assert len(lines) < 10_000
    write(path, numbered(100_000, 100_002))
    assert tail.new_lines() == numbered(100_000, 100_002).splitlines()


@pytest.mark.parametrize("part", [1, 1 / 2])
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
