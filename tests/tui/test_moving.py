"""The README's moving picture: each moment of it is what Textual draws then, and the file is small and all of it."""

import asyncio
import re
from collections.abc import Iterator
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from ddptui.store.runs import Run
from docs.moving import Frame, moving
from docs.pictures import HERE, pictures
from tests.tui.recordings import RECORDED

MOST_BYTES = 500_000
FRAME_S, LAST_S = 0.6, 3.0
XMLNS = 'xmlns="http://www.w3.org/2000/svg"'
CELL, LINE, TEXT, BACKGROUND = 12.2, 24.4, 20.0, 1.5  # px: a cell, and where in its row text and background are


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What Textual draws of the recorded run, moment by moment, and last of its result."""
    return asyncio.run(pictures(Run(RECORDED), "late", tmp_path_factory.mktemp("drawn")))


@pytest.fixture
def file(drawn: list[str]) -> Element:
    *trial, result = drawn
    return parsed(moving([*(Frame(picture, FRAME_S) for picture in trial), Frame(result, LAST_S)]))


Grid = dict[tuple[int, int], list[str | None]]  # by row and column: a character, its style, its background


def parsed(picture: str) -> Element:
    return ElementTree.fromstring(picture.replace(XMLNS, ""))


def grid(picture: Element, pieces: Iterator[tuple[float, Element]]) -> Grid:
    """The cells of a picture. pieces: its texts and backgrounds, each with the height that its own is counted from."""
    rules = dict(re.findall(r"\.([\w-]+) ?{ ?(fill.+?);? ?}", picture.findtext("style", "")))
    cells: Grid = {}
    for above, piece in pieces:
        y, first = above + float(piece.get("y", 0)), round(float(piece.attrib["x"]) / CELL)
        if piece.tag == "rect":
            row, width = round((y - BACKGROUND) / LINE), round(float(piece.attrib["width"]) / CELL)
            assert y == pytest.approx(row * LINE + BACKGROUND)
            cells |= {(row, column): [None, None, piece.get("fill")] for column in range(first, first + width)}
        elif text := (piece.text or "").strip("\n"):
            row = round((y - TEXT) / LINE)
            assert y == pytest.approx(row * LINE + TEXT)
            assert float(piece.attrib["textLength"]) == pytest.approx(len(text) * CELL)
            for column, character in enumerate(text, first):
                cells[row, column][:2] = character, rules[piece.attrib["class"]]
    return cells


def still(picture: str) -> Grid:
    exported = parsed(picture)
    return grid(exported, ((0.0, piece) for piece in exported.iterfind("g[@clip-path]//*[@y]")))


def at(file: Element, s: float | None) -> Grid:
    """The file at a moment; None: where nothing may move."""
    return grid(file, _shown(file, s))


def _shown(file: Element, s: float | None) -> Iterator[tuple[float, Element]]:
    css = file.findtext("style", "")
    keyframes = dict(re.findall(r"@keyframes (\w+){(.+)}", css))
    for row in file.iterfind("g/g[@class]"):
        _, *moves = row.attrib["class"].split()
        if moves:
            shows = "last" in moves
            if s is not None:
                part = 100 * s / float(re.findall(r"animation:([\d.]+)s step-end infinite", css)[0])
                keys = re.findall(r"([\d.]+)%{visibility:(\w+)}", keyframes[moves[1]])
                shows = [what for begins, what in keys if float(begins) <= part][-1] == "visible"
            if not shows:
                continue
        above = float(row.attrib["transform"].partition(",")[2].strip(")"))
        yield from ((above, piece) for piece in row)


def test_each_moment_is_what_textual_draws_then(drawn: list[str], file: Element) -> None:
    assert len(drawn) > 4
    grids = [*map(still, drawn)]
    for number, expected in enumerate(grids):
        for s in (number * FRAME_S + 0.01, (number + 1) * FRAME_S - 0.01):
            assert at(file, s) == expected
    assert at(file, len(drawn) * FRAME_S) == grids[-1]
    assert all(one != other for one, other in pairwise(grids))


def test_where_nothing_may_move_the_result_shows(drawn: list[str], file: Element) -> None:
    assert at(file, None) == still(drawn[-1])
    assert "@media (prefers-reduced-motion:no-preference)" in file.findtext("style", "")
    single = moving([Frame(drawn[0], 1.0)])
    assert at(parsed(single), 0.5) == still(drawn[0])
    assert "animation" not in single


def outside(picture: str) -> list[str]:
    """What of a picture is a script, or would be fetched from elsewhere."""
    return re.findall(r"<script|javascript:|\son\w+=|href|@import|https?://|url\((?!#)", picture.replace(XMLNS, ""))


@pytest.mark.parametrize(("name", "frames"), [("run", range(13, 22)), ("result", [1])])
def test_the_pictures_of_the_readme_are_small_and_need_nothing_else(name: str, frames: list[int]) -> None:
    text = (HERE / f"{name}.svg").read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_BYTES
    assert outside(text) == []
    assert len({*re.findall(r"([\d.]+)%{", text)} or [0]) in frames
